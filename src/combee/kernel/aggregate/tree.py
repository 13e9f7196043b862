"""The nodes of one scan: leaf calls, combining calls and merges, with failures split in two until they stand alone.

The client retries, the tree never does: it halves the group of a failed call; what fails alone is given up and named.
Errors that no smaller group can mend (no access, no such model, an empty budget) stop the scan at once.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Generic, TypeVar, cast

from combee.errors import CallError, CallErrorKind
from combee.kernel.aggregate.hooks import covered_keys, digest_of
from combee.kernel.aggregate.journaled import Kept
from combee.kernel.aggregate.parts import Built, Group, StopScanError, even_groups, united
from combee.kernel.aggregate.protocol import Method
from combee.kernel.aggregate.result import Node
from combee.kernel.journal import hash_json
from combee.kernel.runner import Runner

__all__ = ["Tree"]

T = TypeVar("T")
D = TypeVar("D")
M = TypeVar("M")

_HOPELESS = frozenset({CallErrorKind.AUTH, CallErrorKind.NO_SUCH_MODEL})


class Tree(Generic[T, D]):
    """What a scan has built so far. Everything in it is in the order of the plan, never in the order of completion."""

    def __init__(self, method: Method[T, D], items: dict[str, T], kept: Kept[T, D], runner: Runner) -> None:
        self.method = method
        self.items = items
        self.kept = kept
        self.runner = runner
        self.calls = 0
        self.reads = 0
        self.depth = 0
        self.read: set[str] = set()
        self.given_up: set[str] = set()
        self.last_error = "no call was made"
        self.notes: list[str] = []
        self._nodes: list[tuple[tuple[int, int, tuple[int, ...]], Node]] = []
        self._digest = digest_of(method)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes by round, level and group."""
        return tuple(node for _, node in sorted(self._nodes, key=lambda pair: pair[0]))

    def note(self, sentence: str) -> None:
        """Keep a sentence for the user, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    async def leaves(self, groups: Sequence[Group[str]], turn: int, *, quorum: float = 1.0) -> list[Built[D]]:
        """Read the groups; return what came out, in group order. A quorum below 1 stops when enough items are in."""
        built: list[tuple[tuple[int, ...], Built[D]]] = []
        pending = list(groups)
        while pending:
            answers = await self._ask(self._read, pending, turn, quorum)
            pending, quorum = [], 1.0
            for group, answer in answers:
                if not isinstance(answer, CallError):
                    built.append((group.order, self._leaf(group, answer, turn)))
                elif len(group.members) > 1:
                    self._failed(group, group.members, answer, (0, turn), "split in two")
                    pending += group.halves()
                else:
                    self._failed(group, group.members, answer, (0, turn), "given up", lost=group.members)
                    self.given_up.update(group.members)
        return [node for _, node in sorted(built, key=lambda pair: pair[0])]

    async def merge(self, parts: Sequence[Built[D]], turn: int) -> Built[D]:
        """Merge by code: any fan-in, no call."""
        if len(parts) == 1:
            return parts[0]
        group = Group(f"r{turn}/l1/g0", tuple(parts), (0,))
        delta = await self.method.combine([part.delta for part in parts], group.name)
        cited = self.method.sources(delta)
        keys = united(parts)
        # A union keeps what the leaves had, so only an item that is not cited is verified again: it may have had
        # nothing to say (then it is covered still), or the merge was no union.
        doubtful = [key for key in keys if key not in cited]
        inside = covered_keys(self.method, doubtful, [self.items[key] for key in doubtful], delta)
        gone = set(doubtful).difference(inside)
        covered = tuple(key for key in keys if key not in gone)
        return self._above(group, delta, (1, turn), keys, covered, calls=0)

    async def combine(
        self,
        parts: Sequence[Built[D]],
        turn: int,
        *,
        call: Callable[[Sequence[D], str], Awaitable[D]],
        fan_in: Callable[[int, int], int],
    ) -> Built[D]:
        """Combine by model calls, level by level; `fan_in(level, count)` says how many inputs a call may take."""
        level = 1
        parts = list(parts)
        while len(parts) > 1:
            parts = await self._level(parts, (level, turn), call, max(2, fan_in(level, len(parts))))
            level += 1
        return parts[0]

    async def _level(
        self,
        parts: Sequence[Built[D]],
        at: tuple[int, int],
        call: Callable[[Sequence[D], str], Awaitable[D]],
        fan_in: int,
    ) -> list[Built[D]]:
        async def join(group: Group[Built[D]]) -> D:
            deltas = [part.delta for part in group.members]
            return await self._bought(
                "combine",
                group.name,
                lambda: [hash_json(self.method.encode(delta)) for delta in deltas],
                lambda: call(deltas, group.name),
            )

        out: list[tuple[tuple[int, ...], Built[D]]] = []
        pending = even_groups(parts, fan_in, at)
        while pending:
            out += [(group.order, group.members[0]) for group in pending if len(group.members) == 1]
            asked = [group for group in pending if len(group.members) > 1]
            pending = []
            for group, answer in await self._ask(join, asked, at[1], 1.0):
                if not isinstance(answer, CallError):
                    out.append((group.order, self._joined(group, answer, at)))
                elif len(group.members) > 2:
                    self._failed(group, [part.name for part in group.members], answer, at, "split in two")
                    pending += group.halves()
                else:
                    out.append((group.order, self._better(group, answer, at)))
        return [node for _, node in sorted(out, key=lambda pair: pair[0])]

    async def _ask(
        self, work: Callable[[Group[M]], Awaitable[D]], groups: Sequence[Group[M]], turn: int, quorum: float
    ) -> list[tuple[Group[M], D | CallError]]:
        """Make the calls of one wave; return group and answer in group order, without the groups that came too late."""
        decision = f"in/r{turn}"
        if quorum < 1.0 and isinstance(recorded := self.kept.decided(decision), list):
            groups, quorum = [group for group in groups if group.name in recorded], 1.0
        if quorum >= 1.0:
            answers: Iterable[Any] = await self.runner.run(work, groups)
        else:
            answers = await self._until(work, groups, quorum)
            self.kept.decide(decision, [groups[done.index].name for done in answers])
        return [(groups[done.index], cast("D", done.value) if done.error is None else done.error) for done in answers]

    async def _until(
        self, work: Callable[[Group[M]], Awaitable[D]], groups: Sequence[Group[M]], quorum: float
    ) -> list[Any]:
        need = math.ceil(quorum * len({member for group in groups for member in group.members}) - 1e-9)
        inside: set[M] = set()
        done: list[Any] = []
        # A runner's stream is an async generator; closing it cancels the calls that come too late.
        async with aclosing(cast("Any", self.runner.stream(work, groups))) as stream:
            async for answer in stream:
                done.append(answer)
                inside.update(groups[answer.index].members)
                if len(inside) >= need:
                    break
        return sorted(done, key=lambda answer: answer.index)

    async def _read(self, group: Group[str]) -> D:
        items = [self.items[key] for key in group.members]
        return await self._bought(
            "leaf",
            group.name,
            lambda: [self._digest(item) for item in items],
            lambda: self.method.leaf(items, group.name),
        )

    async def _bought(
        self, role: str, name: str, inputs: Callable[[], list[str]], make: Callable[[], Awaitable[D]]
    ) -> D:
        recorded = self.kept.decided(f"failed/{name}")
        if isinstance(recorded, dict):
            raise CallError(str(recorded["message"]), kind=CallErrorKind(str(recorded["kind"])))
        try:
            return await self.kept.call(role, name, inputs, make)
        except CallError as error:
            if error.kind in _HOPELESS:
                raise StopScanError(error) from error
            raise

    def _leaf(self, group: Group[str], delta: D, turn: int) -> Built[D]:
        keys = group.members
        covered = tuple(covered_keys(self.method, keys, [self.items[key] for key in keys], delta))
        self.calls += 1
        self.reads += len(keys)
        self.read.update(keys)
        lost: tuple[str, ...] = ()
        if len(covered) < len(keys):
            inside = set(covered)
            lost = tuple(key for key in keys if key not in inside)
        node = Node(group.name, 0, turn, keys, len(keys), self.method.size(delta), None, lost)
        self._nodes.append(((turn, 0, group.order), node))
        return self._built(group.name, delta, covered, group.before + 1)

    def _joined(self, group: Group[Built[D]], delta: D, at: tuple[int, int]) -> Built[D]:
        keys = united(group.members)
        covered = tuple(covered_keys(self.method, keys, [self.items[key] for key in keys], delta))
        self.calls += 1
        return self._above(group, delta, at, keys, covered, calls=1)

    def _above(
        self,
        group: Group[Built[D]],
        delta: D,
        at: tuple[int, int],
        keys: Sequence[str],
        covered: tuple[str, ...],
        *,
        calls: int,
    ) -> Built[D]:
        inside = set(covered)
        lost = tuple(key for key in keys if key not in inside)
        names = tuple(part.name for part in group.members)
        size = self.method.size
        entries = sum(size(part.delta) for part in group.members)
        node = Node(group.name, at[0], at[1], names, entries, size(delta), None, lost)
        self._nodes.append(((at[1], at[0], group.order), node))
        depth = max(part.depth for part in group.members) + group.before + calls
        return self._built(group.name, delta, covered, depth)

    def _better(self, group: Group[Built[D]], error: CallError, at: tuple[int, int]) -> Built[D]:
        """Two deltas that no call can combine: the one that covers more goes on, the other is named as lost."""
        one, two = group.members
        best, other = (two, one) if len(two.covered) > len(one.covered) else (one, two)
        inside = set(best.covered)
        lost = tuple(key for key in other.covered if key not in inside)
        self._failed(group, (one.name, two.name), error, at, f"kept {best.name}", lost=lost)
        return best

    def _failed(
        self,
        group: Group[M],
        names: Sequence[str],
        error: CallError,
        at: tuple[int, int],
        what: str,
        *,
        lost: tuple[str, ...] = (),
    ) -> None:
        self.calls += 1
        below = max((part.depth for part in group.members if isinstance(part, Built)), default=0)
        self.depth = max(self.depth, below + group.before + 1)
        self.kept.decide(f"failed/{group.name}", {"kind": error.kind.value, "message": error.message, "then": what})
        self.last_error = f"{error.kind.value}: {error.message}"
        text = f"{self.last_error}; {what}"
        node = Node(group.name, at[0], at[1], tuple(names), len(names), 0, text, lost)
        self._nodes.append(((at[1], at[0], group.order), node))

    def _built(self, name: str, delta: D, covered: tuple[str, ...], depth: int) -> Built[D]:
        self.depth = max(self.depth, depth)
        return Built(name, delta, covered, depth)
