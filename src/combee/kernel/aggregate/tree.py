"""The nodes of one scan: leaf calls, combining calls and merges, with failures split in two until they stand alone.

The client retries, the tree never does: it halves the group of a failed call; what fails alone is given up and named.
Errors that no smaller group can mend (no access, no such model, an empty budget) stop the scan at once. In a journal
scope a call is bought once and a decision made once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from combee.errors import CallError, CallErrorKind
from combee.kernel.aggregate.method import Method, covered_keys, digest_of, fingerprint, window_share
from combee.kernel.journal import JSON, Scope, hash_json
from combee.kernel.runner import Runner

T = TypeVar("T")
D = TypeVar("D")
M = TypeVar("M")

_HOPELESS = frozenset({CallErrorKind.AUTH, CallErrorKind.QUOTA, CallErrorKind.NO_SUCH_MODEL})


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the tree: a call, a merge by code, or a call that failed.

    Attributes:
        name: Stable name, "r{round}/l{level}/g{group}"; halves of a split group add ".0" and ".1".
        level: 0 for leaves.
        round: 0, then 1 and on for second chances.
        inputs: Item keys (leaves) or names of nodes (above).
        entries_in: Items read (leaves) or lessons that came in (above).
        entries_out: Lessons that came out; 0 for a failed call.
        error: None, or what went wrong ("kind: message") and what was done about it.
        lost: Keys that came in (covered until here) and are not covered by what came out.
    """

    name: str
    level: int
    round: int
    inputs: tuple[str, ...]
    entries_in: int
    entries_out: int
    error: str | None = None
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Scan(Generic[D]):
    """The outcome of one aggregation.

    Attributes:
        delta: What was learned.
        nodes: The tree, in the order of rounds, levels and groups.
        covered: Keys whose content is verified to be in the delta.
        claimed: Keys that the delta cites; `claimed - covered` are citations without content.
        uncovered: Keys not covered in spite of second chances, sorted; includes `failed` but not `late`.
        failed: Keys that no successful call read, sorted.
        calls: Calls that the tree needed, failed ones included, whether bought now or replayed from the journal.
        reads: Items read by leaf calls that answered (an item read twice counts twice).
        depth: Longest chain of calls that waited for each other.
        late: Keys left out by the quorum, sorted; they belong to the next step.
        notes: Plain sentences about what was unusual.
        window: Largest share of the model's window that a leaf used, or None where the window is not known.
    """

    delta: D
    nodes: tuple[Node, ...]
    covered: frozenset[str]
    claimed: frozenset[str]
    uncovered: tuple[str, ...]
    failed: tuple[str, ...]
    calls: int
    reads: int
    depth: int
    late: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    window: float | None = None

    def __repr__(self) -> str:
        # Short on purpose: the event loop prints the result of its task when it closes, a million items included.
        counts = f"covered={len(self.covered)}, uncovered={len(self.uncovered)}, late={len(self.late)}"
        return f"<Scan {counts}, calls={self.calls}, reads={self.reads}, depth={self.depth}, nodes={len(self.nodes)}>"


