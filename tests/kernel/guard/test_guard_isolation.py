"""Labels decide which playbook a trace may reach, and no operation widens who may read a lesson."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.guard import Policy, check_book, isolate, readable, why_refused
from combee.kernel.playbook import (
    Add,
    Bullet,
    Delta,
    Merge,
    Operation,
    Playbook,
    Remove,
    Update,
    apply,
    deduplicate,
    merge,
    view,
)

ACME = Policy(tenants=frozenset({"acme"}), clearance="internal")
LABELS = {
    "ok": {"tenant": "acme", "clearance": "public"},
    "ok2": {"tenant": "acme", "clearance": "internal"},
    "foreign": {"tenant": "globex", "clearance": "public"},
    "high": {"tenant": "acme", "clearance": "secret"},
    "bare": {},
}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"tenant": "acme", "clearance": "internal"}, ""),
        ({"tenant": " acme ", "clearance": "public"}, ""),
        ({"tenant": "globex", "clearance": "public"}, "tenant globex is not allowed"),
        ({"tenant": "ACME", "clearance": "public"}, "tenant ACME is not allowed"),
        ({"tenant": "acme,globex", "clearance": "public"}, "tenant acme,globex is not allowed"),
        ({"tenant": "acme", "clearance": "secret"}, "clearance secret is above internal"),
        ({"tenant": "acme", "clearance": "Public"}, "clearance Public is not in the order"),
        ({"tenant": "acme"}, "no clearance label"),
        ({"tenant": "", "clearance": "public"}, "no tenant label"),
        ({}, "no tenant label"),
    ],
)
def test_a_strict_policy_admits_only_what_is_labelled_and_allowed(labels: dict[str, str], reason: str) -> None:
    answer = why_refused(labels, ACME)
    assert (answer == "") is (reason == "")
    assert reason in answer


def test_an_open_policy_admits_everything() -> None:
    assert not any(why_refused(labels, Policy()) for labels in LABELS.values())
    anything = Delta((Remove("x"),))
    assert isolate(anything, {}, Policy()) == (anything, ())


def test_each_restriction_asks_for_its_own_label_only() -> None:
    assert not why_refused({"tenant": "acme"}, Policy(tenants=frozenset({"acme"})))
    assert not why_refused({"clearance": "public"}, Policy(clearance="public"))
    assert why_refused({"tenant": "acme"}, Policy(tenants=frozenset()))


def test_a_policy_must_make_sense() -> None:
    with pytest.raises(UsageError, match="'top' is not in the order"):
        Policy(clearance="top")
    with pytest.raises(UsageError, match="twice"):
        Policy(order=("a", "a"))


@given(st.lists(st.sampled_from(sorted(LABELS)), min_size=1, max_size=5))
def test_mixed_text_is_admitted_only_if_every_source_is(names: list[str]) -> None:
    mixed = Delta((Add("OTHERS", "mixed", tuple(names)),))
    kept, refused = isolate(mixed, LABELS, ACME)
    assert (refused == ()) is (kept == mixed) is not any(why_refused(LABELS[name], ACME) for name in names)


def test_every_kind_of_operation_is_checked() -> None:
    bad: list[Operation] = [
        Add("OTHERS", "smuggled 1", ("foreign",)),
        Update("misc-00001", "smuggled 2", ("ok", "high")),
        Merge(("misc-00001", "misc-00002"), "smuggled 3", ("bare",)),
        Remove("misc-00003", ("unheard-of",)),
        Add("OTHERS", "smuggled 4", ()),
    ]
    good = Add("OTHERS", "fine", ("ok", "ok2"))
    kept, refused = isolate(Delta((*bad, good)), LABELS, ACME)
    assert kept == Delta((good,))
    assert [operation for operation, _ in refused] == bad
    assert "tenant globex" in refused[0][1]
    assert "names no source" in refused[4][1]


def test_nothing_gets_in_through_merge_apply_duplicates_or_views() -> None:
    base = Playbook((Bullet("misc-00001", "OTHERS", "seed lesson 7"),), high_water=1)
    trusted = frozenset({"misc-00001"})
    mine = Delta((Add("OTHERS", "Use endpoint /v2/orders with 50 rows", ("ok",)),))
    theirs = Delta((Add("OTHERS", "Use endpoint /v2/orders with 50 rows", ("foreign",)),))
    # Equal operations unite their sources: the merged lesson is as restricted as the foreign one.
    united = merge(mine, theirs)
    assert isolate(united, LABELS, ACME)[0] == Delta()
    book = apply(base, united).playbook
    refused = set(check_book(book, LABELS, ACME, trusted=trusted))
    assert refused == {bullet.id for bullet in book if "foreign" in bullet.sources} != set()

    twins = Playbook(
        (
            *base.bullets,
            Bullet("misc-00002", "OTHERS", "Call the billing API before noon", sources=("ok",)),
            Bullet("misc-00003", "OTHERS", "Call the billing API before noon", sources=("high",)),
        ),
        high_water=3,
    )
    single = deduplicate(twins, 0.9)
    assert list(check_book(single, LABELS, ACME, trusted=trusted)) == [
        bullet.id for bullet in single if "high" in bullet.sources
    ]
    part = view(single, "billing", 1000)
    assert "high" not in {
        source for bullet in readable(part, LABELS, ACME, trusted=trusted) for source in bullet.sources
    }


def test_bullets_without_sources_stand_only_where_trusted() -> None:
    book = Playbook((Bullet("a-00001", "OTHERS", "seed"), Bullet("a-00002", "OTHERS", "ghost")), high_water=2)
    assert list(check_book(book, {}, ACME, trusted=frozenset({"a-00001"}))) == ["a-00002"]
    # Being trusted does not cover sources that came later.
    grown = Playbook((Bullet("a-00001", "OTHERS", "seed", sources=("foreign",)),), high_water=1)
    assert len(check_book(grown, LABELS, ACME, trusted=frozenset({"a-00001"}))) == 1
    assert len(readable(grown, LABELS, ACME, trusted=frozenset({"a-00001"}))) == 0
    assert readable(book, {}, Policy()) is book
