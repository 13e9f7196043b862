"""What a command would take, by phase (`--dry-run`), and the refusal of a budget too small for its first step.

Both stand on one estimate, so what a dry run refuses is refused by the run too, before anything is paid.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from combee.errors import BudgetError, UsageError
from combee.kernel.learn import LearnConfig, Task
from combee.kernel.playbook import Playbook, count_tokens, load, tokens
from combee.run.environments import environment_of, trials_expected
from combee.run.options import price_advice, refuse_unknown_prices
from combee.run.settings import Settings
from combee.run.words import counted
from combee.tasks import TaskSet

if TYPE_CHECKING:
    from combee.model import Estimate, ModelSettings, Phase, Workload

_ROLE = {"rollout": "generator", "reflection": "reflector", "aggregation": "curator", "top call": "curator"}
_SMALLER_BATCH = "Raise the limit, or take a smaller batch; a run that cannot finish a step learns nothing."
_RAISE = "Raise the limit: without all of its calls the command has no result."


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a command would take, in lines for a person and as JSON."""

    lines: tuple[str, ...]
    data: Mapping[str, Any]


NO_CALLS = Forecast(("The embedded agent calls no model: 0 calls, 0 tokens, $0.",), {"calls": 0})


def work_of(spec: Settings, samples: Sequence[int], validation: int = 0) -> Workload:
    """Return what a run is to do; `samples` are the tokens of what it learns from, one number a sample."""
    from combee.model import Workload

    return Workload(
        samples=len(samples),
        validation=validation,
        question_tokens=sum(samples) // max(1, len(samples)),
        book_tokens=0 if spec.start is None else tokens(load(spec.start)),
        rounds=spec.agent.reflection_rounds,
    )


def work_on(spec: Settings, tasks: TaskSet) -> Workload:
    """Return what a run on tasks is to do."""
    return work_of(spec, [count_tokens(task.question) for task in tasks.train], len(tasks.val))


def check_budget(spec: Settings, work: Workload, *, answering: bool = True) -> None:
    """Refuse a budget of zero or less, and one that cannot pay for the first step of a run with a model.

    Args:
        spec: The run.
        work: What it is to do.
        answering: The samples are answered first; recorded runs are not.

    Raises:
        UsageError: A limit of the run or of a role is below what one step takes, or a budget in money meets a model
            without a price.
    """
    from combee.model.settings import ROLES

    if environment_of(spec) is not None:
        answering = False
        _check_trials(spec, work.samples)
    if not spec.calls_models:
        return
    refuse_unknown_prices(spec)
    if not spec.budget.given():
        return
    # A run that finds its batch size begins with small ones.
    config = spec.learn_config()
    first = dataclasses.replace(config, batch=min(config.candidates or (1,))) if config.batch == "auto" else config
    found = estimate_run(spec, work, first, answering=answering)
    settings = spec.models()
    step = [_a_step(phase, found.steps, settings[_ROLE[phase.name]]) for phase in found.phases if phase.name in _ROLE]
    longest = max(one.max_output_tokens for one in settings.values())
    refuse_beyond(step, spec.limits(), longest, "one step", _SMALLER_BATCH)
    for role in ROLES:
        own = [phase for phase in step if _ROLE[phase.name] == role]
        if own and (limits := spec.limits(role)):
            longest = settings[role].max_output_tokens
            refuse_beyond(own, limits, longest, f"[budget.{role}]: one step", _SMALLER_BATCH)


def check_smallest_step(spec: Settings, work: Workload) -> None:
    """Refuse a budget below what a step takes at the least, where how a step is made is not known beforehand.

    Raises:
        UsageError: A limit is too low.
    """
    from combee.model.estimate import refuse_too_small

    if environment_of(spec) is not None:
        _check_trials(spec, work.samples)
    refuse_unknown_prices(spec)
    with _as_usage("one step", _SMALLER_BATCH):
        refuse_too_small(work, spec.learn_config(), spec.limits())