class StopScanError(Exception):
    """Carries a `CallError` that no smaller group can mend past the runner, which would keep it with its item."""

    def __init__(self, error: CallError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class CallGroup(Generic[M]):
    """A call to be made. Members are item keys (leaves) or built nodes (above); `before` counts calls it waited for."""

    name: str
    members: tuple[M, ...]
    order: tuple[int, ...]
    before: int = 0

    def halves(self) -> tuple[CallGroup[M], CallGroup[M]]:
        """Return the two groups that stand in for this one after it failed."""
        middle = (len(self.members) + 1) // 2
        parts = (self.members[:middle], self.members[middle:])
        first, second = (
            CallGroup(f"{self.name}.{index}", part, (*self.order, index), self.before + 1)
            for index, part in enumerate(parts)
        )
        return first, second


@dataclass(frozen=True, slots=True)
class Built(Generic[D]):
    """A node that came out: its delta, the keys verified to be in it, and the longest chain of calls behind it."""

    name: str
    delta: D
    covered: tuple[str, ...]
    depth: int


def united(parts: Sequence[Built[D]]) -> list[str]:
    """Return the keys that the parts cover, each once, in order."""
    return list(dict.fromkeys(key for part in parts for key in part.covered))


def even_groups(parts: Sequence[Built[D]], fan_in: int, at: tuple[int, int]) -> list[CallGroup[Built[D]]]:
    """Return the parts in groups of at most `fan_in` whose sizes differ by at most one."""
    count = -(-len(parts) // fan_in)
    size, larger = divmod(len(parts), count)
    groups, start = [], 0
    for index in range(count):
        end = start + size + (index < larger)
        groups.append(CallGroup(f"r{at[1]}/l{at[0]}/g{index}", tuple(parts[start:end]), (index,)))
        start = end
    return groups


class ScanJournal(Generic[T, D]):
    """The journal as a scan sees it."""

    def __init__(self, scope: Scope | None, method: Method[T, D]) -> None:
        self._scope = scope
        self._method = method
        self._print = fingerprint(method)

    async def call(self, role: str, node: str, inputs: Callable[[], list[str]], make: Callable[[], Awaitable[D]]) -> D:
        """Return the delta of a call, bought at most once for these inputs and this method."""
        if self._scope is None:
            return await make()

        async def encoded() -> JSON:
            return self._method.encode(await make())

        kept = await self._scope.once(role, node, {"inputs": inputs(), "method": self._print}, encoded)
        # Also a fresh result is decoded, so that a replay cannot differ from the first run.
        return self._method.decode(kept)

    def decided(self, name: str) -> JSON:
        """Return the decision recorded under the name, or None."""
        return None if self._scope is None else self._scope.peek(name)

    def decide(self, name: str, value: JSON) -> JSON:
        """Record a decision, or return the one already recorded."""
        return value if self._scope is None else self._scope.decide(name, value)


class Tree(Generic[T, D]):
    """What a scan has built so far. Everything in it is in the order of the plan, never in the order of completion."""

    def __init__(self, method: Method[T, D], items: dict[str, T], kept: ScanJournal[T, D], runner: Runner) -> None:
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
        self.window: float | None = None
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

    async def leaves(self, groups: Sequence[CallGroup[str]], turn: int) -> list[Built[D]]:
        """Read the groups; return what came out, in group order."""
        built: list[tuple[tuple[int, ...], Built[D]]] = []
        pending = list(groups)
        while pending:
            answers = await self._ask(self._read, pending)
            pending = []
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
        group = CallGroup(f"r{turn}/l1/g0", tuple(parts), (0,))
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
        async def join(group: CallGroup[Built[D]]) -> D:
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
            for group, answer in await self._ask(join, asked):
                if not isinstance(answer, CallError):
                    out.append((group.order, self._joined(group, answer, at)))
                elif len(group.members) > 2:
                    self._failed(group, [part.name for part in group.members], answer, at, "split in two")
                    pending += group.halves()
                else:
                    out.append((group.order, self._better(group, answer, at)))
        return [node for _, node in sorted(out, key=lambda pair: pair[0])]

    async def _ask(
        self, work: Callable[[CallGroup[M]], Awaitable[D]], groups: Sequence[CallGroup[M]]
    ) -> list[tuple[CallGroup[M], D | CallError]]:
        """Make the calls of one wave; return group and answer in group order."""
        answers = await self.runner.run(work, groups)
        return [(groups[done.index], cast("D", done.value) if done.error is None else done.error) for done in answers]

    async def _read(self, group: CallGroup[str]) -> D:
        items = [self.items[key] for key in group.members]
        if (share := window_share(self.method, items)) is not None:
            self.window = max(share, self.window or 0.0)
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

    def _leaf(self, group: CallGroup[str], delta: D, turn: int) -> Built[D]:
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

    def _joined(self, group: CallGroup[Built[D]], delta: D, at: tuple[int, int]) -> Built[D]:
        keys = united(group.members)
        covered = tuple(covered_keys(self.method, keys, [self.items[key] for key in keys], delta))
        self.calls += 1
        return self._above(group, delta, at, keys, covered, calls=1)

    def _above(
        self,
        group: CallGroup[Built[D]],
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

    def _better(self, group: CallGroup[Built[D]], error: CallError, at: tuple[int, int]) -> Built[D]:
        """Two deltas that no call can combine: the one that covers more goes on, the other is named as lost."""
        one, two = group.members
        best, other = (two, one) if len(two.covered) > len(one.covered) else (one, two)
        inside = set(best.covered)
        lost = tuple(key for key in other.covered if key not in inside)
        self._failed(group, (one.name, two.name), error, at, f"kept {best.name}", lost=lost)
        return best

    def _failed(
        self,
        group: CallGroup[M],
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
