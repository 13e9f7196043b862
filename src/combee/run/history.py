"""What a run's journal tells afterwards: how a version came about, where a bullet is from, the book without a trace.

A version is found by walking back from it to the book it was applied to, so that a rolled-back step is no part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from combee.errors import StorageError, UsageError, did_you_mean
from combee.kernel.journal import JSON, Journal, Version
from combee.kernel.learn.codec import revision_from_json
from combee.kernel.learn.collect import reflection_name
from combee.kernel.playbook import (
    Add,
    Applied,
    Bullet,
    Merge,
    Operation,
    Playbook,
    Revision,
    from_json,
    replay,
)


@dataclass(frozen=True, slots=True)
class Link:
    """One step on the way to a version: what was applied, and what the guard said."""

    digest: str
    epoch: int
    step: int
    revision: Revision
    verdict: str | None


@dataclass(frozen=True, slots=True)
class Touch:
    """A step that changed a bullet: added, folded (another lesson said the same), updated, merged or voted."""

    epoch: int
    step: int
    version: str
    what: str
    detail: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """A reflection that a bullet rests on. `nodes` are the calls and merges that its lesson passed, leaf first."""

    reflection: str
    sample: str | None
    trace: str | None
    passed: bool | None
    lessons: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """Where a bullet comes from."""

    bullet: Bullet
    version: str
    touches: tuple[Touch, ...]
    origins: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The book as if some reflections (`sources`) had never been.

    `removed` are bullets that are gone, `mixed` bullets that are left but whose text those reflections helped to write.
    """

    playbook: Playbook
    sources: tuple[str, ...]
    removed: tuple[Bullet, ...]
    mixed: tuple[Bullet, ...]


@dataclass(frozen=True, slots=True)
class _Reflected:
    sample: str
    trace: str
    passed: bool | None
    lessons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class History:
    """The versions of one run, its reflections by name, and the nodes that each passed."""

    rows: tuple[Version, ...]
    text: Callable[[str], str]
    """Returns the text of a version; works while the journal is open."""
    reflections: Mapping[str, _Reflected] = field(default_factory=dict)
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def chain(self, digest: str) -> tuple[Playbook, tuple[Link, ...]]:
        """Return the book at the beginning and the steps that led from it to a version, oldest first.

        Raises:
            UsageError: There is no such version.
            StorageError: Its history is not in the journal.
        """
        at = _last(self.rows, digest, len(self.rows))
        links: list[Link] = []
        while isinstance(data := self.rows[at].data, dict) and data.get("revision") is not None:
            row = self.rows[at]
            revision = revision_from_json(data["revision"])
            links.append(Link(row.digest, row.epoch, row.step, revision, cast("str | None", data.get("verdict"))))
            at = _last(self.rows, str(data.get("base") or row.parent), at)
        return self.book(self.rows[at].digest), tuple(reversed(links))

    def book(self, digest: str) -> Playbook:
        """Return a version."""
        return from_json(self.text(digest))

    def names(self, trace: str, book: Playbook) -> tuple[str, ...]:
        """Return the reflections on a trace or task, or of this name. Raises `UsageError` where there are none."""
        known = {name: {name, one.sample, one.trace} for name, one in self.reflections.items()}
        for bullet in book:
            for source in bullet.sources:
                known.setdefault(source, {source, source.rsplit("~", 1)[0]})
        sources = tuple(sorted(name for name, names in known.items() if trace in names))
        if not sources:
            everything = {name for names in known.values() for name in names}
            near = did_you_mean(trace, everything) if len(everything) < 20 else _near(trace, everything)
            raise UsageError(f"this version knows no trace, task or reflection {trace!r}", hint=near)
        return sources

    def forget(self, digest: str, traces: Iterable[str]) -> Forgotten:
        """Replay a version without the reflections on these traces.

        Raises:
            UsageError: There is no such trace or version.
        """
        base, links = self.chain(digest)
        revisions = [link.revision for link in links]
        full = self.book(digest)
        sources = tuple(sorted({name for trace in traces for name in self.names(trace, full)}))
        again = replay(base, revisions).playbook
        if again != full:
            raise StorageError(
                "the history in the journal does not lead to this version", hint="Report this with the run folder."
            )
        left = replay(base, revisions, without=sources).playbook
        gone = set(sources)
        touched = {bullet.id for bullet in full if gone & set(bullet.sources)}
        removed = tuple(bullet for bullet in full if bullet.id in touched and bullet.id not in left)
        mixed = tuple(bullet for bullet in left if bullet.id in touched)
        return Forgotten(left, sources, removed, mixed)

    def why(self, digest: str, bullet_id: str) -> Why:
        """Return where a bullet of a version comes from. Raises `UsageError` where the version has no such bullet."""
        book = self.book(digest)
        bullet = book.get(bullet_id)
        if bullet is None:
            near = _near(bullet_id, [each.id for each in book])
            raise UsageError(f"this version has no bullet {bullet_id!r}", hint=near or "`combee show` prints them all.")
        base, links = self.chain(digest)
        steps = replay(base, [link.revision for link in links]).steps
        ids = {bullet_id}
        for applied in reversed(steps):  # bullets that were merged into this one on the way are part of its story
            ids |= {old for old, new in applied.merged.items() if new in ids}
        touches = [touch for link, applied in zip(links, steps, strict=True) for touch in _touches(link, applied, ids)]
        if any(bullet_id == old.id for old in base):
            touches.insert(0, Touch(0, 0, self.rows[0].digest, "start", "it was in the book that the run began with"))
        return Why(bullet, digest, tuple(touches), tuple(self._origin(source) for source in bullet.sources))

    def _origin(self, source: str) -> Origin:
        known = self.reflections.get(source)
        nodes = self.nodes.get(source, ())
        if known is None:
            return Origin(source, None, None, None, (), nodes)
        return Origin(source, known.sample, known.trace, known.passed, known.lessons, nodes)