def _a_step(phase: Any, steps: int, one: ModelSettings) -> Phase:
    from combee.model import Phase

    return Phase(
        phase.name,
        phase.calls // steps,
        phase.prompt // max(1, phase.calls),
        phase.completion // max(1, phase.calls),
        phase.seconds / steps,
        price=one.known_price(),
    )


def refuse_beyond(
    phases: Sequence[Phase], limits: Mapping[str, Any], longest: int, what: str, hint: str = _RAISE
) -> None:
    """Refuse limits that are below what `phases` take together, each of them one wave of calls.

    One of the calls is counted with the `longest` reply it may get: a limit is held against that before a call begins.
    Minutes refuse nothing: how fast an endpoint is shows only when it is asked.

    Raises:
        UsageError: It names the limit and what is needed.
    """
    from combee.model import Budget, estimate_phases

    budget = Budget(**{name: limit for name, limit in limits.items() if name != "max_minutes"})
    dearest = max(
        phases, key=lambda phase: (longest - phase.completion) * (phase.price.completion if phase.price else 1)
    )
    last = dataclasses.replace(dearest, calls=1, completion=max(longest, dearest.completion))
    rest = [dataclasses.replace(phase, calls=phase.calls - (phase is dearest)) for phase in phases]
    with _as_usage(what, hint):
        waves = max(phase.calls for phase in phases)
        estimate_phases([*rest, last], concurrency=waves, budget=budget)


@contextmanager
def _as_usage(what: str, hint: str) -> Iterator[None]:
    """A limit that is too low is a wrong option: nothing was done yet that could have failed."""
    try:
        yield
    except BudgetError as error:
        message = error.message
        if not message.startswith("one step"):  # an unknown price, with how it is given
            raise UsageError(message, hint=error.hint) from error
        raise UsageError(what + message.removeprefix("one step"), hint=hint) from error


def estimate_run(
    spec: Settings, work: Workload, config: LearnConfig | None = None, *, answering: bool = True
) -> Estimate:
    """Return what a run would take; `answering`: its samples are answered first, as recorded runs are not."""
    from combee.ace import Prompts
    from combee.model import Estimate, estimate_learning

    found = estimate_learning(
        work,
        config or spec.learn_config(),
        spec.models(),
        prompt_tokens=Prompts.load(spec.agent.prompts).tokens,
    )
    return found if answering else Estimate(found.steps, tuple(p for p in found.phases if p.name != "rollout"))


def forecast_run(spec: Settings, work: Workload, *, answering: bool = True) -> Forecast:
    """Return what the run would take. Needs no key and calls nothing; what a model costs may be unknown.

    Raises:
        UsageError: The budget does not reach for one step, or no model is named.
    """
    from combee.model.estimate import ASSUMED

    if spec.pays and answering and environment_of(spec) is not None:
        return with_trials(spec, forecast_run(spec, work, answering=False), _trials(spec, work))
    if not spec.calls_models:
        return NO_CALLS
    found = estimate_run(spec, work, answering=answering)
    check_budget(spec, work, answering=answering)
    rest = f", {work.validation} for validation" if answering else ""
    head = f"{counted(work.samples, 'sample')} in {counted(found.steps, 'step')}{rest}."
    return _forecast(found, spec, head, ASSUMED, {"steps": found.steps})


def _check_trials(spec: Settings, samples: int) -> None:
    """Refuse limits that do not reach for the trials of one step."""
    config = spec.learn_config()
    first = min(samples, min(config.candidates or (1,)) if config.batch == "auto" else config.batch)
    for name, each in (("max_cost", spec.environment.dollars or 0.0), ("max_calls", 1)):
        limit = spec.limits().get(name)
        if limit is not None and limit + 1e-12 < first * each:
            said = f"{name} is {limit:g}: the {counted(first, 'trial')} of one step may take {first * each:g}."
            raise UsageError(said, hint=_SMALLER_BATCH)


