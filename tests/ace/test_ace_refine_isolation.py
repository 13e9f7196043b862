"""Refining smuggles no lesson past its labels: what a call wrote is as restricted as everything that the call read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.scripted_models import ScriptedModel
from combee.ace import Refined, refine
from combee.kernel.guard import Policy, check_book, readable
from combee.kernel.playbook import Bullet, Playbook, distinct_terms, to_text, view

HIDDEN = "margin stays hidden from buyers"
POLICY = Policy(tenants=frozenset({"own"}), clearance="internal")
OWN = {"tenant": "own", "clearance": "internal"}
LABELS = {
    "own-1": OWN,
    "own-2": {"tenant": "own", "clearance": "public"},
    "own-3": OWN,
    "foreign": {"tenant": "other", "clearance": "public"},
    "high": {"tenant": "own", "clearance": "secret"},
    "bare": {},
}
LONG = "Before the pump starts, always read the gauge of the pump twice and write the reading of the gauge down"
SHORT = "Read the pump gauge before the pump starts and write the reading down"
# The first and the second are one lesson; the third is near enough to stand in their cluster; the fourth is far.
TEXTS = (LONG, SHORT, f"Before the pump starts read the gauge of the pump: {HIDDEN}", "Sort invoices by date")
SMUGGLED = f"Before the pump starts, always read the gauge twice, write the reading down; {HIDDEN}"

ALONE = f"{' '.join(sorted(distinct_terms(LONG)))}; {HIDDEN}"


def book(restricted: str) -> Playbook:
    sources = (("own-1",), ("own-2",), (restricted,), ("own-3",))
    bullets = (Bullet(f"misc-{n:05d}", "OTHERS", TEXTS[n - 1], 1, 0, sources[n - 1]) for n in range(1, 5))
    return Playbook(tuple(bullets), high_water=4)


async def refined(restricted: str, text: str, ids: Sequence[str]) -> Refined:
    reply = {"reasoning": "", "bullets": [{"text": text, "bullet_ids": list(ids)}]}
    return await refine(book(restricted), ScriptedModel([json.dumps(reply)]))


@pytest.mark.parametrize("restricted", ["foreign", "high", "bare", "unheard-of"])
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (SMUGGLED, ("misc-00001", "misc-00002")),
        (ALONE, ("misc-00001",)),
        (SMUGGLED, ("misc-00001", "misc-00002", "misc-00003")),
    ],
)
async def test_what_a_rewrite_took_from_a_restricted_entry_stays_restricted(
    restricted: str, text: str, ids: Sequence[str]
) -> None:
    found = await refined(restricted, text, ids)
    assert [cluster.result for cluster in found.clusters] == ["rewritten"]
    assert HIDDEN in to_text(found.playbook)
    seen = readable(found.playbook, LABELS, POLICY)
    assert HIDDEN not in to_text(seen)
    assert HIDDEN not in to_text(readable(view(found.playbook, "pump gauge margin", 1000), LABELS, POLICY))
    assert TEXTS[3] in to_text(seen)
    leaking = {bullet.id for bullet in found.playbook if HIDDEN in bullet.text}
    assert leaking <= check_book(found.playbook, LABELS, POLICY).keys()


async def test_refining_what_may_be_read_leaves_all_of_it_readable() -> None:
    mine = readable(book("foreign"), LABELS, POLICY)
    assert len(mine) == 3
    reply = {"reasoning": "", "bullets": [{"text": LONG, "bullet_ids": ["misc-00001", "misc-00002"]}]}
    found = await refine(mine, ScriptedModel([json.dumps(reply)]))
    assert [cluster.result for cluster in found.clusters] == ["rewritten"]
    assert check_book(found.playbook, LABELS, POLICY) == {}
    assert len(readable(found.playbook, LABELS, POLICY)) == 2


async def test_an_entry_that_rests_on_nothing_is_joined_to_none_that_has_sources() -> None:
    seed = book("own-3")
    seed = replace(seed, bullets=(*seed.bullets[:2], replace(seed.bullets[2], sources=()), seed.bullets[3]))
    reply = {"reasoning": "", "bullets": [{"text": SMUGGLED, "bullet_ids": [f"misc-0000{n}" for n in (1, 2, 3)]}]}
    found = await refine(seed, ScriptedModel([json.dumps(reply)]))
    assert [cluster.ids for cluster in found.clusters] == [("misc-00001", "misc-00002")]
    assert found.playbook == seed
    assert HIDDEN not in to_text(readable(found.playbook, LABELS, POLICY))


async def test_entries_that_rest_on_nothing_are_joined_and_still_rest_on_nothing() -> None:
    seed = book("own-3")
    seed = replace(seed, bullets=tuple(replace(bullet, sources=()) for bullet in seed.bullets))
    reply = {"reasoning": "", "bullets": [{"text": SMUGGLED, "bullet_ids": [f"misc-0000{n}" for n in (1, 2, 3)]}]}
    found = await refine(seed, ScriptedModel([json.dumps(reply)]))
    assert [cluster.result for cluster in found.clusters] == ["rewritten"]
    assert len(readable(found.playbook, LABELS, POLICY)) == 0
