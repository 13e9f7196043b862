"""Which traces may reach which playbook: labels (tenant, clearance), a policy per book, and refusal with a reason.

Sources travel with the text: what was made from several may be read only where each of them may. So no merge,
duplicate, rewrite or view can widen who may read a lesson.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from combee.errors import UsageError
from combee.kernel.playbook import Delta, Operation, Playbook

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


def why_refused(labels: Mapping[str, str], policy: Policy) -> str:
    """Return why an item with these labels may not reach the playbook of this policy, or "" where it may.

    An empty label is none.
    """
    tenant, clearance = labels.get("tenant", "").strip(), labels.get("clearance", "").strip()
    if policy.tenants is not None:
        if not tenant:
            return "it has no tenant label and the playbook is for named tenants only"
        if tenant not in policy.tenants:
            return f"tenant {tenant} is not allowed"
    if policy.clearance is not None:
        if not clearance:
            return f"it has no clearance label and the playbook is for {policy.clearance}"
        if clearance not in policy.order:
            return f"clearance {clearance} is not in the order"
        if policy.order.index(clearance) > policy.order.index(policy.clearance):
            return f"clearance {clearance} is above {policy.clearance}"
    return ""


def isolate(
    delta: Delta, labels: Mapping[str, Mapping[str, str]], policy: Policy
) -> tuple[Delta, tuple[tuple[Operation, str], ...]]:
    """Return the delta without operations that rest on a source the policy refuses, does not know, or on none.

    Those come with the reason.
    """
    if policy.open:
        return delta, ()
    reasons = {operation: _refusal(operation.sources, labels, policy) for operation in delta}
    refused = tuple(
        (operation, f"it rests on a source that is not allowed ({reason})")
        for operation, reason in reasons.items()
        if reason
    )
    return Delta(tuple(operation for operation, reason in reasons.items() if not reason)), refused


def check_book(
    book: Playbook,
    labels: Mapping[str, Mapping[str, str]],
    policy: Policy,
    *,
    trusted: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """Return the ids of bullets that cite a source the policy refuses, with the reason.

    To be run after merge, duplicates, refine and views.

    Args:
        book: any version, also a part of one.
        labels: reflection id -> labels.
        policy: who the book is for.
        trusted: bullets that may stand without sources, as those of the book a run started from.
    """
    if policy.open:
        return {}
    checked = ((b, _refusal(b.sources, labels, policy)) for b in book if b.sources or b.id not in trusted)
    return {bullet.id: reason for bullet, reason in checked if reason}


def readable(
    book: Playbook,
    labels: Mapping[str, Mapping[str, str]],
    policy: Policy,
    *,
    trusted: frozenset[str] = frozenset(),
) -> Playbook:
    """Return the book without the bullets that a reader under this policy may not see."""
    hidden = check_book(book, labels, policy, trusted=trusted)
    return replace(book, bullets=tuple(bullet for bullet in book if bullet.id not in hidden)) if hidden else book


def _refusal(sources: Iterable[str], labels: Mapping[str, Mapping[str, str]], policy: Policy) -> str:
    known = tuple(sources)
    if not known:
        return "it names no source, so nobody can say who may read it"
    refused = {source: why_refused(labels.get(source, {}), policy) for source in known}
    return "; ".join(f"{source}: {reason}" for source, reason in refused.items() if reason)
