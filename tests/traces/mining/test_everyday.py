"""What fifty everyday sessions teach: what an engineer would take from them, and nothing where there is nothing."""

from __future__ import annotations

from combee.traces.mining import survey
from tests.traces.mining.everyday import SESSIONS, trace_of


def taught() -> dict[str, list[str]]:
    return {
        session.name: [each.text for each in survey([trace]).by_trace[trace.id]]
        for number, session in enumerate(SESSIONS)
        for trace in [trace_of(session, number)]
    }


def test_forty_five_of_fifty_everyday_sessions_teach_what_an_engineer_would_take() -> None:
    said = taught()
    teaching = [session for session in SESSIONS if session.takes]
    right = [each for each in teaching if any(all(w in text for w in each.takes) for text in said[each.name])]
    missed = {each.name: said[each.name] for each in teaching if each not in right}
    assert len(right) >= 45, missed


def test_sessions_that_show_nothing_teach_nothing() -> None:
    said = taught()
    assert {each.name: said[each.name] for each in SESSIONS if not each.takes and said[each.name]} == {}
