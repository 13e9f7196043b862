"""The one settings model: combee.toml, a swarm's file, options and Python calls are all checked here, by pydantic.

Every key has a type, a range, a default and a description; `combee config schema` prints them for editors. A table
whose settings belong to a lower room (`[learn]`, `[model]`) is made from the dataclass of that room, so nothing is
said twice. What cannot be used is a `UsageError` with file, line, key and the nearest key there is.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

from pydantic import Field, PrivateAttr

from combee.errors import UsageError
from combee.kernel.journal import JSON
from combee.kernel.learn import LearnConfig
from combee.model.local import is_local
from combee.model.prices import Price
from combee.model.settings import LIMITS, LOCAL_CONTEXT, LOCAL_OUTPUT, ROLES, ModelSettings
from combee.run.settings_sources import Layer, Place, checked, layer_of_set, leaves, read_layer
from combee.run.settings_tables import (
    AgentTable,
    BudgetTable,
    EnvironmentTable,
    ExistingPath,
    GuardTable,
    LearnTable,
    LimitsTable,
    ModelTable,
    PriceTable,
    SettingsTable,
    TasksTable,
    WorkersTable,
)
from combee.tasks import DATA_VARIABLE

CONFIG_NAME = "combee.toml"


class Settings(SettingsTable):
    """Everything that one run can be told: the tables of combee.toml with what was given elsewhere over them."""

    tasks: TasksTable = TasksTable()
    """What is learned from."""
    agent: AgentTable = AgentTable()
    """Who works on the tasks."""
    model: ModelTable = ModelTable()
    """The models behind the roles of `ace`."""
    learn: LearnTable = LearnTable()
    """How a run learns."""
    budget: BudgetTable = BudgetTable()
    """What may be spent."""
    prices: dict[str, PriceTable] = Field(default_factory=dict)
    """Prices of models that no list knows, in US dollars per million tokens."""
    guard: GuardTable = GuardTable()
    """What each update is checked against."""
    environment: EnvironmentTable = EnvironmentTable()
    """Where an agent acts on the tasks."""
    workers: WorkersTable = WorkersTable()
    """Where samples are worked on."""
    start: ExistingPath | None = None
    """A playbook to go on from (.json, .md, .txt)."""
    _layers: tuple[Layer, ...] = PrivateAttr(default=())
    _functions: Mapping[str, Callable[..., Any]] = PrivateAttr(default_factory=dict)
    """The functions themselves that `agent.function` and `tasks.scorer` name, where a program gave them."""

    @classmethod
    def of(cls, *layers: Layer, functions: Mapping[str, Callable[..., Any]] | None = None) -> Self:
        """Return the settings that layers make, the last one on top; with what a program gave as `function` of a name.

        Raises:
            UsageError: Something cannot be used; the message names origin, line and key.
        """
        layers = _latest_source(layers)
        made = checked(cls, layers)
        made._layers, made._functions = layers, dict(functions or {})
        return made

    @classmethod
    def from_json(cls, value: JSON) -> Self:
        """Read what `to_json` wrote; also of an older version. Raises as `of`."""
        if not isinstance(value, dict):
            raise UsageError("Settings are a table of tables.")
        return cls().over(value)

    def to_json(self) -> dict[str, JSON]:
        """Return what was set, by table. It holds names of variables, never keys."""
        return {name: self.given().get(name, None if name == "start" else {}) for name in type(self).model_fields}

    def over(self, tables: Mapping[str, Any], origin: str = "") -> Self:
        """Return these settings with others over them; None stands for what was not given. Raises as `of`."""
        return self.with_layers(Layer(origin, {name: _but_none(table) for name, table in tables.items()}))

    def with_layers(self, *layers: Layer) -> Self:
        """Return these settings with layers over them. Raises as `of`."""
        return type(self).of(*self._layers, *layers, functions=self._functions)

    def with_functions(self, functions: Mapping[str, Callable[..., Any]]) -> Self:
        """Return these settings with functions under the names that they have in them."""
        return type(self).of(*self._layers, functions={**self._functions, **functions})

    def with_set(self, texts: Sequence[str]) -> Self:
        """Return these settings with texts KEY=VALUE over them. Raises as `of`."""
        return self.with_layers(*(layer_of_set(text, type(self)) for text in texts))

    def instead(self, **tables: Mapping[str, Any]) -> Self:
        """Return these settings with whole tables replaced. Raises as `of`."""
        whole = {**self.given(), **{name: _but_none(table) for name, table in tables.items()}}
        return type(self).of(Layer("", whole), functions=self._functions)

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """What a program gave as functions, by name."""
        return self._functions

    def function(self, name: str | None) -> Callable[..., Any] | None:
        """Return the function that a program gave under a name; None: it is to be imported."""
        return self._functions.get(name or "")

    def origin(self, *place: str) -> str | None:
        """Return where a value comes from, as file:line, an option or a variable; None for a default."""
        layer = self.layer_of(*place)
        if layer is None:
            return None
        origin, line = layer.where(cast("Place", place))
        return origin if line is None else f"{origin}:{line}"

    def layer_of(self, *place: str) -> Layer | None:
        """Return the layer that a value comes from; None for a default."""
        for layer in reversed(self._layers):
            if any(found[: len(place)] == place for found, _ in leaves(layer.tables)):
                return layer
        return None

    @property
    def model_name(self) -> str | None:
        """The name of the model of all roles, where there is one."""
        return cast("str | None", self.given().get("model", {}).get("name"))

    @property
    def stem(self) -> str:
        """What it learns from, in a word for the name of its folder."""
        if self.tasks.traces is not None:
            return "traces"
        source = Path(self.tasks.source or "tags")
        return source.stem if source.is_file() else source.name

    @property
    def calls_models(self) -> bool:
        """Whether models do the work of the roles: where one is named, unless `agent.kind` says otherwise."""
        table = self.given().get("model", {})
        names_one = any((one or {}).get("name") for one in (table, *(table.get(role) for role in ROLES)))
        return self.agent.kind == "ace" or (self.agent.kind is None and names_one)

    @property
    def pays(self) -> bool:
        """Whether a run can cost something: it calls models, or has trials done in an environment."""
        return self.calls_models or (self.environment.kind is not None and self.tasks.traces is None)

    def learn_config(self) -> LearnConfig:
        """Return how the run learns, as the loop takes it."""
        return LearnConfig(**{item.name: getattr(self.learn, item.name) for item in dataclasses.fields(LearnConfig)})

    def model_of(self, role: str | None = None) -> ModelSettings:
        """Return the model of a role: its own table over that of all. Raises `UsageError` where none is named."""
        table = self.given().get("model", {})
        own = table.get(role) or {} if role is not None else {}
        return settings_of({key: value for key, value in {**table, **own}.items() if key not in ROLES}, self.prices)

    def models(self) -> dict[str, ModelSettings]:
        """Return the model of each role. Raises as `model_of`."""
        return {role: self.model_of(role) for role in ROLES}

    def limits(self, role: str | None = None) -> dict[str, float]:
        """Return what the run, or one role in it, may spend; empty without a limit."""
        table: LimitsTable | None = self.budget if role is None else getattr(self.budget, role)
        return {name: value for name in LIMITS if (value := getattr(table, name, None)) is not None}


def settings_of(table: Mapping[str, Any], prices: Mapping[str, PriceTable]) -> ModelSettings:
    """Return the model that a table [model] and the prices of a file make. Raises `UsageError` where none is named."""
    given = {key: value for key, value in table.items() if value is not None}
    name = given.get("name")
    if not name:
        hint = f"Give --model NAME, in Python model=..., or name = ... under [model] in {CONFIG_NAME}."
        raise UsageError("No model is named.", hint=hint)
    if is_local(name):
        given = {"max_output_tokens": LOCAL_OUTPUT, "context_tokens": LOCAL_CONTEXT} | given
    price = prices.get(name)
    return ModelSettings(**given, price=None if price is None else Price(price.input, price.output, price.cached))


def _but_none(table: Any) -> Any:
    return {k: v for k, v in table.items() if v is not None} if isinstance(table, Mapping) else table


def _latest_source(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Tasks or traces: where one layer names the one and a later layer the other, the later one is meant."""
    found: list[Layer] = []
    for layer in layers:
        tasks = layer.tables.get("tasks")
        named = {"source", "traces", "from"} & tasks.keys() if isinstance(tasks, Mapping) else set()
        if "source" in named and len(named) > 1:
            raise UsageError("Tasks and traces are both given.", hint="Learn from one of them: source, or traces.")
        drop = {"traces", "from"} if "source" in named else {"source"} if named else set()
        found = [_without(one, drop) for one in found] + [layer]
    return tuple(found)


def _without(layer: Layer, keys: set[str]) -> Layer:
    tasks = layer.tables.get("tasks")
    if not isinstance(tasks, Mapping) or not keys & tasks.keys():
        return layer
    kept = {key: value for key, value in tasks.items() if key not in keys}
    return dataclasses.replace(layer, tables={**layer.tables, "tasks": kept})


def read_settings(path: Path | None = None, *, here: bool = True) -> Settings:
    """Return the settings of this folder: combee.toml, with what the environment says below it.

    Args:
        path: The file; None: combee.toml in this folder, if there is one.
        here: Look into this folder where no file is named.

    Raises:
        UsageError: Something cannot be used; the message names file, line and key.
    """
    layers = []
    if folder := os.environ.get(DATA_VARIABLE):
        layers.append(Layer(f"${DATA_VARIABLE}", {"tasks": {"data_dir": folder}}))
    if path is not None or (here and Path(CONFIG_NAME).is_file()):
        layers.append(read_layer(path or Path(CONFIG_NAME)))
    return Settings.of(*layers)