def read_history(journal: Journal) -> History:
    """Read the history of a run; use it while the journal is open."""
    reflections: dict[str, _Reflected] = {}
    for address, value in journal.results("reflect"):
        if isinstance(value, dict):
            reflections[reflection_name(address.item, address.place.epoch)] = _Reflected(
                address.item,
                str(value["trace"]),
                cast("bool | None", value["passed"]),
                tuple(str(lesson) for lesson in cast("list[JSON]", value["lessons"])),
            )
    return History(journal.versions(), journal.text, reflections, _passed(journal))


def _last(rows: tuple[Version, ...], digest: str, before: int) -> int:
    for index in range(before - 1, -1, -1):
        if rows[index].digest == digest:
            return index
    raise UsageError(f"the history of version {digest[:12]} is not in this journal")


def _near(word: str, known: Iterable[str]) -> str | None:
    hint = did_you_mean(word, known)
    return hint if hint.startswith("Did you mean") else None


def _touches(link: Link, applied: Applied, ids: set[str]) -> Iterable[Touch]:
    def touch(what: str, detail: str, sources: tuple[str, ...] = ()) -> Touch:
        return Touch(link.epoch, link.step, link.digest, what, detail, sources)

    for operation, made in applied.added.items():
        if made in ids:
            yield touch("added", _text(operation), operation.sources)
    for operation, into in applied.folded.items():
        if into in ids:
            yield touch("folded", _text(operation), operation.sources)
    refused = {refusal.operation for refusal in applied.refused}
    for operation in link.revision.delta:
        if isinstance(operation, Add) or operation in refused:
            continue
        targets = operation.ids if isinstance(operation, Merge) else (operation.id,)
        if ids & set(targets):
            yield touch(type(operation).__name__.lower(), _text(operation), operation.sources)
    unknown = set(applied.unknown_votes)
    for vote in link.revision.votes:
        if vote.bullet in ids and vote not in unknown:
            yield touch("vote", vote.kind.value, (vote.reflection,))


def _text(operation: Operation) -> str:
    return str(getattr(operation, "text", ""))


def _passed(journal: Journal) -> dict[str, tuple[str, ...]]:
    """Return for each reflection the nodes of the last attempt at its step, leaf first, failures and losses named."""
    trees: dict[tuple[int, int], dict[str, JSON]] = {}
    for event in journal.events("Scan"):
        data = cast("dict[str, JSON]", event.data)
        trees[cast("int", data["epoch"]), cast("int", data["step"])] = data
    passed: dict[str, list[str]] = {}
    for (epoch, step), tree in trees.items():
        inside: dict[str, set[str]] = {}
        for node in cast("list[dict[str, JSON]]", tree["nodes"]):
            inputs = cast("list[str]", node["inputs"])
            keys = set(inputs) if node["level"] == 0 else set().union(*(inside.get(name, set()) for name in inputs))
            inside[str(node["name"])] = keys
            lost = set(cast("list[str]", node.get("lost") or []))
            for key in keys:
                line = (
                    f"epoch {epoch}, step {step}: {node['name']} ({node['entries_in']} in, {node['entries_out']} out)"
                )
                if node["error"] is not None:
                    line += f", failed: {node['error']}"
                elif key in lost:
                    line += ", lost here"
                passed.setdefault(key, []).append(line)
    return {key: tuple(lines) for key, lines in passed.items()}
