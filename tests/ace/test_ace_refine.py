from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.scripted_models import ScriptedModel
from combee.ace import clusters_of, refine
from combee.errors import CallError, CallErrorKind, UsageError
from combee.kernel.journal import MemoryScope
from combee.kernel.playbook import Bullet, Playbook, distinct_terms

TEXTS = (
    "Read gauge G-001 at 40 bar before the pump starts",
    "Before the pump starts read gauge G-001 at 40 bar, valve V-7 closed",
    "Sort the ledger by date",
)
BOOK = Playbook(
    tuple(Bullet(f"misc-{n:05d}", "OTHERS", text, n, 0, (f"r{n}",)) for n, text in enumerate(TEXTS, start=1)),
    high_water=3,
)
JOINED = "Before the pump starts, valve V-7 closed, read gauge G-001 at 40 bar"


def reply(*bullets: dict[str, Any]) -> str:
    return json.dumps({"reasoning": "", "bullets": list(bullets)})


def test_clusters_hold_related_entries_and_have_a_size_limit() -> None:
    assert [[bullet.id for bullet in cluster] for cluster in clusters_of(BOOK)] == [["misc-00001", "misc-00002"]]
    many = Playbook(tuple(Bullet(f"misc-{n:05d}", "OTHERS", f"read the gauge of pump {n}") for n in range(40)))
    assert max(len(cluster) for cluster in clusters_of(many, most=5)) <= 5
    with pytest.raises(UsageError):
        clusters_of(BOOK, most=1)


def test_a_cluster_has_sources_for_all_of_its_entries_or_for_none() -> None:
    text = "read the gauge of the pump"
    mixed = Playbook(tuple(Bullet(f"misc-{n:05d}", "OTHERS", text, sources=("r",) * (n % 2)) for n in range(1, 9)))
    found = [[bool(bullet.sources) for bullet in cluster] for cluster in clusters_of(mixed)]
    assert found == [[True] * 4, [False] * 4]


async def test_entries_that_say_the_same_are_joined_before_any_call_and_counters_add_up() -> None:
    same = "Please sort the ledgers by date."
    book = Playbook(
        (
            Bullet("misc-00001", "OTHERS", TEXTS[2], 2, 1, ("r1",)),
            Bullet("misc-00002", "OTHERS", TEXTS[2], 3, 0, ("r2",)),
            Bullet("misc-00003", "OTHERS", same, 1, 0),  # of no source: it stays apart
            Bullet("misc-00004", "OTHERS", TEXTS[2], 1, 0),
        ),
        high_water=4,
    )
    refined = await refine(book, ScriptedModel([]), threshold=1.0)
    assert [(bullet.id, bullet.helpful, bullet.harmful, bullet.sources) for bullet in refined.playbook] == [
        ("misc-00002", 5, 1, ("r1", "r2")),
        ("misc-00003", 1, 0, ()),
        ("misc-00004", 1, 0, ()),
    ]
    assert (refined.folded, refined.clusters) == (1, ())
    assert refined.tokens_after < refined.tokens_before


async def test_related_entries_become_one_that_says_all_and_counters_add_up() -> None:
    model = ScriptedModel([reply({"text": JOINED, "bullet_ids": ["misc-00001", "misc-00002"]})])
    found = await refine(BOOK, model)
    assert len(found.playbook) == 2
    merged = next(bullet for bullet in found.playbook if "V-7" in bullet.text)
    assert (merged.helpful, set(merged.sources)) == (3, {"r1", "r2"})
    assert distinct_terms(TEXTS[0]) | distinct_terms(TEXTS[1]) <= distinct_terms(merged.text)
    assert found.tokens_after < found.tokens_before
    assert [cluster.result for cluster in found.clusters] == ["rewritten"]


@pytest.mark.parametrize(
    ("bullets", "why"),
    [
        ([{"text": "Read the gauge before the pump starts", "bullet_ids": ["misc-00001", "misc-00002"]}], "lost"),
        ([{"text": JOINED, "bullet_ids": ["misc-00001", "misc-00003"]}], "not given"),
        ([{"text": JOINED, "bullet_ids": ["misc-00001", "foo-00009"]}], "not given"),
        ([{"text": JOINED, "bullet_ids": []}], "not given"),
        ([{"text": JOINED + " and so on" * 40, "bullet_ids": ["misc-00001", "misc-00002"]}], "shorter"),
        ([{"text": JOINED, "bullet_ids": ["misc-00001"]}, {"text": JOINED, "bullet_ids": ["misc-00001"]}], "twice"),
        (["text"], "form"),
        ([], "nothing"),
    ],
)
async def test_a_rewrite_that_loses_or_confuses_something_leaves_the_entries_alone(
    bullets: list[dict[str, Any]], why: str
) -> None:
    found = await refine(BOOK, ScriptedModel([reply(*bullets)]))
    assert found.playbook == BOOK
    assert [why in cluster.result for cluster in found.clusters] == [True]


async def test_a_cluster_whose_call_fails_is_left_alone_and_named() -> None:
    found = await refine(BOOK, ScriptedModel([CallError("down", kind=CallErrorKind.SERVER)]))
    assert found.playbook == BOOK
    assert "down" in found.clusters[0].result


async def test_a_cluster_is_paid_once() -> None:
    scope = MemoryScope()
    model = ScriptedModel([reply({"text": JOINED, "bullet_ids": ["misc-00001", "misc-00002"]})])
    first = await refine(BOOK, model, scope=scope)
    assert (await refine(BOOK, model, scope=scope)).playbook == first.playbook
    assert len(model.requests) == 1


async def test_what_was_kept_brings_back_no_source_that_was_taken_out_since() -> None:
    scope = MemoryScope()
    model = ScriptedModel([reply({"text": JOINED, "bullet_ids": ["misc-00001", "misc-00002"]})])
    whole = replace(BOOK, bullets=(replace(BOOK.bullets[0], sources=("r1", "forgotten")), *BOOK.bullets[1:]))
    first = await refine(whole, model, scope=scope)
    assert {source for bullet in first.playbook for source in bullet.sources} == {"r1", "r2", "r3", "forgotten"}
    second = await refine(BOOK, model, scope=scope)
    assert [cluster.result for cluster in second.clusters] == ["rewritten"]
    assert {source for bullet in second.playbook for source in bullet.sources} == {"r1", "r2", "r3"}


class Tuned(ScriptedModel):
    """A model of the same name with another body parameter."""

    parameters: Mapping[str, Any] = {"top_k": 1}


async def test_a_model_with_other_parameters_is_asked_again() -> None:
    scope = MemoryScope()
    answers = [reply({"text": JOINED, "bullet_ids": ["misc-00001", "misc-00002"]})]
    plain, tuned = ScriptedModel(answers), Tuned(answers)
    await refine(BOOK, plain, scope=scope)
    await refine(BOOK, tuned, scope=scope)
    assert (plain.name, len(plain.requests), len(tuned.requests)) == (tuned.name, 1, 1)
