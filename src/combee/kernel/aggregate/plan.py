"""The plan of an aggregation: group sizes, copies, levels and second chances, chosen before anything is paid.

Three shapes: the preset "paper" (arXiv 2604.04247, section 3); our default, leaves under caps and a merge by code; and
a tree of model calls for methods that cannot merge by code. `Plan.explain` says in words what was chosen and why, and
`expected` what a plan keeps and reads when every call forgets. That is a model, not a law: a lesson that enters a call
over m inputs leaves it with probability exp(−δ − m/m0), each time anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from combee.errors import UsageError, did_you_mean
from combee.kernel.aggregate.cost import CallCost, Retention, best_tree, groups_of, least_levels, tree_seconds
from combee.kernel.aggregate.shuffle import blocks_even, blocks_filled

_MOST_COPIES = 1000  # far above any use; a slip of the keyboard must not become a run that never ends
PAPER_FEWEST = 9  # below this ⌊√n⌋ is 2 or less: the preset makes one call


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """The preset "paper" with what an ablation changes of it."""

    group_size: int | None = None
    """Items of a leaf wanted, in place of ⌊√n⌋ groups."""
    k_of: Literal["n", "pn"] = "n"
    """What the root is taken of: "n" items or "pn" copies."""
    shuffle: bool = True
    """False keeps the order of the keys."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How n items become one delta. Made by `plan`; down to `paper` its arguments, then what follows from them.

    Attributes:
        n: Number of items.
        copies: How often each item is read in the first round (p).
        max_items: Most items of a leaf, and most deltas of a combining model call.
        max_tokens: Most tokens of a leaf, or None.
        max_output: Most tokens that a leaf is expected to write (its method says what an item takes), or None. Leaves
            are cut to it when their items are known; the preset is not.
        preset: "paper" or None.
        second_chances: Most further rounds of leaves for items that no delta covers.
        cost: Time model, or None.
        retention: Quality model, or None.
        combine_calls_model: Whether deltas are combined by model calls.
        paper: What is changed of the preset "paper".
        fan_ins: Most inputs of a call by level, leaves first; a merge by code is no level.
        even: Whether leaf groups are cut evenly, whatever the tokens ("paper"), or filled under the caps.
        groups: Number of leaf groups in the first round.
        calls: Calls of the first round when all goes well.
        reads: Items read in the first round, copies included.
        seconds: Modelled time of the first round, or None without `cost`.
        notes: What a user should know, one sentence each.
    """

    n: int
    copies: int = 1
    max_items: int = 16
    max_tokens: int | None = None
    max_output: int | None = None
    preset: Literal["paper"] | None = None
    second_chances: int = 1
    cost: CallCost | None = None
    retention: Retention | None = None
    combine_calls_model: bool = False
    paper: Paper = Paper()
    fan_ins: tuple[int, ...] = ()
    even: bool = False
    groups: int = 1
    calls: int = 1
    reads: int = 1
    seconds: float | None = None
    notes: tuple[str, ...] = ()

    def resized(
        self, n: int, *, weights: Sequence[int] | None, combine_calls_model: bool, copies: int | None = None
    ) -> Plan:
        """Return the plan that the same arguments make for other items."""
        copies = self.copies if copies is None else copies
        return _shaped(replace(self, n=n, copies=copies, combine_calls_model=combine_calls_model), weights)

    @property
    def times(self) -> int:
        """How often each item is really read in the first round: once where the preset makes one call."""
        return self.reads // self.n

    def blocks(self, seed: str, weights: Sequence[int] | None = None) -> list[list[int]]:
        """Return the leaf groups as positions among the items, in dispatch order."""
        order = seed if self.paper.shuffle else None
        if self.even:
            return blocks_even(self.n, groups=self.groups, copies=self.times, seed=order)
        return blocks_filled(
            self.n,
            max_items=self.fan_ins[0],
            copies=self.copies,
            seed=order,
            weights=weights,
            max_tokens=self.max_tokens,
        )

    def explain(self) -> str:
        """Return the plan in plain words, one statement a line."""
        times = "once" if self.times == 1 else f"{self.times} times, in different groups"
        per_leaf = groups_of(self.reads, self.groups)
        lines = [f"{self.n:,} items, each read {times}, in {self.groups:,} leaf calls of up to {per_leaf} items."]
        if len(self.fan_ins) > 1:
            above = ", then ".join(str(fan_in) for fan_in in self.fan_ins[1:])
            lines.append(f"Deltas are combined by model calls over up to {above} inputs: {len(self.fan_ins)} levels.")
        elif self.groups > 1:
            lines.append("Deltas are merged by code, which costs no call and loses nothing.")
        calls = "1 call" if self.calls == 1 else f"{self.calls:,} calls"
        chain = len(self.fan_ins)
        lines.append(f"{calls} in the first round, {'all at once' if chain == 1 else f'{chain} after each other'}.")
        if self.second_chances:
            rounds = "round" if self.second_chances == 1 else "rounds"
            lines.append(f"Items that no delta covers get up to {self.second_chances} further {rounds} of leaves.")
        if self.seconds is not None:
            lines.append(f"Modelled time of the first round: {self.seconds:.1f} s.")
        if self.retention is not None:
            model = expected(self, self.retention)
            lines.append(f"Modelled: {model.kept:.0%} of the lessons kept at {model.reads:.2f} reads an item.")
        return "\n".join([*lines, *self.notes])


def plan(
    n: int,
    *,
    weights: Sequence[int] | None = None,
    copies: int | None = None,
    max_items: int = 16,
    max_tokens: int | None = None,
    max_output: int | None = None,
    preset: Literal["paper"] | Paper | None = None,
    second_chances: int | None = None,
    cost: CallCost | None = None,
    retention: Retention | None = None,
    combine_calls_model: bool = False,
) -> Plan:
    """Choose the shape of the tree. `Plan` says what each argument means.

    Defaults: each item is read once, in leaves of up to 16, with one second chance, merged by code. In the preset
    "paper": twice, in k = ⌊√n⌋ groups whose sizes differ by at most one, without second chances, then one model call
    over the k updates; below 9 items one call; a `Paper` is the preset with changes. `weights` are the tokens of each
    item, for `max_tokens`; a heavier item stands alone, and the preset does not look at them. With
    `combine_calls_model` a solver chooses the fan-ins for `cost` and `retention`; without either they are the fewest
    and evenest levels under `max_items`.

    Raises:
        UsageError: An argument is out of range, or more copies than groups.
    """
    name: Literal["paper"] | None = "paper" if isinstance(preset, Paper) else preset
    paper = name == "paper"
    copies = (2 if paper else 1) if copies is None else copies
    second_chances = (0 if paper else 1) if second_chances is None else second_chances
    made = Plan(
        n=n,
        copies=copies,
        max_items=max_items,
        max_tokens=max_tokens,
        max_output=None if paper else max_output,
        preset=name,
        second_chances=second_chances,
        cost=cost,
        retention=retention,
        combine_calls_model=combine_calls_model,
        paper=preset if isinstance(preset, Paper) else Paper(),
    )
    return _shaped(made, weights)


_Shape = tuple[tuple[int, ...], int, int, tuple[str, ...]]


def _shaped(made: Plan, weights: Sequence[int] | None) -> Plan:
    """Return the plan with what follows from its arguments."""
    _check(made, weights)
    paper = made.preset == "paper"
    fan_ins, groups, reads, notes = _paper(made) if paper else _filled(made, weights)
    calls, count = groups, groups
    for fan_in in fan_ins[1:]:
        count = groups_of(count, fan_in)
        calls += count
    return replace(
        made,
        fan_ins=fan_ins,
        even=paper,
        groups=groups,
        calls=calls,
        reads=reads,
        seconds=tree_seconds(reads, fan_ins, made.cost) if made.cost else None,
        notes=notes,
    )


def _paper(made: Plan) -> _Shape:
    """Return fan-ins, groups, reads and notes of the preset."""
    n, copies = made.n, made.copies
    notes: list[str] = ["Preset of the paper: ⌊√n⌋ groups, then one model call over all updates."]
    if made.paper.group_size is not None:
        groups = groups_of(copies * n, made.paper.group_size)
        notes[0] = f"Preset of the paper with groups of {made.paper.group_size} instead of ⌊√n⌋ groups."
    else:
        groups = 1 if n < PAPER_FEWEST else math.isqrt(n if made.paper.k_of == "n" else copies * n)
    if made.max_tokens is not None:
        notes.append("The preset fixes the number of groups and does not look at the token cap.")
    if groups == 1:
        if copies > 1:
            notes.append("One group: every item is read once, since copies in one group say nothing new.")
        return (n,), 1, n, tuple(notes)
    if copies > groups:
        raise UsageError(
            f"{copies} copies of each item cannot lie in {groups} different groups",
            hint="Ask for fewer copies, or for smaller groups.",
        )
    return (groups_of(copies * n, groups), groups), groups, copies * n, tuple(notes)


def _filled(made: Plan, weights: Sequence[int] | None) -> _Shape:
    """Return fan-ins, groups, reads and notes of leaves under caps."""
    n, copies, notes = made.n, made.copies, list[str]()
    leaf = made.max_items
    reads = copies * n
    by_tokens = leaf
    if weights is not None and made.max_tokens is not None:
        heavy = sum(weight > made.max_tokens for weight in weights)
        if heavy:
            verb = "is" if heavy == 1 else "are"
            notes.append(f"{heavy} of the items {verb} heavier than {made.max_tokens:,} tokens: a group of one each.")
        by_tokens = max(1, min(leaf, int(made.max_tokens * n / max(1, sum(weights)))))
    fan_ins: tuple[int, ...] = (min(leaf, n),)
    if made.combine_calls_model and reads > 1:
        fan_ins = _levels(made, reads, min(by_tokens, n))
        notes.append(_why(made, fan_ins))
    blocks = copies * groups_of(n, fan_ins[0])
    if weights is not None and made.max_tokens is not None:
        blocks = len(
            blocks_filled(n, max_items=fan_ins[0], copies=copies, seed="", weights=weights, max_tokens=made.max_tokens)
        )
    if len(fan_ins) == 1 and blocks > 1 and made.combine_calls_model:
        fan_ins = (*fan_ins, made.max_items)
    return fan_ins, blocks, reads, tuple(notes)


def _levels(made: Plan, reads: int, leaf_cap: int) -> tuple[int, ...]:
    cap = made.max_items
    if made.cost is not None or made.retention is not None:
        cost = made.cost or CallCost(0.0, 0.0)
        return best_tree(
            reads, cost=cost, retention=made.retention, cap=cap, leaf_cap=leaf_cap, least=2 if made.copies > 1 else 1
        )
    levels = least_levels(groups_of(reads, leaf_cap), cap) + 1 if reads > leaf_cap else 1
    fan_ins = []
    count = reads
    for left in range(levels, 0, -1):
        limit = leaf_cap if left == levels else cap
        fan_in = min(limit, math.ceil(count ** (1 / left) - 1e-9))
        fan_ins.append(fan_in)
        count = groups_of(count, fan_in)
    return tuple(fan_ins)


def _why(made: Plan, fan_ins: tuple[int, ...]) -> str:
    if made.cost is None and made.retention is None:
        return f"The method combines by model: the fewest levels with at most {made.max_items} inputs a call."
    for_what = " and ".join(
        name for name, given in (("time", made.cost), ("retention", made.retention)) if given is not None
    )
    return (
        f"The method combines by model: fan-ins {' · '.join(map(str, fan_ins))} are the solver's best for {for_what}."
    )


def _check(made: Plan, weights: Sequence[int] | None) -> None:
    least = dict.fromkeys(("n", "copies", "max_items", "max_tokens", "max_output", "group_size"), 1)
    least["second_chances"] = 0
    for name, low in least.items():
        value = getattr(made.paper if name == "group_size" else made, name)
        if value is None and name in {"max_tokens", "max_output", "group_size"}:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{name} is {value!r}", hint="Give a whole number.")
        if value < low:
            raise UsageError(f"{name} is {value}", hint=f"Give {low} or more.")
    if made.copies > _MOST_COPIES:
        raise UsageError(f"copies is {made.copies}", hint=f"Give {_MOST_COPIES} or fewer.")
    if made.preset not in {None, "paper"}:
        raise UsageError(f"there is no preset {made.preset!r}", hint=did_you_mean(str(made.preset), ["paper"]))
    if made.paper.k_of not in {"n", "pn"}:
        raise UsageError(f"k_of is {made.paper.k_of!r}", hint='Give "n" or "pn".')
    if made.combine_calls_model and made.max_items < 2 and made.preset is None:
        raise UsageError("a model that combines one input at a time never ends", hint="Give max_items 2 or more.")
    if weights is not None and len(weights) != made.n:
        raise UsageError(f"{len(weights)} weights for {made.n} items", hint="Give one weight an item.")
    if weights is not None and not all(weight >= 0 for weight in weights):  # false for NaN too
        raise UsageError("a weight is below 0 or no number", hint="Give the tokens of each item, 0 or more.")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a plan does on average.

    Attributes:
        kept: Share of the items whose lesson is in the result, 0 to 1.
        reads: Reads of an item, first round and second chances.
    """

    kept: float
    reads: float


def expected(plan: Plan, retention: Retention) -> Expected:
    """Return the expected share kept and the reads of an item.

    A model call above the leaves counts updates as its inputs. Second chances are counted where deltas are merged by
    code; where a model combines, they add calls that forget again, and the engine keeps the better of the results.
    """
    missed = (1.0 - retention.kept(plan.reads / plan.groups)) ** plan.times
    reads = float(plan.times)
    if len(plan.fan_ins) > 1:
        return Expected((1.0 - missed) * _above(plan, retention), reads)
    for _ in range(plan.second_chances):
        reads += missed
        again = max(1, round(missed * plan.n))
        missed *= 1.0 - retention.kept(again / groups_of(again, plan.fan_ins[0]))
    return Expected(1.0 - missed, reads)


def _above(plan: Plan, retention: Retention) -> float:
    kept, count = 1.0, plan.groups
    for fan_in in plan.fan_ins[1:]:
        groups = groups_of(count, fan_in)
        kept *= retention.kept(count / groups)
        count = groups
    return kept
