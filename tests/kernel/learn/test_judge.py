"""The guard in the loop by itself: what it remembers can be taken along, and books are compared by what was right."""

from __future__ import annotations

import json

from combee.kernel.guard import Evidence
from combee.kernel.journal import MemoryScope, Scope
from combee.kernel.learn import Evaluation, Judge, Score
from combee.kernel.playbook import Bullet, Delta, Playbook

BOOK = Playbook((Bullet("misc-00001", "OTHERS", "Part XA-001 fits.", sources=("r1",)),), 4)


def test_a_judge_goes_on_from_the_state_of_another() -> None:
    one, other = Judge(), Judge()
    one.begin(BOOK)
    collapsed = Evidence(0, {f"r{n}": f"part XK-{n}" for n in range(16)}, Delta(), max_items=4, attempt=2)
    one.remember(collapsed, one.on_evidence(collapsed), BOOK, leafwise=True)
    other.set_state(json.loads(json.dumps(one.get_state())))
    assert (other.stable, other.ceiling) == (BOOK, 4)
    for _ in range(20):
        for judge in (one, other):
            judge.remember(Evidence(1, {}, Delta()), judge.on_evidence(Evidence(1, {}, Delta())), BOOK, leafwise=True)
        assert other.get_state() == one.get_state()
    assert one.ceiling is not None
    assert one.ceiling > 4


async def test_a_book_is_compared_by_shares_where_answers_have_different_numbers_of_parts() -> None:
    """A rubric may find as many parts as an answer has: more hits of many more parts are a loss."""

    async def validate(book: Playbook, scope: Scope) -> Evaluation:
        score = Score(9, 20) if book == BOOK else Score(10, 40)
        return Evaluation({f"t{n}": score for n in range(20)}, {})

    judge = Judge(validate=validate)
    judge.begin(BOOK)
    found = await judge.on_scores(Evidence(0, {}, Delta()), Playbook(), BOOK, MemoryScope())
    assert (found.action, found.rollback) == ("reject", True)
    assert "0.250 against 0.450 of stable on 20 rows" in found.reasons[0]
