"""What a plan keeps and reads when every call forgets: the arithmetic behind leaves of 16 and a merge by code.

A model, not a law: a lesson that enters a call over m inputs leaves it with probability exp(−δ − m/m0), each time anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from combee.kernel.aggregate.cost import Retention, groups_of

if TYPE_CHECKING:
    from combee.kernel.aggregate.plan import Plan

__all__ = ["Expected", "expected"]


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
