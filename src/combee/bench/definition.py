"""A bench is data: a TOML file of task sets, arms (settings of a run), and what the paper reports for them.

Those of the paper are packaged; a file of one's own is read the same way. An arm is made of the tables that combee.toml
has; with `vary` and `values` it gives a cell for each value, and each cell is learned once a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from combee.errors import DataError, UsageError, did_you_mean
from combee.kernel.journal import JSON, hash_json
from combee.run.methods import method_of
from combee.run.options import PACE
from combee.run.settings import Settings
from combee.run.settings_sources import Layer, checked, read_layer
from combee.run.settings_tables import AgentTable, Amount, Count, LearnTable, ModelTable, Positive, SettingsTable, Text

__all__ = ["METRICS", "Bench", "Cell", "PaperTable", "bench_names", "cells_of", "read_bench", "small"]

Metric = Literal[
    "score", "entries", "helpful", "calls", "chain", "minutes", "tokens", "cost",
    "kept", "reads", "cpu", "memory", "disk", "opened", "replayed",
]  # fmt: skip
METRICS: tuple[Metric, ...] = ("score", "entries", "helpful", "calls", "chain", "minutes", "tokens", "cost")
PLANTED = "planted"
"""The task set of a bench of sizes: reflections of which each plants a fact; its arms vary `SIZE`."""
SIZE = "size"
At = str | int | float | None
"""The value of what an arm varies; None where it varies nothing."""

_METHODS = ("ace", "gepa")
SMALL_ROWS = (48, 24)
"""Rows of (train, test) with `--small`."""


class PaperTable(SettingsTable):
    """What the paper reports for one cell; what it does not say is left out."""

    tasks: Text
    """The task set."""
    at: Annotated[int | float | str | None, Field(union_mode="left_to_right")] = None
    """The value of what the arm varies."""
    score: Amount | None = None
    """Share of right answers, 0 to 1."""
    entries: Count | None = None
    """Entries of the playbook."""
    helpful: Annotated[int, Field(ge=0)] | None = None
    """Entries that were marked helpful three times or more."""
    said: Text | None = None
    """What it says in words, where it gives no figure."""


class ArmTable(SettingsTable):
    """A way to learn, as a table [[arms]]."""

    name: Text
    """What it is called in tables and plots."""
    vary: Text | None = None
    """A setting of which each of `values` gives a cell, such as learn.batch."""
    values: list[int | float | bool | str] = Field(default_factory=list)
    """Values of `vary`."""
    empty: bool = False
    """Learn nothing: score the agent without a playbook."""
    learn: LearnTable = LearnTable()
    """How it learns, as in combee.toml."""
    agent: AgentTable = AgentTable()
    """Who works, as in combee.toml."""
    model: ModelTable = ModelTable()
    """The models of this arm alone, as in combee.toml."""
    paper: list[PaperTable] = Field(default_factory=list)
    """What the paper reports, as [[arms.paper]]."""

    @property
    def points(self) -> list[At]:
        """The value of each cell; one without a value where nothing is varied."""
        return [*self.values] or [None]


class BenchTable(SettingsTable):
    """A bench."""

    title: Text
    """Heading of its table and page."""
    about: Text = "A bench of one's own."
    """What it shows, in a few sentences."""
    tasks: Annotated[list[Text], Field(min_length=1)]
    """Task sets: finer, formula, tags, or files; planted alone where arms vary size: the loop without an agent."""
    seeds: Count = 3
    """How often each cell is learned. A seed decides which reflections share a call, and what is forgotten."""
    val: Annotated[int, Field(ge=0)] = 0
    """Validation rows, for arms of the method gepa; a quarter of the training rows at most with --small."""
    forget: Positive | None = 40.0
    """Simulated forgetting (m0) where the embedded agent works; a model forgets by itself."""
    metrics: list[Metric] = Field(default_factory=lambda: list(METRICS), min_length=1)
    """Columns of the table."""
    learn: LearnTable = LearnTable()
    """Settings of all arms, as in combee.toml."""
    arms: Annotated[list[ArmTable], Field(min_length=1)]
    """Ways to learn, as [[arms]]."""


@dataclass(frozen=True, slots=True)
class Bench:
    """A bench with its name and the layer it was read from, which knows the lines."""

    name: str
    table: BenchTable
    layer: Layer

    @property
    def needs_model(self) -> bool:
        """Whether an arm works with a model only."""
        return any(arm.agent.method != "ace" for arm in self.table.arms)

    @property
    def of_sizes(self) -> bool:
        """Whether its cells are sizes."""
        return self.table.tasks == [PLANTED]

    def refuse(self, place: Sequence[str | int], said: str, hint: str | None = None) -> DataError:
        """Return the error for what cannot be used at a place of the file."""
        origin, line = self.layer.where(tuple(place))
        return DataError(said, path=origin, line=line, hint=hint)


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One run of a bench. `spec` has all of its settings but limits; `paper` what the paper reports for it."""

    arm: str
    tasks: str
    at: At
    seed: int
    spec: Settings
    empty: bool = False
    paper: PaperTable | None = None

    @property
    def group(self) -> tuple[str, str, At]:
        """What the cells that differ in their seed only have in common."""
        return self.tasks, self.arm, self.at

    def folder(self, data: str) -> str:
        """Return the name of its folder; another one for other settings, and for other `data` (a digest)."""
        spec = self.spec.to_json()
        # Where the data lies, and how fast and at which price a model is called, changes no answer.
        kept = {name: value for name, value in spec.items() if name not in {"budget", "prices", "tasks", "workers"}}
        key = hash_json([_without_pace(kept), data, self.empty])[:12]
        return f"{self.spec.stem}-{'none' if self.empty else self.spec.learn_config().aggregate}-{key}"


