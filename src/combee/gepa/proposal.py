"""gepa's `ReflectionProposal` from what was learned, and one that says that nothing was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gepa.proposer.reflective_mutation.reflection_lm import ReflectionProposal

from combee.gepa.component import Learned
from combee.model import Model

__all__ = ["Failed", "ReflectionProposal", "failing_proposal", "proposal_of"]


@dataclass(frozen=True, slots=True)
class Failed:
    """A component of which nothing came."""

    component: str
    reason: str
    hint: str | None = None


def proposal_of(parts: Sequence[Learned[Any] | Failed], model: Model) -> ReflectionProposal:
    """Return the new texts with their figures, under names that begin with "combee:"."""
    learned = [one for one in parts if isinstance(one, Learned)]
    metadata: dict[str, Any] = {f"combee:{one.component}": one.metadata() for one in learned}
    for one in parts:
        if isinstance(one, Failed):
            metadata[f"combee:{one.component}"] = {"error": one.reason}
    if learned:
        metadata["combee:model"] = model.name
        metadata["combee:calls"] = sum(one.calls for one in learned)
        metadata["combee:coverage"] = round(sum(one.coverage for one in learned) / len(learned), 4)
        metadata["combee:seconds"] = round(max(one.seconds for one in learned), 4)
    return ReflectionProposal(
        new_texts={one.component: one.text for one in learned if not one.refused},
        prompts={one.component: one.prompt for one in learned},
        raw_lm_outputs={one.component: one.raw for one in learned},
        metadata=metadata,
    )


class _FailingTexts(dict[str, str]):
    """No texts, but an error: whoever looks at them gets it.

    gepa catches what a reflection raises and goes on as if there had been nothing to propose. It looks at the texts
    outside of that catch, where its own `raise_on_exception` and `on_error` decide.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def _fail(self, *_: object, **__: object) -> NoReturn:
        raise self._error

    def __bool__(self) -> bool:  # noqa: PLE0304 - it raises
        self._fail()

    def __len__(self) -> int:  # noqa: PLE0303 - it raises
        self._fail()

    def __iter__(self) -> Iterator[str]:
        self._fail()

    def __getitem__(self, key: str) -> str:
        self._fail()

    def __contains__(self, key: object) -> bool:
        self._fail()

    def __repr__(self) -> str:
        return f"<no texts: {self._error}>"

    get = items = keys = values = copy = _fail


def failing_proposal(error: Exception) -> ReflectionProposal:
    """Return a proposal that raises the error when its texts are looked at."""
    return ReflectionProposal(new_texts=_FailingTexts(error), metadata={"combee:error": str(error)})
