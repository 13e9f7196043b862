"""The guard in gepa's search: a proposal that collapses is made again, one of no use is refused, somebody is told."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.gepa import CombeeReflection
from combee.kernel.guard import HeldOut, LeakIndex
from combee.kernel.journal import Journal
from combee.kernel.learn import Judge
from combee.kernel.playbook import Bullet, Playbook, save, to_text, tokens
from combee.mock import MockServer
from tests.gepa.answers import records
from tests.gepa.scripts import Both, learning, records_in, rows


def operations(*found: dict[str, Any]) -> str:
    return json.dumps({"reasoning": "", "operations": list(found)})


def operation(kind: str, text: str = "", ids: tuple[str, ...] = (), sources: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"type": kind, "section": "OTHERS", "content": text, "bullet_ids": list(ids), "sources": list(sources)}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return rows(tmp_path / "gauges.jsonl", 24)


def learned(script: Both, capsys: pytest.CaptureFixture[str], *more: str, **sizes: int) -> dict[str, Any]:
    async def whole() -> int:
        async with MockServer(reply=script) as server:
            return await asyncio.to_thread(
                run, learning(server.url, "b" if "--no-guard" in more else "a", *more, **sizes)
            )

    assert asyncio.run(whole()) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def gauge(text: str) -> str:
    found = re.search(r"G-\d+", text)
    return found[0] if found else ""


def events(name: str, kind: str) -> list[dict[str, Any]]:
    with Journal.open(Path("runs") / name, create=False, read_only=True) as journal:
        return [event.data for event in journal.events() if event.kind == kind and isinstance(event.data, dict)]


def test_a_collapsing_proposal_is_made_again_in_smaller_groups_and_unguarded_it_costs_lessons(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def overloaded(script: Both) -> Callable[[str], str]:
        sound = script.reflects

        def reflects(prompt: str) -> str:
            found = json.loads(sound(prompt))
            if records_in(prompt) > 5:
                found["operations"] = found["operations"][:1]
            return json.dumps(found)

        return reflects

    found = []
    for more in ((), ("--no-guard",)):
        script = Both(source, m0=None)
        script.reflects = overloaded(script)
        found.append(learned(script, capsys, *more))
    guarded, unguarded = found
    assert guarded["validation"]["hits"] == 20 > unguarded["validation"]["hits"]
    assert "the guard had made again in smaller groups" in guarded["detail"]
    first, second = events("a", "GuardJudged")[:2]
    assert (first["verdict"], first["max_items"]) == ("retry_smaller", 5)
    assert first["reasons"] == ["the lessons rest on 20% of 10 reflections"]
    assert (second["verdict"], second["attempt"]) == ("accept", 1)
    assert {one["verdict"] for one in events("b", "GuardJudged")} == {"accept"}
    assert "retry smaller" in (Path("runs/a/report.html")).read_text(encoding="utf-8")


def test_platitudes_are_refused_before_they_cost_rollouts_and_the_users_command_is_told(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Both(source)
    script.reflects = lambda prompt: operations(*(operation("ADD", f"Check it {n} times.") for n in ("a", "b", "c")))
    write = "import pathlib, sys; open('told.jsonl', 'a').write(sys.stdin.read())"
    command = json.dumps(shlex.join([sys.executable, "-c", write]))
    Path("combee.toml").write_text(f"[guard]\nalert_command = {command}\n", encoding="utf-8")
    found = learned(script, capsys)
    assert (found["reason"], found["bullets"]) == ("completed", 0)
    assert found["detail"].endswith("refused 4")
    assert not events("a", "GepaProposal")
    told = [json.loads(line) for line in Path("told.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(one["run"], one["step"], one["verdict"]) for one in told] == [("a", step, "reject") for step in range(4)]


def test_a_candidate_that_falls_below_stable_is_told_and_never_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gains on its minibatch by what it takes from all other tasks: gepa itself lets it in."""
    monkeypatch.chdir(tmp_path)
    script = Both(rows(tmp_path / "gauges.jsonl", 64), m0=None)
    known = list(script.lessons.values())[:40]
    book = Playbook(tuple(Bullet(f"misc-{n:05d}", "OTHERS", text) for n, text in enumerate(known, start=1)), 40)
    save(book, tmp_path / "start.json")
    sound = script.reflects

    def reflects(prompt: str) -> str:
        shown = prompt[prompt.index("Record 1:") :]
        lost = [bullet.id for bullet in book if gauge(bullet.text) not in shown][:20]
        found = json.loads(sound(prompt))
        found["operations"] += [operation("REMOVE", ids=(name,), sources=(1,)) for name in lost]
        return json.dumps(found)

    script.reflects = reflects
    found = learned(script, capsys, "--start", "start.json", "--epochs", "1", train=60)
    assert found["bullets"] >= 40
    alerts = [one for one in events("a", "GuardJudged") if one["verdict"] == "alert"]
    assert any("worse than stable beyond chance" in reason for one in alerts for reason in one["reasons"])