def _trials(spec: Settings, work: Workload) -> int:
    config = spec.learn_config()
    seen = work.samples * config.epochs
    return seen + work.validation * max(1, -(-seen // config.eval_every))


def with_trials(spec: Settings, calls: Forecast, trials: int) -> Forecast:
    """Return a forecast with what so many trials take besides."""
    lines, data = trials_expected(spec, trials)
    return Forecast((*lines, *calls.lines), {**calls.data, **data})


def _forecast(found: Estimate, spec: Settings, head: str, assumed: str, more: Mapping[str, Any]) -> Forecast:
    known = {one.name: one.known_price() for one in spec.models().values()}
    unpriced = sorted(name for name, price in known.items() if price is None)
    prices = {name: price for name, price in sorted(known.items()) if price is not None}
    phases = [dataclasses.asdict(phase) for phase in found.phases]
    data: dict[str, Any] = {**more, "calls": found.calls, "tokens": found.tokens, "cost": found.cost}
    data |= {"minutes": found.minutes, "phases": phases, "unpriced": unpriced, "assumed": assumed}
    data["prices"] = {name: [price.prompt, price.completion, price.source] for name, price in prices.items()}
    lines = [head, found.table(), assumed]
    for name, price in prices.items():
        cost = f"{price.prompt:g}/{price.completion:g} dollars per million tokens ({price.source})"
        lines.append(f"Price of {name}: {cost}.")
    lines += [f"The price of {name} is not known. {price_advice(name)}" for name in unpriced]
    return Forecast(tuple(lines), data)


def _scoring(spec: Settings, tasks: Sequence[Task], books: Mapping[str, Playbook]) -> list[Phase]:
    """Return what it takes to score each of `books` on all tasks with an answer."""
    from combee.ace import Prompts
    from combee.model import Phase
    from combee.model.estimate import ANSWER

    asked = [count_tokens(task.question) for task in tasks if task.target is not None]
    prompt = Prompts.load(spec.agent.prompts).by_name["generator"]
    fixed = count_tokens(prompt.system + prompt.user) + sum(asked) // max(1, len(asked))
    price = spec.model_of("generator").known_price()
    view = spec.learn_config().view_tokens
    return [
        Phase(name, len(asked), fixed + min(tokens(book), view or tokens(book)), ANSWER, price=price)
        for name, book in books.items()
    ]


def check_scoring(spec: Settings, tasks: Sequence[Task], books: Mapping[str, Playbook]) -> None:
    """Refuse a budget that does not reach for scoring all of `books`.

    Raises:
        UsageError: A limit of the run or of the generator is too low.
    """
    if not spec.calls_models or not spec.budget.given() or environment_of(spec) is not None:
        return
    phases = _scoring(spec, tasks, books)
    longest = spec.model_of("generator").max_output_tokens
    refuse_beyond(phases, spec.limits(), longest, "this command")
    if limits := spec.limits("generator"):
        refuse_beyond(phases, limits, longest, "[budget.generator]: this command")


def forecast_scoring(spec: Settings, tasks: Sequence[Task], books: Mapping[str, Playbook]) -> Forecast:
    """Return what it would take to score `books`; calls nothing.

    Raises:
        UsageError: The budget does not reach for it.
    """
    from combee.model.estimate import ANSWER, SECONDS, estimate_phases

    if environment_of(spec) is not None:
        asked = sum(task.target is not None for task in tasks)
        return with_trials(spec, Forecast((), {"calls": 0}), asked * len(books))
    if not spec.calls_models:
        return NO_CALLS
    check_scoring(spec, tasks, books)
    found = estimate_phases(_scoring(spec, tasks, books), concurrency=spec.learn_config().concurrency)
    head = f"{counted(found.calls, 'answer')} to score {counted(len(books), 'playbook')}."
    assumed = f"Assumed: an answer of {ANSWER} tokens, {SECONDS:g} s a call. No retries, no cached prompts."
    return _forecast(found, spec, head, assumed, {})
