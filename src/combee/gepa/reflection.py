"""`CombeeReflection`: gepa's `ReflectionLM` by parallel scan. All components of all proposals run at the same time.

A failed call costs its own records at most: the rest is kept, and nothing paid is bought again. Where nothing at all
came of a reflection, gepa gets the error in a way that its own rule for errors (`raise_on_exception`) decides about.

Playbooks by their text: the text alone does not say where a bullet comes from, so the newest are kept whole.

gepa's `ReflectionProposal` from what was learned, and one that says that nothing was.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from gepa.proposer.reflective_mutation.reflection_lm import ReflectionProposal

from combee.errors import RunError, UsageError
from combee.gepa.background import Background, Closing
from combee.gepa.component import AttemptScope, ComponentWork, Learned, learn_component
from combee.gepa.language import Booked, FunctionModel, LanguageModel, as_model
from combee.gepa.methods import is_playbook
from combee.gepa.options import ReflectionOptions
from combee.gepa.records import IMAGE, read_records
from combee.gepa.stock import arguments_of_optimize
from combee.kernel.guard import GuardLimits
from combee.kernel.journal import JSON, Scope
from combee.kernel.learn import Judge
from combee.kernel.playbook import Playbook, from_json, from_text, to_json
from combee.model import ChatModel, Ledger
from combee.redaction import find_secrets

__all__ = [
    "Books",
    "CombeeReflection",
    "Failed",
    "ReflectionProposal",
    "failing_proposal",
    "proposal_of",
    "text_digest",
]

Job = tuple[Mapping[str, str], Mapping[str, Sequence[Mapping[str, Any]]], Sequence[str]]

_LOG = logging.getLogger("combee")


class CombeeReflection(Closing):
    """Proposes new texts from minibatches of any size; pass it as `reflection_strategy=` to `gepa.optimize`.

    A context manager; `close` ends its thread. It holds no other state than what `get_state` returns.

    Args:
        lm: A Combee model, a function from prompt to text (blocking or async), or a name that gepa's `LM` knows.
        options: How records become a text; single options may be given by name too, as in `max_items=12`.
        scope: Where in a journal results and decisions are kept. None: in memory, until each reflection is through.
        ledger: The ledger that the model books into by itself, where it has no engine.
        background: The loop to run on; share it with a `TaskAdapter` on the same model.
        tell: Called with each `Learned` component, from the calling thread.
        judge: The guard: what it refuses is made again in smaller groups, or not proposed. None: one with the usual
            limits; `Judge(enabled=False)` looks for secrets only.

    Raises:
        UsageError: An option or the model cannot be used.
    """

    def __init__(
        self,
        lm: LanguageModel,
        *,
        options: ReflectionOptions | None = None,
        scope: Scope | None = None,
        ledger: Ledger | None = None,
        background: Background | None = None,
        tell: Callable[[Learned[Any]], None] | None = None,
        judge: Judge | None = None,
        **single: Any,
    ) -> None:
        self.options = (options or ReflectionOptions()).but(**single)
        self._given = lm
        self._scope = scope
        self._model = self._as_booked(ledger)
        self._own = background is None
        self._background = background or Background()
        self._tell = tell
        self._judge = judge or Judge(limits=GuardLimits(find_secrets=find_secrets))
        self.step = 0
        """The number that the guard's verdicts carry; counts reflections unless it is set."""
        self._log: Callable[[str], object] | None = None
        self._seen: Counter[str] = Counter()
        self._failed: set[str] = set()
        self._books = Books()
        self._spent_before = 0.0
        self._arguments_taken = False

    def _as_booked(self, ledger: Ledger | None) -> Booked:
        said = self.options
        model = as_model(self._given, concurrency=said.concurrency, price=said.price, settings=said.lm_kwargs)
        return Booked(model, ledger, remember=self._scope is None)

    @property
    def ledger(self) -> Ledger:
        """Every call by phase: roles reflection/map, /add, /combine, /delta, and each with /again."""
        return self._model.ledger

    @property
    def total_cost(self) -> float:
        """US dollars spent on reflection, for gepa's `max_reflection_cost`.

        Raises:
            AttributeError: It cannot be known, so that gepa refuses a limit that it could not hold.
        """
        if not self.supports_cost_tracking():
            raise AttributeError("the price of the reflection model is not known; give price=Price(input, output)")
        model = self._model.model
        function = getattr(model, "function", None)
        if getattr(model, "price", None) is None and hasattr(function, "total_cost"):
            return self._spent_before + float(cast("Any", function).total_cost)
        ours = (totals.cost for role, totals in self.ledger.by_role.items() if role.startswith("reflection"))
        return self._spent_before + sum(ours)

    def supports_cost_tracking(self) -> bool:
        """Return whether `total_cost` is what is really spent."""
        model = self._model.model
        if isinstance(model, FunctionModel):
            return model.knows_cost
        priced = getattr(model, "price", self) is not None
        rows = (totals.unpriced for role, totals in self.ledger.by_role.items() if role.startswith("reflection"))
        return priced and not any(rows)

    def reflect(
        self,
        candidate: Mapping[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: Sequence[str],
    ) -> tuple[ReflectionProposal, CombeeReflection]:
        """Return new texts for the components; the same as `reflect_many` with one job.

        Raises:
            RunError: Nothing came of it. A second failure on the same job is handed over inside the proposal and raised
                when its texts are looked at: gepa catches what this method raises, tries it once more, and would then
                lose the iteration in silence.
        """
        return self.reflect_many([(candidate, reflective_dataset, components_to_update)])[0]

    def reflect_many(self, jobs: Sequence[Job]) -> list[tuple[ReflectionProposal, CombeeReflection]]:
        """Return a proposal for each job, in order. See `reflect` for what it raises.

        A job of which nothing came, beside others that succeeded, has no texts and the reason in its metadata.
        """
        self._model.try_again()
        try:
            self._take_arguments()
            works = self._works(jobs)
            found = self._background.run(self._learn([work for parts in works for work in parts]))
        except Exception as error:  # noqa: BLE001 - gepa would swallow it, whatever it is
            return [(proposal, self) for proposal in self._deferred(error, jobs)]
        outcomes = iter(found)
        by_job = [[next(outcomes) for _ in parts] for parts in works]
        failures = [one for parts in by_job for one in parts if isinstance(one, Failed)]
        if failures and len(failures) == len(found):
            nothing = RunError(
                f"nothing came of the reflection: {'; '.join(one.reason for one in failures)}",
                hint=failures[0].hint or "Look at the reason; what was paid is kept.",
            )
            return [(proposal, self) for proposal in self._deferred(nothing, jobs)]
        self._failed.clear()
        self._model.forget()
        self._note(works, by_job)
        return [(proposal_of(parts, self._model), self) for parts in by_job]

    def _take_arguments(self) -> None:
        """Take what `gepa.optimize` was given for its own reflection, once.

        Raises:
            UsageError: Settings for a model that was named, where none is.
        """
        if self._arguments_taken:
            return
        given = arguments_of_optimize()
        settings = given.get("reflection_lm_kwargs")
        if settings and not isinstance(self._given, str):
            hint = "Set what you need where you make the model; or give its name, as gepa knows it."
            raise UsageError("reflection_lm_kwargs does nothing beside a model that is no name.", hint=hint)
        self.bind_lm_kwargs(settings or None)
        self.bind_reflection_prompt_template(given.get("reflection_prompt_template"))
        if given.get("reflection_lm") is not None:
            self._say("reflection_lm is not asked: the reflection strategy has a model of its own.")
        self._arguments_taken = bool(given)

    def propose(
        self,
        candidate: Mapping[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: Sequence[str],
    ) -> dict[str, str]:
        """Return new texts alone: gepa's `ProposalFn`, for `dspy.GEPA(instruction_proposer=...)` and the like.

        Raises:
            RunError: Nothing came of it.
        """
        return dict(self.reflect(candidate, reflective_dataset, components_to_update)[0].new_texts)

    def _works(self, jobs: Sequence[Job]) -> list[list[ComponentWork]]:
        """Return what is to be done for each job; components without records are skipped and said so."""
        counted = self._seen.copy()
        works: list[list[ComponentWork]] = []
        for candidate, dataset, components in jobs:
            parts: list[ComponentWork] = []
            for component in dict.fromkeys(components):
                raw = dataset.get(component)
                if not raw or component not in candidate:
                    self._say(f"Component {component!r} has no records, or no text: it is left as it is.")
                    continue
                records, text = read_records(raw), candidate[component]
                if any(IMAGE in record.text for record in records):
                    self._say(f"Records of {component!r} hold images, which are not shown; describe them in words.")
                name = text_digest("\0".join([component, text, *sorted(record.key for record in records)]))[:16]
                number, counted[name] = counted[name], counted[name] + 1
                place = self._place(f"reflect/{component}/{name}/{number}")
                book = self.book_of(text) if self._is_book(component, text) else None
                parts.append(ComponentWork(component, text, name, records, place, number, book, self.step))
            works.append(parts)
        return works

    async def _learn(self, works: Sequence[ComponentWork]) -> list[Learned[Any] | Failed]:
        """Do all at once; what failed alone is told, what ends everything is raised after the rest has settled."""
        asked = (learn_component(work, self._model, self.options, self._judge) for work in works)
        found = await asyncio.gather(*asked, return_exceptions=True)
        ends = [one for one in found if isinstance(one, BaseException) and type(one) is not RunError]
        if ends:
            raise ends[0]
        return [
            Failed(work.component, one.message, one.hint) if isinstance(one, RunError) else cast("Learned[Any]", one)
            for work, one in zip(works, found, strict=True)
        ]

    def _deferred(self, error: Exception, jobs: Sequence[Job]) -> list[ReflectionProposal]:
        """Raise the error the first time; the second time put it into proposals, past gepa's catch."""
        self._say(f"Reflection failed: {error}")
        names = [_digest(job) for job in jobs]
        if not self._failed.issuperset(names):
            self._failed.update(names)
            raise error
        self._failed.difference_update(names)
        return [failing_proposal(error) for _ in names]

    def _note(
        self, works: Sequence[Sequence[ComponentWork]], by_job: Sequence[Sequence[Learned[Any] | Failed]]
    ) -> None:
        """Count what was learned, keep new playbooks whole, and tell whoever listens."""
        for parts, outcomes in zip(works, by_job, strict=True):
            for work, one in zip(parts, outcomes, strict=True):
                if isinstance(one, Failed):
                    self._say(f"Reflection on {one.component!r} failed, the others go on: {one.reason}")
                    continue
                self._seen[work.name] += 1
                for note in one.notes:
                    if "left out" in note:
                        self._say(f"{one.component}: {note}")
                if one.book is not None:
                    self._books.keep(one.text, one.book)
                if one.mode == "delta":
                    final = one.judged[-1]
                    self._judge.remember(final.evidence, final.verdict, Playbook(), leafwise=True)
                if self._tell is not None:
                    self._tell(one)
        self.step += 1

    def _place(self, name: str) -> AttemptScope | None:
        return None if self._scope is None else AttemptScope(self._scope.sub(name))

    def _is_book(self, component: str, text: str) -> bool:
        wanted = self.options.playbooks
        return is_playbook(text) if wanted == "auto" else component in wanted

    def book_of(self, text: str) -> Playbook:
        """Return a text as a playbook: with its sources where we wrote it, else what the text alone says."""
        return self._books.of(text)

    def _say(self, message: str) -> None:
        if self._log is not None:
            self._log(message)
        else:
            _LOG.warning(message)

    def get_state(self) -> dict[str, JSON]:
        """Return what a resumed run needs, as JSON: see `keep_state`."""
        spent = self.total_cost if self.supports_cost_tracking() else 0.0
        return {
            "seen": dict(self._seen),
            "books": self._books.as_json(),
            "spent": spent,
            "step": self.step,
            "judge": self._judge.get_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        self._seen = Counter(state.get("seen", {}))
        self._books = Books(state.get("books"))
        self._spent_before = float(state.get("spent", 0.0))
        self.step = int(state.get("step", 0))
        if "judge" in state:
            self._judge.set_state(state["judge"])

    def bind_logger(self, logger: Any) -> None:
        """Take gepa's logger (later versions give it)."""
        self._log = logger.log

    def bind_lm_kwargs(self, lm_kwargs: Mapping[str, Any] | None) -> None:
        """Take gepa's settings for a model that was named, unless it has its own (later versions give them)."""
        if isinstance(self._given, str) and self.options.lm_kwargs is None and lm_kwargs is not None:
            self.options = self.options.but(lm_kwargs=lm_kwargs)
            self._model = self._as_booked(None)

    def bind_reflection_prompt_template(self, template: str | Mapping[str, str] | None) -> None:
        """Take gepa's template, unless there is one already (later versions give it)."""
        if template is not None and self.options.prompt_template is None:
            self.options = self.options.but(prompt_template=template)

    def close(self) -> None:
        """End the thread, unless it is shared. May be called again; used again, it starts again."""
        model = self._model.model
        if isinstance(model, FunctionModel):
            model.close()
        if self._own:
            self._background.close()


def _digest(job: Job) -> str:
    """Return what tells one job from another within a run."""
    candidate, dataset, components = job
    parts = [(name, candidate.get(name, ""), repr(dataset.get(name))) for name in components]
    return text_digest(repr(parts))


_MOST = 256


class Books:
    """The newest 256 playbooks."""

    def __init__(self, kept: Mapping[str, str] | None = None) -> None:
        self._kept = {name: from_json(book) for name, book in (kept or {}).items()}

    def keep(self, text: str, book: Playbook) -> None:
        """Keep a playbook under its text."""
        self._kept[text_digest(text)] = book
        while len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]

    def of(self, text: str) -> Playbook:
        """Return a text as a playbook: with its sources where it was kept, else what the text alone says."""
        known = self._kept.get(text_digest(text))
        return known if known is not None else from_text(text).playbook

    def as_json(self) -> dict[str, JSON]:
        """Return them as JSON, for `Books(...)`."""
        return {name: to_json(book) for name, book in self._kept.items()}


def text_digest(text: str) -> str:
    """Return what stands for a text."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Failed:
    """A component of which nothing came."""

    component: str
    reason: str
    hint: str | None = None


def proposal_of(parts: Sequence[Learned[Any] | Failed], model: ChatModel) -> ReflectionProposal:
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