def test_samples_of_another_tenant_are_not_learned_from(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    marked = [json.dumps({**line, "tenant": "ours" if n % 2 else "theirs"}) for n, line in enumerate(lines)]
    source.write_text("\n".join(marked), encoding="utf-8")
    Path("combee.toml").write_text('[guard]\ntenants = ["ours"]\n', encoding="utf-8")
    script = Both(source, m0=None)
    learned(script, capsys)
    refused = {event["sample"] for event in events("a", "SampleRefused")}
    asked = "\n".join(prompt for prompt in script.asked if "Record 1:" in prompt)
    assert len(refused) == 10
    assert all(gauge(script.lessons[name]) not in asked for name in refused)


def test_a_rewritten_text_may_lose_words_but_not_most_of_itself_and_quotes_no_answer() -> None:
    old = " ".join(f"Rule {n}: part XA-{n:03d} fits." for n in range(60))
    judge = Judge(held_out=LeakIndex([HeldOut("t9", "987654.5")]))

    def proposed(new: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
        with CombeeReflection(lambda prompt: f"<new_text>\n{new}\n</new_text>", judge=judge) as reflection:
            proposal, _ = reflection.reflect({"a": old}, {"a": records(3)}, ["a"])
        return proposal.new_texts, proposal.metadata["combee:a"]["guard"]

    assert proposed(old[: len(old) * 2 // 3])[0]
    for new, reason in (("Be careful.", "tokens"), (f"{old}\nThe last answer is 987654.5", "held-out answer of t9")):
        texts, guard = proposed(new)
        assert texts == {}
        assert guard[0]["verdict"] == "reject"
        assert any(reason in said for said in guard[0]["reasons"])


def test_half_a_playbook_may_not_be_removed() -> None:
    book = Playbook(tuple(Bullet(f"misc-{n:05d}", "OTHERS", f"Part XA-{n:03d} fits.") for n in range(1, 61)), 60)
    cut = operations(*(operation("REMOVE", ids=(bullet.id,), sources=(1,)) for bullet in book.bullets[:40]))
    with CombeeReflection(lambda prompt: cut) as reflection:
        proposal, _ = reflection.reflect({"book": to_text(book)}, {"book": records(3)}, ["book"])
        assert proposal.new_texts == {}
        state: Any = reflection.get_state()
        assert state["judge"]["ceiling"] is not None
    assert [one["verdict"] for one in proposal.metadata["combee:book"]["guard"]][-1] == "reject"


def test_what_the_budget_takes_out_of_a_start_book_is_no_loss_of_the_delta() -> None:
    book = Playbook(tuple(Bullet(f"misc-{n:05d}", "OTHERS", f"Part XA-{n:03d} fits.") for n in range(1, 101)), 100)

    def judged(*more: dict[str, Any]) -> tuple[dict[str, str], str]:
        def answer(prompt: str) -> str:
            shown = re.findall(r"part (XK-\d+)", prompt[prompt.index("Record 1:") :])
            better = (
                operation("UPDATE", f"Name part {part}.", (f"misc-{100 - n:05d}",), (n,))
                for n, part in enumerate(shown, start=1)
            )
            return operations(*better, *more)

        with CombeeReflection(answer, token_budget=tokens(book) // 3, second_chances=0) as reflection:
            proposal, _ = reflection.reflect({"book": to_text(book)}, {"book": records(3)}, ["book"])
        return proposal.new_texts, proposal.metadata["combee:book"]["guard"][-1]["verdict"]

    texts, verdict = judged()
    assert verdict == "accept"
    assert all(f"XK-{n:03d}" in texts["book"] for n in range(3))
    assert judged(*(operation("REMOVE", ids=(one.id,), sources=(1,)) for one in book.bullets[:90])) == ({}, "reject")


def test_a_resumed_optimisation_is_guarded_as_if_it_had_never_stopped() -> None:
    """After a collapse calls stay small until steps are calm: how many have been so is kept too."""
    calls: list[int] = []

    def answer(prompt: str) -> str:
        shown = re.findall(r"part (XK-\d+)", prompt[prompt.index("Record 1:") :])
        calls.append(len(shown))
        kept = shown[:1] if shown[0].startswith("XK-00") and len(shown) > 5 else shown
        found = (operation("ADD", f"Name part {part} first.", sources=(n,)) for n, part in enumerate(kept, start=1))
        return operations(*found)

    def guarded(resumed_at: int | None) -> list[tuple[int, int, Any]]:
        reflection, found, text = CombeeReflection(answer, second_chances=0), [], to_text(Playbook())
        for step in range(14):
            if step == resumed_at:
                state = json.loads(json.dumps(reflection.get_state()))
                reflection.close()
                reflection = CombeeReflection(answer, second_chances=0)
                reflection.set_state(state)
            calls.clear()
            number = reflection.step
            seen = [{"Inputs": f"case {n}", "Feedback": f"It must name part XK-{step:02d}{n:02d}."} for n in range(16)]
            proposal, _ = reflection.reflect({"book": text}, {"book": seen}, ["book"])
            text = proposal.new_texts["book"]
            found.append((number, max(calls), reflection.get_state()["judge"]))
        reflection.close()
        return found

    whole = guarded(None)
    assert whole[0][1] > whole[1][1] < whole[-1][1]  # smaller calls after the collapse, then they grow again
    assert guarded(3) == whole


def test_a_lesson_need_not_hold_the_answer_to_its_case() -> None:
    """Feedback that tells no more than the right answer: a rule gives it, and does not quote it."""
    cases = [{"Inputs": f"Convert gauge GX-{n}.", "Feedback": f"Wrong. It is {n * 7919}.5"} for n in range(1, 9)]

    def answer(prompt: str) -> str:
        shown = [int(found) for found in re.findall(r"Convert gauge GX-(\d+)", prompt)]
        rules = [f"Gauge GX-{n} counts in feet." for n in shown]
        return operations(*(operation("ADD", rule, sources=(place,)) for place, rule in enumerate(rules, start=1)))

    with CombeeReflection(answer, second_chances=0) as reflection:
        proposal, _ = reflection.reflect({"book": to_text(Playbook())}, {"book": cases}, ["book"])
    assert proposal.metadata["combee:book"]["covered"] == 0
    assert [one["verdict"] for one in proposal.metadata["combee:book"]["guard"]] == ["accept"]
    assert "Gauge GX-8 counts in feet." in proposal.new_texts["book"]


def test_a_bullet_that_helped_is_not_taken_out_of_a_playbook_without_cause() -> None:
    voted = [
        Bullet(f"misc-{n:05d}", "OTHERS", f"Gauge G-{n:03d} must be read twice above {100 + n} bar.", 5 + n % 7)
        for n in range(1, 61)
    ]
    gone = tuple(bullet.id for bullet in voted[:24])

    def erodes(prompt: str) -> str:
        numbers = re.findall(r"Record (\d+):", prompt)
        adds = [
            operation("ADD", f"Part {code} must be named.", (), (int(number),))
            for number, code in zip(numbers, re.findall(r"part ([A-Z]+-\d+)", prompt), strict=False)
        ]
        return operations(*adds, *(operation("REMOVE", "", (name,), (1,)) for name in gone))

    cases = [{"Inputs": f"case {n}", "Feedback": f"It must name part XK-{n:04d}."} for n in range(12)]
    with CombeeReflection(erodes) as reflection:
        proposal, _ = reflection.reflect({"a": to_text(Playbook(tuple(voted), 60))}, {"a": cases}, ["a"])
    book, figures = reflection.book_of(proposal.new_texts["a"]), proposal.metadata["combee:a"]
    assert {bullet.id for bullet in voted} <= {bullet.id for bullet in book}
    assert any("without cause" in reason for said in figures["guard"] for reason in said["reasons"]), figures["guard"]


def rewriting(answer: Callable[[str], str], count: int, **options: Any) -> tuple[dict[str, str], dict[str, Any]]:
    with CombeeReflection(answer, **options) as reflection:
        proposal, _ = reflection.reflect({"a": "Be exact."}, {"a": records(count)}, ["a"])
    return proposal.new_texts, proposal.metadata["combee:a"]


def test_a_text_into_which_most_records_did_not_go_is_made_again_in_smaller_groups_and_told() -> None:
    def answer(prompt: str) -> str:
        shown = re.findall(r"part XK-(\d+)", prompt)
        if "Record 1:" in prompt and max(map(int, shown)) >= 8:
            raise RuntimeError("no window holds this record")
        lines = "\n".join(f"Name part {part} first." for part in dict.fromkeys(re.findall(r"XK-\d+", prompt)))
        return f"<new_text>\nBe exact.\n{lines}\n</new_text>"

    texts, told = rewriting(answer, 24, max_items=8, copies=1)
    assert [one["verdict"] for one in told["guard"]][:: len(told["guard"]) - 1] == ["retry_smaller", "alert"]
    assert told["guard"][-1]["reasons"] == ["8 of 24 records went into the text, under 50%"]
    assert texts["a"].count("XK-") == 8


def test_lines_for_which_a_text_has_no_room_are_told_and_the_rest_is_kept() -> None:
    def answer(prompt: str) -> str:
        found = list(dict.fromkeys(re.findall(r"XK-\d+", prompt)))
        kept = found if "Record 1:" in prompt else found[:1]  # a combining call that forgets
        lines = "\n".join(f"Name part {part} first, before any other." for part in kept)
        return f"<new_text>\nBe exact.\n{lines}\n</new_text>"

    texts, told = rewriting(answer, 32, max_items=8, copies=1, token_budget=60)
    assert texts["a"].count("XK-") < 32
    assert told["guard"][-1]["verdict"] == "alert"
    assert "the text had no room for" in told["guard"][-1]["reasons"][0]