def _without_pace(value: JSON) -> JSON:
    if not isinstance(value, dict):
        return value
    return {key: _without_pace(one) for key, one in value.items() if key not in PACE | {"base_url"}}


def bench_names() -> list[str]:
    """Return the names of the packaged benches."""
    names = (place.name for place in files("combee.bench").joinpath("benches").iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def read_bench(what: str) -> Bench:
    """Read a packaged bench by its name, or a TOML file.

    Raises:
        UsageError: There is none, or it says what cannot be used; the message names file, line and key.
    """
    if what in (names := bench_names()):
        with as_file(files("combee.bench") / "benches" / f"{what}.toml") as path:
            layer = read_layer(path)
    elif Path(what).suffix == ".toml":
        layer = read_layer(Path(what))
    else:
        raise UsageError(f"There is no bench {what!r}.", hint=f"{did_you_mean(what, names)} Or name a .toml file.")
    found = Bench(Path(what).stem, checked(BenchTable, [layer]), layer)
    _check(found)
    return found


def _check(bench: Bench) -> None:
    names: set[str] = set()
    for number, arm in enumerate(bench.table.arms):
        place = ("arms", number)
        if bench.of_sizes != (arm.vary == SIZE) or (bench.of_sizes and not all(map(_is_size, arm.values))):
            said = f"arm {arm.name!r}: {SIZE} is varied, in whole numbers, where {PLANTED} is the only task set."
            raise bench.refuse((*place, "values"), said, "See `combee bench scale`.")
        if arm.name in names:
            raise bench.refuse((*place, "name"), f"there are several arms {arm.name!r}.", "Name each anew.")
        names.add(arm.name)
        if (arm.vary is None) != (not arm.values):
            raise bench.refuse((*place, "vary"), f"arm {arm.name!r}: vary and values go together.", "Give both.")
        if arm.agent.method not in _METHODS:
            said = f"arm {arm.name!r}: of methods only {' and '.join(_METHODS)} can be benched."
            raise bench.refuse((*place, "agent", "method"), said, "Leave it out.")
        for row, one in enumerate(arm.paper):
            if one.tasks not in bench.table.tasks:
                said = f"the paper's value is of {one.tasks!r}, which is none of the tasks."
                raise bench.refuse((*place, "paper", row, "tasks"), said, did_you_mean(one.tasks, bench.table.tasks))
            if one.at not in arm.points:
                said = f"the paper's value is at {one.at!r}, which is none of the values of arm {arm.name!r}."
                raise bench.refuse((*place, "paper", row), said, "Give it as `at`.")


def _is_size(value: At) -> bool:
    return type(value) is int and value > 0


def small(bench: Bench) -> Bench:
    """Return the bench on a few rows of the built-in tasks, one seed a cell; it needs no data.

    Sizes are a hundredth, 1,000 at most.
    """
    if bench.of_sizes:
        arms = [arm.model_copy(update={"values": _hundredths(arm.values)}) for arm in bench.table.arms]
        table = bench.table.model_copy(update={"arms": arms, "seeds": 1})
    else:
        table = bench.table.model_copy(update={"tasks": ["tags"], "seeds": 1})
    return Bench(f"{bench.name}-small", table, bench.layer)


def _hundredths(sizes: Sequence[int | float | bool | str]) -> list[int]:
    return list(dict.fromkeys(min(1_000, max(1, int(size) // 100)) for size in sizes))


def cells_of(
    bench: Bench, base: Settings, *, seeds: int | None = None, rows: tuple[int, int] | None = None
) -> list[Cell]:
    """Return all cells, those of one seed after those of another: a stop leaves whole tables of fewer seeds.

    Args:
        bench: The bench.
        base: The model and its prices; without a model the embedded agent works.
        seeds: In place of the bench's own.
        rows: Rows of (train, test); None: all.

    Raises:
        UsageError: An arm has a setting that cannot be used, or that does nothing in it.
    """
    if bench.of_sizes:
        base, rows = Settings(), None  # no model is called
    val = bench.table.val
    sizes = {"val": val} if rows is None else {"train": rows[0], "val": min(val, rows[0] // 4), "test": rows[1]}
    found: list[Cell] = []
    for seed in range(seeds or bench.table.seeds):
        common = {**bench.table.learn.given(), "seed": seed}
        for tasks in bench.table.tasks:
            spec = base.over({"tasks": {"source": tasks, **sizes}, "learn": common})
            for number in range(len(bench.table.arms)):
                found += _cells_of_arm(bench, number, spec, tasks)
    return found


def _cells_of_arm(bench: Bench, number: int, base: Settings, tasks: str) -> Iterator[Cell]:
    arm = bench.table.arms[number]
    for at in arm.points:
        own: dict[str, Any] = {"learn": arm.learn.given(), "agent": arm.agent.given(), "model": arm.model.given()}
        try:
            if arm.vary is not None and arm.vary != SIZE:
                _set(own, arm.vary, at)
            own = {name: table for name, table in own.items() if table}
            spec = base.over(own)
            if not spec.calls_models and bench.table.forget is not None and spec.agent.forget is None:
                spec = spec.over({"agent": {"forget": bench.table.forget}})
            _refuse_idle(spec, own)
        except UsageError as error:
            at_fault = "values" if arm.vary is not None else "name"
            raise bench.refuse(("arms", number, at_fault), f"arm {arm.name!r}: {error.message}", error.hint) from error
        paper = next((one for one in arm.paper if (one.tasks, one.at) == (tasks, at)), None)
        yield Cell(arm.name, tasks, at, spec.learn_config().seed, spec, arm.empty, paper)


def _set(tables: dict[str, Any], key: str, value: object) -> None:
    table, dot, name = key.partition(".")
    if not dot or table not in tables:
        raise UsageError(f"{key!r} cannot be varied.", hint="Name a setting with its table, such as learn.batch.")
    tables[table] = {**tables[table], name: value}


def _refuse_idle(spec: Settings, own: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse what an arm says and does nothing: its cells would be equal, and look like a finding."""
    idle = method_of(spec).unused(spec)
    for table, keys in own.items():
        for name in keys:
            if why := idle.get(f"{table}.{name}"):
                raise UsageError(f"{table}.{name} does nothing {why}.", hint="Leave it out, or change the other.")
