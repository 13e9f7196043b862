"""Grow and refine (ACE, arXiv 2510.04618, section 3.2): related entries of a playbook said shorter, nothing lost.

Entries that say the same are joined by code; clusters of entries that share words go to the model, many at once. A
rewritten cluster counts only if every distinctive term of every old entry stands in the text that replaces it and the
result is shorter; else it is left alone.
What a call wrote belongs to the sources of all entries it read: so no label of theirs is lost on the way. Entries
without sources, which a policy lets nobody read, are joined only among themselves: others' sources would open them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from combee.ace.prompts import REFINE, Prompts, show_bullets
from combee.ace.replies import cited_ids
from combee.errors import UsageError
from combee.kernel.journal import MemoryScope, Scope
from combee.kernel.playbook import (
    Bullet,
    Delta,
    Merge,
    Operation,
    Playbook,
    Update,
    apply,
    count_tokens,
    deduplicate,
    delta_of,
    distinct_terms,
    near_duplicates,
    tokens,
)
from combee.kernel.runner import LocalRunner, Runner
from combee.model import ChatModel
from combee.model.asking import as_text, ask_and_keep
from combee.model.settings import CallOptions

THRESHOLD = 0.2
SAME = 0.9  # as in a run: a new lesson this near to an old one is folded into it
MOST = 8


@dataclass(frozen=True, slots=True)
class Cluster:
    """Entries that were looked at together, and what came of it: "rewritten", or why they were left alone."""

    ids: tuple[str, ...]
    result: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class Refined:
    """The tidied book, the operations that led to it, and every cluster."""

    playbook: Playbook
    delta: Delta
    clusters: tuple[Cluster, ...]
    tokens_before: int
    tokens_after: int
    failed: int = 0
    """Clusters whose call gave no answer."""
    folded: int = 0
    """Entries that said what another says: joined before any call. No operation stands for them."""


def clusters_of(book: Playbook, *, threshold: float = THRESHOLD, most: int = MOST) -> list[tuple[Bullet, ...]]:
    """Return groups of two to `most` entries whose texts share words, the most alike first joined.

    Entries that have sources and entries that have none are never in one group.

    Raises:
        UsageError: The threshold is not above 0 and up to 1, or `most` is below 2.
    """
    if most < 2:
        raise UsageError(f"a cluster of {most} entries has nothing to join", hint="Give 2 or more.")
    bullets = list(book)
    pairs = near_duplicates([bullet.text for bullet in bullets], threshold)
    group = list(range(len(bullets)))
    members: dict[int, list[int]] = {place: [place] for place in group}
    for one, other, _ in sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1])):
        a, b = group[one], group[other]
        if a == b or len(members[a]) + len(members[b]) > most or bool(bullets[a].sources) != bool(bullets[b].sources):
            continue
        for place in members[b]:
            group[place] = a
        members[a] += members.pop(b)
    clusters = [sorted(places) for places in members.values() if len(places) > 1]
    return [tuple(bullets[place] for place in places) for places in sorted(clusters)]


async def refine(
    book: Playbook,
    model: ChatModel,
    *,
    prompts: Prompts | None = None,
    options: CallOptions | None = None,
    threshold: float = THRESHOLD,
    most: int = MOST,
    budget: int | None = None,
    scope: Scope | None = None,
    runner: Runner | None = None,
) -> Refined:
    """Return the book with its overlapping entries joined; those count as made in the step of the newest one.

    Entries that say the same (`deduplicate`) become one first, at no cost; only what is merely related is asked about.

    Args:
        book: The playbook.
        model: Any model; one call a cluster.
        prompts: The prompts; ours by default.
        options: Length, temperature and seed of the replies.
        threshold: Similarity from which two entries count as related.
        most: Entries of a cluster at most.
        budget: Tokens the playbook may have.
        scope: Where replies are kept, so that none is paid twice.
        runner: Runs the calls.

    Raises:
        BudgetError: A limit of the calls is used up.
    """
    prompts, options = prompts or Prompts.load(), options or CallOptions()
    scope, runner = scope or MemoryScope(), runner or LocalRunner()
    given, book = book, _folded(book)
    groups = clusters_of(book, threshold=threshold, most=most)

    async def one(group: tuple[Bullet, ...]) -> tuple[Delta, str]:
        return await _rewritten(group, model, prompts, options, scope)

    done = await runner.run(one, groups)
    operations: list[Operation] = []
    clusters: list[Cluster] = []
    for group, answer in zip(groups, done, strict=True):
        delta, result = answer.value if answer.value is not None else (Delta(), f"the call failed: {answer.error}")
        operations += delta
        before = sum(count_tokens(bullet.text, book.counter) for bullet in group)
        clusters.append(Cluster(tuple(b.id for b in group), result, before, before - _saved(group, delta, book)))
    delta = delta_of(operations)
    applied = apply(book, delta, step=max((bullet.created for bullet in book), default=0), budget=budget)
    failed = sum(answer.value is None for answer in done)
    folded = len(given) - len(book)
    return Refined(applied.playbook, delta, tuple(clusters), tokens(given), tokens(applied.playbook), failed, folded)


def _folded(book: Playbook) -> Playbook:
    """Return the book with entries that say the same made one; those with and without sources stay apart."""
    kept = {
        bullet.id: bullet
        for has_sources in (True, False)
        for bullet in deduplicate(
            replace(book, bullets=tuple(bullet for bullet in book if bool(bullet.sources) is has_sources)), SAME
        )
    }
    return replace(book, bullets=tuple(kept[bullet.id] for bullet in book if bullet.id in kept))


async def _rewritten(
    group: Sequence[Bullet], model: ChatModel, prompts: Prompts, options: CallOptions, scope: Scope
) -> tuple[Delta, str]:
    """Return the operations of one cluster, and what to say of it.

    The reply is kept in the scope, and no operation: those carry sources, and a source that was taken out of the book
    since must not come back.
    """
    terms = "\n".join(f"[{bullet.id}] {', '.join(sorted(distinct_terms(bullet.text)))}" for bullet in group)
    reply = await ask_and_keep(
        model,
        prompts["refine"].render({"bullets": show_bullets(group), "terms": terms}),
        scope,
        role="refine",
        item="+".join(bullet.id for bullet in group),
        schema=REFINE,
        required=("bullets",),
        options=options,
    )
    operations, result = _checked(reply["bullets"], group)
    return delta_of(operations), result


def _checked(raw: object, group: Sequence[Bullet]) -> tuple[list[Operation], str]:
    """Return the operations a reply asks for, or none with the reason."""
    by_id = {bullet.id: bullet for bullet in group}
    book = Playbook(tuple(group))
    replaced: dict[str, int] = defaultdict(int)
    operations: list[Operation] = []
    # Of all entries, also those that a text does not replace: the model saw them, and may have written them into it.
    sources = tuple(dict.fromkeys(source for bullet in group for source in bullet.sources))
    for part in raw if isinstance(raw, list) else []:
        if not isinstance(part, Mapping):
            return [], "left alone: the reply was not in form"
        text, ids = as_text(part.get("text")), cited_ids(_listed(part.get("bullet_ids")), book)
        if not text or not ids or any(name not in by_id for name in ids):
            return [], "left alone: the reply names entries that were not given"
        old = [by_id[name] for name in ids]
        lost = frozenset(term for bullet in old for term in distinct_terms(bullet.text)) - distinct_terms(text)
        if lost:
            return [], f"left alone: {', '.join(sorted(lost)[:5])} would be lost"
        for name in ids:
            replaced[name] += 1
        if len(ids) > 1:
            operations.append(Merge(ids, text, sources))
        elif text != old[0].text:
            operations.append(Update(ids[0], text, sources))
    if any(count > 1 for count in replaced.values()):
        return [], "left alone: an entry was replaced twice"
    if not operations:
        return [], "left alone: nothing to join"
    if _saved(group, delta_of(operations), book) <= 0:
        return [], "left alone: it would not be shorter"
    return operations, "rewritten"


def _listed(raw: object) -> list[Any]:
    return raw if isinstance(raw, list) else [raw]


def _saved(group: Sequence[Bullet], delta: Delta, book: Playbook) -> int:
    """Return the tokens of text that the operations save."""
    size = {bullet.id: count_tokens(bullet.text, book.counter) for bullet in group}
    saved = 0
    for operation in delta:
        gone = operation.ids if isinstance(operation, Merge) else (getattr(operation, "id", ""),)
        saved += sum(size[name] for name in gone) - count_tokens(getattr(operation, "text", ""), book.counter)
    return saved
