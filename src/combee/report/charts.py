"""The plots of a run: score, tokens and bullets over steps, lessons a step, and the curve behind the batch size."""

from __future__ import annotations

from collections.abc import Sequence

from combee.learn import BatchChosen, StepFinished, StepStarted, Validated
from combee.report.svg import Mark, Plot, Series, line_plot

__all__ = ["batch_plot", "lessons_plot", "pace_plot", "score_plot", "size_plot"]

MOST_POINTS = 120  # of a line; more steps than this share points
FEWEST_ANSWERS = 20  # behind one point of the training score


def score_plot(steps: Sequence[StepFinished], validations: Sequence[Validated]) -> Plot | None:
    """Draw the share of right answers; None where nothing was scored."""
    training = [
        (chunk[-1].step, sum(step.hits for step in chunk) / total)
        for chunk in _scored(steps)
        if (total := sum(step.total for step in chunk))
    ]
    held = [(one.step, one.hits / one.total) for one in validations if one.total]
    series = [
        Series("training, before learning from it", training, dots=len(training) <= 40),
        Series("validation", held),
    ]
    series = [one for one in series if one.points]
    if not series:
        return None
    title = "Score" if len(series) > 1 else f"Score ({series[0].name})"
    return line_plot(series, title=title, x="steps done", y="share right", y_limits=(0, 1), whole_x=True)


def size_plot(steps: Sequence[StepFinished], what: str) -> Plot:
    """Draw `tokens` or `bullets` of the playbook."""
    points = [(chunk[-1].step, float(getattr(chunk[-1], what))) for chunk in _chunks(steps)]
    series = [Series(what, points, dots=len(points) <= 40)]
    return line_plot(series, title=f"Playbook {what}", x="steps done", y=what, whole_x=True)


def lessons_plot(steps: Sequence[StepFinished]) -> Plot:
    """Draw lessons that the reflections brought and operations that were applied (means where steps share a point)."""

    def mean(chunk: Sequence[StepFinished], what: str) -> tuple[float, float]:
        return chunk[-1].step, sum(getattr(step, what) for step in chunk) / len(chunk)

    chunks = _chunks(steps, most=40)
    dots = len(chunks) <= 40
    series = [
        Series("lessons from reflections", [mean(chunk, "lessons") for chunk in chunks], dots=dots),
        Series("operations applied", [mean(chunk, "operations") for chunk in chunks], dots=dots),
    ]
    if any(step.uncovered for step in steps):
        series.append(Series("reflections lost", [mean(chunk, "uncovered") for chunk in chunks], dots=dots))
    return line_plot(series, title="Lessons a step", x="steps done", y="lessons", whole_x=True)


def batch_plot(steps: Sequence[StepStarted]) -> Plot:
    """Draw the size of each minibatch."""
    points = [(step.step, float(step.batch)) for step in steps if step.batch]
    series = [Series("batch", points, dots=len(points) <= 60)]
    return line_plot(series, title="Batch size", x="step", y="samples a step", whole_x=True)


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
    """Return the scored steps in groups of at least 20 answers: the score of fewer says little."""
    groups: list[list[StepFinished]] = []
    for chunk in _chunks([step for step in steps if step.total]):
        if groups and sum(step.total for step in groups[-1]) < FEWEST_ANSWERS:
            groups[-1].extend(chunk)
        else:
            groups.append(list(chunk))
    return groups


def _chunks(steps: Sequence[StepFinished], most: int = MOST_POINTS) -> list[Sequence[StepFinished]]:
    size = max(1, -(-len(steps) // most))
    return [steps[i : i + size] for i in range(0, len(steps), size)]
