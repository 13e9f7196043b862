"""The plots of a run: score, tokens and bullets over steps, lessons a step, and the curve behind the batch size.

All of them count steps done: 0 is the start, step k ends at k + 1, and what was measured before step k began (the
training score, as each step's samples are answered before it learns from them) stands at k.
"""

from __future__ import annotations

from collections.abc import Sequence

from combee.kernel.learn import BatchChosen, StepFinished, StepStarted
from combee.report.svg import Mark, Plot, Series, line_plot

__all__ = ["batch_plot", "lessons_plot", "pace_plot", "score_plot", "size_plot"]

MOST_POINTS = 120  # of a line; more steps than this share points
MOST_SINGLE = 20  # scores shown step by step; of more, neighbours with few answers share a point
FEWEST_ANSWERS = 20  # behind such a shared point
_STEPS = "steps done"


def score_plot(steps: Sequence[StepFinished], held: Sequence[tuple[float, float]]) -> Plot | None:
    """Draw the share of right answers; None where nothing was scored. `held` has (steps done, validation score)."""
    groups = _scored(steps)
    training = [
        ((group[0].step + group[-1].step) / 2, sum(step.hits for step in group) / sum(step.total for step in group))
        for group in groups
    ]
    name = "training, before learning from it"
    most = max(map(len, groups), default=1)
    if most > 1:
        name += f" (up to {most} steps a point)"
    series = [Series(name, training, dots=len(training) <= 40), Series("validation", held)]
    series = [one for one in series if one.points]
    if not series:
        return None
    title = "Score" if len(series) > 1 else f"Score ({series[0].name})"
    return line_plot(series, title=title, x=_STEPS, y="share right", y_limits=(0, 1), whole_x=True)


def size_plot(steps: Sequence[StepFinished], what: str, start: int | None = None) -> Plot:
    """Draw `tokens` or `bullets` of the playbook; `start` is what it had before the first step, where that is known."""
    points = [] if start is None else [(0, float(start))]
    points += [(chunk[-1].step + 1, float(getattr(chunk[-1], what))) for chunk in _chunks(steps)]
    series = [Series(what, points, dots=len(points) <= 40)]
    return line_plot(series, title=f"Playbook {what}", x=_STEPS, y=what, whole_x=True)


def lessons_plot(steps: Sequence[StepFinished]) -> Plot:
    """Draw lessons that the reflections brought and operations that were applied (means where steps share a point)."""

    def mean(chunk: Sequence[StepFinished], what: str) -> tuple[float, float]:
        return chunk[-1].step + 1, sum(getattr(step, what) for step in chunk) / len(chunk)

    chunks = _chunks(steps, most=40)
    dots = len(chunks) <= 40
    series = [
        Series("lessons from reflections", [mean(chunk, "lessons") for chunk in chunks], dots=dots),
        Series("operations applied", [mean(chunk, "operations") for chunk in chunks], dots=dots, dashed=True),
    ]
    if any(step.uncovered for step in steps):
        series.append(Series("reflections lost", [mean(chunk, "uncovered") for chunk in chunks], dots=dots))
    return line_plot(series, title="Lessons a step", x=_STEPS, y="lessons", whole_x=True)


def batch_plot(steps: Sequence[StepStarted]) -> Plot:
    """Draw the size of each minibatch."""
    points = [(step.step + 1, float(step.batch)) for step in steps if step.batch]
    series = [Series("batch", points, dots=len(points) <= 60)]
    return line_plot(series, title="Batch size", x=_STEPS, y="samples a step", whole_x=True)


def pace_plot(choice: BatchChosen) -> Plot:
    """Draw seconds of one pass by batch size, measured and fitted, with the size that was chosen."""
    measured = [(float(size), seconds) for size, seconds, _ in choice.curve if seconds is not None]
    series = [Series("measured", measured, line=False)]
    if choice.scale is not None and choice.alpha is not None and len(choice.curve) > 1:
        low, high = choice.curve[0][0], choice.curve[-1][0]
        sizes = [low * (high / low) ** (i / 30) for i in range(31)]
        fitted = [(size, choice.scale * size**-choice.alpha) for size in sizes]
        name = f"fitted: {choice.scale:.3g}·b^−{choice.alpha:.2f} s"
        series.append(Series(name, fitted, dots=False, dashed=True))
    return line_plot(
        series,
        title="Time of one pass by batch size",
        x="samples a step (log)",
        y="seconds a pass (log)",
        log_x=True,
        log_y=True,
        zero=False,
        marks=[Mark(float(choice.batch), f"batch {choice.batch}", "x")],
    )


def _scored(steps: Sequence[StepFinished]) -> list[list[StepFinished]]:
    """Return the scored steps in groups that share a point: each alone up to 20 steps.

    Of more, neighbours are together until they have 20 answers, as the score of fewer says little; but no more of them
    than leave some 20 points.
    """
    scored = [step for step in steps if step.total]
    if len(scored) <= MOST_SINGLE:
        return [[step] for step in scored]
    most, groups = -(-len(scored) // MOST_SINGLE), list[list[StepFinished]]()
    for chunk in _chunks(scored):
        last = groups[-1] if groups else None
        if last and len(last) + len(chunk) <= most and sum(step.total for step in last) < FEWEST_ANSWERS:
            last.extend(chunk)
        else:
            groups.append(list(chunk))
    return groups


def _chunks(steps: Sequence[StepFinished], most: int = MOST_POINTS) -> list[Sequence[StepFinished]]:
    size = max(1, -(-len(steps) // most))
    return [steps[i : i + size] for i in range(0, len(steps), size)]
