"""Which traces may reach which playbook: labels (tenant, clearance), a policy per book, and refusal with a reason.

Labels travel with the text: what was made from several sources belongs to all their tenants and needs their highest
clearance. So no merge, duplicate, rewrite or view can widen who may read a lesson.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from combee.errors import UsageError
from combee.playbook import Delta, Playbook

__all__ = [
    "DEFAULT_CLEARANCES",
    "Admission",
    "Labels",
    "Policy",
    "Violation",
    "admit",
    "admitted",
    "check_book",
    "check_delta",
    "labels_of",
    "propagate",
    "readable",
]

DEFAULT_CLEARANCES = ("public", "internal", "confidential", "secret")


@dataclass(frozen=True, slots=True)
class Policy:
    """Who a playbook is for.

    `tenants` None lets every tenant in; `clearance` None lets every clearance in. A policy that restricts something is
    strict about it: an item that lacks that label is refused, and so is a clearance that `order` (lowest first) does
    not name. Names are compared exactly, after trimming blanks.
    """

    tenants: frozenset[str] | None = None
    clearance: str | None = None
    order: tuple[str, ...] = DEFAULT_CLEARANCES

    def __post_init__(self) -> None:
        if len(set(self.order)) < len(self.order):
            raise UsageError(f"the clearance order names one twice: {', '.join(self.order)}")
        if self.clearance is not None and self.clearance not in self.order:
            raise UsageError(
                f"clearance {self.clearance!r} is not in the order", hint=f"Known: {', '.join(self.order)}."
            )

    @property
    def open(self) -> bool:
        """Whether nothing is restricted."""
        return self.tenants is None and self.clearance is None


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a text made from any number of sources; not complete where one of them had no label of that kind.

    `clearances` are all that occurred; a policy's order decides which is the highest.
    """

    tenants: frozenset[str] = frozenset()
    clearances: frozenset[str] = frozenset()
    tenant_complete: bool = True
    clearance_complete: bool = True


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether an item may enter, and why not (empty when it may)."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """One bullet (by id) or operation (by its text) that a policy refuses."""

    where: str
    reason: str


def labels_of(labels: Mapping[str, str]) -> Labels:
    """Read the `tenant` and `clearance` of one trace, task or reflection; an empty text is no label."""
    tenant, clearance = labels.get("tenant", "").strip(), labels.get("clearance", "").strip()
    return Labels(
        frozenset({tenant} - {""}),
        frozenset({clearance} - {""}),
        tenant_complete=bool(tenant),
        clearance_complete=bool(clearance),
    )


def propagate(sources: Iterable[Labels]) -> Labels:
    """Return the labels of a text made from these sources: all tenants, all clearances, complete if each one is."""
    given = list(sources)
    return Labels(
        frozenset().union(*(each.tenants for each in given)),
        frozenset().union(*(each.clearances for each in given)),
        tenant_complete=bool(given) and all(each.tenant_complete for each in given),
        clearance_complete=bool(given) and all(each.clearance_complete for each in given),
    )


def admit(labels: Mapping[str, str] | Labels, policy: Policy) -> Admission:
    """Return whether an item with these labels may reach the playbook of this policy."""
    if not isinstance(labels, Labels):
        labels = labels_of(labels)
    if policy.tenants is not None:
        if not labels.tenant_complete:
            return Admission(ok=False, reason="it has no tenant label and the playbook is for named tenants only")
        if foreign := labels.tenants - policy.tenants:
            return Admission(ok=False, reason=f"tenant {', '.join(sorted(foreign))} is not allowed")
    if policy.clearance is not None:
        if not labels.clearance_complete:
            return Admission(ok=False, reason=f"it has no clearance label and the playbook is for {policy.clearance}")
        if unknown := labels.clearances - set(policy.order):
            return Admission(ok=False, reason=f"clearance {', '.join(sorted(unknown))} is not in the order")
        highest = max(labels.clearances, key=policy.order.index)
        if policy.order.index(highest) > policy.order.index(policy.clearance):
            return Admission(ok=False, reason=f"clearance {highest} is above {policy.clearance}")
    return Admission(ok=True)


def admitted(items: Mapping[str, Mapping[str, str]], policy: Policy) -> tuple[tuple[str, ...], dict[str, str]]:
    """Split items (id -> labels) into the ids that may enter, in order, and the refused ones with their reasons."""
    answers = {item: admit(labels, policy) for item, labels in items.items()}
    return tuple(i for i, a in answers.items() if a.ok), {i: a.reason for i, a in answers.items() if not a.ok}


def check_delta(delta: Delta, labels: Mapping[str, Mapping[str, str]], policy: Policy) -> tuple[Violation, ...]:
    """Return the operations that rest on a source the policy refuses, does not know, or on no source at all."""
    if policy.open:
        return ()
    found = []
    for operation in delta:
        if reason := _refusal(operation.sources, labels, policy):
            kind = type(operation).__name__.upper()
            found.append(Violation(f"{kind} {getattr(operation, 'text', '') or getattr(operation, 'id', '')}", reason))
    return tuple(found)


def check_book(
    book: Playbook,
    labels: Mapping[str, Mapping[str, str]],
    policy: Policy,
    *,
    trusted: frozenset[str] = frozenset(),
) -> tuple[Violation, ...]:
    """Return the bullets that cite a source the policy refuses; to be run after merge, duplicates, refine and views.

    Args:
        book: any version, also a part of one.
        labels: reflection id -> labels.
        policy: who the book is for.
        trusted: bullets that may stand without sources, as those of the book a run started from.
    """
    if policy.open:
        return ()
    checked = ((b, _refusal(b.sources, labels, policy)) for b in book if b.sources or b.id not in trusted)
    return tuple(Violation(bullet.id, reason) for bullet, reason in checked if reason)


def readable(
    book: Playbook,
    labels: Mapping[str, Mapping[str, str]],
    policy: Policy,
    *,
    trusted: frozenset[str] = frozenset(),
) -> Playbook:
    """Return the book without the bullets that a reader under this policy may not see."""
    hidden = {violation.where for violation in check_book(book, labels, policy, trusted=trusted)}
    return replace(book, bullets=tuple(bullet for bullet in book if bullet.id not in hidden)) if hidden else book


def _refusal(sources: Iterable[str], labels: Mapping[str, Mapping[str, str]], policy: Policy) -> str:
    known = tuple(sources)
    if not known:
        return "it names no source, so nobody can say who may read it"
    refused = {source: answer.reason for source in known if not (answer := admit(labels.get(source, {}), policy)).ok}
    return "; ".join(f"{source}: {reason}" for source, reason in refused.items())
