"""The tables of the settings, as pydantic checks them: types, ranges, defaults, and a description of every key.

A table whose settings belong to a lower room (`[learn]`, `[model]`) is made from the dataclass of that room, so nothing
is said twice, and the kernel needs no pydantic.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import os
import textwrap
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    create_model,
    field_validator,
)
from pydantic_core import PydanticCustomError

from combee.errors import UsageError
from combee.files import real_path
from combee.kernel.aggregate import BASELINES
from combee.kernel.learn import LearnConfig
from combee.model.settings import ROLES, ModelSettings, refuse_secret
from combee.run.folders import refuse_device
from combee.tasks import NAMES

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


def as_whole(value: object) -> object:
    """2e6 is a whole number to whoever writes it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_LARGEST = 2**63 - 1  # numbers are stored as 64-bit integers
Whole = Annotated[int, Strict(), Field(ge=-_LARGEST - 1, le=_LARGEST), BeforeValidator(as_whole)]
Natural = Annotated[int, Strict(), Field(ge=0, le=_LARGEST), BeforeValidator(as_whole)]
Count = Annotated[int, Strict(), Field(ge=1, le=_LARGEST), BeforeValidator(as_whole)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Positive = Annotated[float, Strict(), Field(gt=0)]
Amount = Annotated[float, Strict(), Field(ge=0)]
Text = Annotated[str, Strict(), Field(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
Words = Annotated[str, Strict(), Field(pattern=r"^[^\x00]*$")]
"""Text that may be empty."""


def _real(text: str) -> str:
    """A run is gone on with from any folder, so it keeps whole paths; what is not there is left to who looks for it."""
    path = Path(text)
    refuse_device(path)
    return text if text in NAMES or not os.path.lexists(path) else str(real_path(path))


ExistingPath = Annotated[Text, AfterValidator(_real)]


class SettingsTable(BaseModel):
    """A table of settings: only known keys, and no value is bent into the type that it should have had."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=())
    documented: ClassVar[type | None] = None
    """The class that has the docstrings of the keys; None: this one."""

    def given(self) -> dict[str, Any]:
        """Return what was set, as JSON: no default."""
        return self.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe each key by the docstring below it; read here, as only a schema needs it."""
        schema = handler.resolve_ref_schema(handler(core))
        for base in cls.__mro__:
            if issubclass(base, SettingsTable) and base is not SettingsTable:
                for key, text in _docs(base.documented or base).items():
                    schema["properties"].get(key, {}).setdefault("description", text)
        for value in schema["properties"].values():
            value.pop("title", None)
        return schema


def table_of(
    name: str,
    source: type,
    doc: str,
    *,
    without: Sequence[str] = (),
    checks: Mapping[str, Any] | None = None,
    **types: Any,
) -> type[SettingsTable]:
    """Return the table whose keys are the fields of a dataclass, with its defaults and the docstrings below them.

    Args:
        name: Of the table's class.
        source: The dataclass. Its kinds of numbers (`Count`, `Share`, ...) get the ranges that those have here.
        doc: What the table is for.
        without: Fields that are no keys.
        checks: Validators of pydantic's by name.
        types: Types of fields that need another one here; as (type, default or Field) also further fields.
    """
    kinds = {"Whole": Whole, "Natural": Natural, "Count": Count, "Share": Share, "Positive": Positive}
    kinds |= {"Amount": Amount, "str": Text}
    hints = typing.get_type_hints(source, localns=kinds, include_extras=True)
    fields: dict[str, Any] = {}
    for item in dataclasses.fields(source):
        if item.name in without:
            continue
        if isinstance(types.get(item.name), tuple):
            fields[item.name] = types.pop(item.name)
            continue
        default = item.default_factory() if item.default_factory is not dataclasses.MISSING else item.default
        missing = default is dataclasses.MISSING
        hint = types.pop(item.name, hints[item.name])
        about = Field(None if missing else default)
        fields[item.name] = (hint | None if missing else hint, about)
    more = {**fields, **types, "documented": (ClassVar[type], source)}
    return create_model(name, __base__=SettingsTable, __doc__=doc, __validators__=dict(checks or {}), **more)


@cache
def _docs(source: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class."""
    body = cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(source))).body[0]).body
    found: dict[str, str] = {}
    for field, doc in itertools.pairwise(body):
        match field, doc:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


class TaskFileTable(SettingsTable):
    """A file of tasks, and how it is read."""

    source: Text | None = None
    """A .jsonl or .csv file, a folder with train, val and test files, finer or formula. [tags: built-in practice]"""
    question: Text | None = None
    """Column with the question. [found by its usual names]"""
    answer: Text | None = None
    """Column with the right answer. [found by its usual names]"""
    id: Text | None = None
    """Column with the row's id. [found by its usual names]"""
    encoding: Text | None = None
    """Encoding of the file, such as gbk or shift_jis. [UTF-8, or what the file's mark says]"""
    scorer: Text | None = None
    """exact, numeric:0.01, tags, regex, or package.module:function. [by the shape of the rows]"""
    train: Count | None = None
    """Training rows to use."""
    val: Natural | None = None
    """Validation rows to use."""
    test: Natural | None = None
    """Test rows to use."""
    seed: Whole = 0
    """Decides which rows are drawn, and how a single file is cut into train, val and test (`--seed` sets it too)."""


class TasksTable(TaskFileTable):
    """What is learned from: tasks, or recorded traces."""

    source: ExistingPath | None = None
    """A .jsonl or .csv file, a folder with train, val and test files, finer or formula. [tags: built-in practice]"""
    data_dir: ExistingPath | None = None
    """Folder that holds finer/ and formula/. [$COMBEE_DATA]"""
    traces: ExistingPath | None = Field(default=None, validation_alias=AliasChoices("traces", "from"))
    """File or folder of recorded traces, to learn from those in place of tasks."""
    format: Text | None = None
    """Format of the traces. [found by content]"""
    users: Literal["auto", "developers", "customers", "graders"] = "auto"
    """Who speaks as the user in the traces: only a developer's corrections are learned. [judged run by run]"""
    shown: Literal["runs", "evidence"] = "evidence"
    """What a model reads of a trace: the run, or only what code found in it (of a run without any, nothing)."""
    redact: bool = True
    """Take secrets out of traces before anything is kept."""
    patterns: dict[Text, Text] | list[Text] = {}
    """Further secrets in traces: a regular expression for each kind. (A run keeps the names of the kinds only.)"""


class AgentTable(SettingsTable):
    """Who works on the tasks, and how it learns."""

    kind: Literal["lexical", "ace"] | None = None
    """lexical: embedded, no model, no key. ace: the models of [model]. [ace where a model is named, else lexical]"""
    method: Text = "ace"
    """How the playbook is learned: ace, gepa, or a method that an installed package adds."""
    function: Text | None = None
    """An agent of your own, package.module:function of (question, playbook); kind says who reflects on its answers."""
    prompts: ExistingPath | None = None
    """Folder with prompts of your own."""
    reflection_rounds: Count = 1
    """Times a model reflects on one run."""
    metric_calls: Count | None = None
    """Rollouts that gepa may count."""
    forget: Positive | None = None
    """Simulated forgetting of the lexical agent: its m0, in lessons of one call."""
    output_limit: Count | None = None
    """Tokens that one call of the lexical agent's curator may write."""


class LimitsTable(SettingsTable):
    """What may be spent; without a key there is no limit."""

    max_cost: Positive | None = None
    """US dollars."""
    max_calls: Count | None = None
    """Calls of models."""
    max_tokens: Count | None = None
    """Prompt and reply tokens together."""
    max_minutes: Positive | None = None
    """Minutes of work, over all resumes."""


class BudgetTable(LimitsTable):
    """What the whole run may spend, and single roles inside it."""

    generator: LimitsTable | None = None
    """Limits of answering alone."""
    reflector: LimitsTable | None = None
    """Limits of reflecting alone."""
    curator: LimitsTable | None = None
    """Limits of aggregating alone."""


class WorkersTable(SettingsTable):
    """Where samples are worked on: in this process, in others on this machine, or on a Ray cluster.

    It changes no result: a run may go on with other workers.
    """

    kind: Text = "local"
    """local (this process), processes (on this machine) or ray."""
    address: Text | None = None
    """HOST:PORT of a Ray cluster. [one is started on this machine]"""
    count: Count | None = None
    """Workers, and processes that read many recorded traces (1: none beside this one). [one a core]"""
    cpus: Positive = 1.0
    """Cores that a worker takes on a Ray cluster."""
    memory: Count | None = None
    """Bytes that a worker takes on a Ray cluster."""
    in_flight: Count = 8
    """Samples that one worker is at, at most."""
    chunk: Count = 4
    """Samples sent in one message, at most: more where a sample takes milliseconds."""
    runtime_env: dict[str, Any] = Field(default_factory=dict)
    """What Ray is to bring to its workers: packages, files, variables."""


class EnvironmentTable(SettingsTable):
    """Where an agent acts on the tasks and is judged; without a kind a task is a question with an answer."""

    kind: Text | None = None
    """harbor, appworld, team, or what an installed package adds."""
    agent: Text | None = None
    """The agent that acts, as Harbor's -a takes it: terminus-2, or module:Class."""
    model: Text | None = None
    """Its model, as Harbor's -m takes it."""
    options: list[Text] = Field(default_factory=list)
    """Further words for `harbor run`, such as ["-e", "daytona"]. No keys: name variables, or a file by --env-file."""
    program: Text | None = None
    """How Harbor is started, such as "uvx harbor"; the program of a team, with {rules} for the file of the playbook."""
    book: Literal["instruction", "skill"] = "instruction"
    """How the agent gets the playbook: below each task's instruction, or as a skill."""
    url: list[Text] = Field(default_factory=list)
    """AppWorld servers; each does one task at a time."""
    turns: Count = 40
    """Blocks of code that an agent may run in AppWorld for one task."""
    test: Text | None = None
    """The tests that judge a team, such as "npm test". [pytest]"""
    junit: Text | None = None
    """A JUnit file that they write, for each test's outcome. [the exit code of all]"""
    testers: list[Text] = Field(default_factory=list)
    """Members of a team that test; the others develop. [those called qa, test or review]"""
    in_flight: Count = 4
    """Trials at once, of Harbor or of teams."""
    dollars: Positive | None = None
    """US dollars that one trial may cost at most: a limit in money is held against it."""
    minutes: Positive = 10.0
    """Minutes of one trial, for `--dry-run`; a team is stopped after so many."""

    @field_validator("options")
    @classmethod
    def _no_key(cls, value: list[str]) -> list[str]:
        refuse_secret("options", value)
        return value


class PriceTable(SettingsTable):
    """US dollars per million tokens."""

    input: Amount
    """Of the prompt."""
    output: Amount
    """Of the reply."""
    cached: Amount | None = None
    """Of prompt tokens that the provider has in its cache. [as input]"""


class GuardTable(SettingsTable):
    """What each update is checked against, and who is told."""

    alert_command: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    """A command that gets each alert as JSON on its standard input: "notify-send combee", or a list of words."""
    alert_timeout: Positive = 10.0
    """Seconds that the command may take."""
    min_entries: Count = 1
    """Fewest lessons that a step with three or more reflections must give."""
    tenants: list[Text] | None = None
    """Only samples with one of these labels `tenant` reach the playbook. [all]"""
    clearance: Text | None = None
    """The clearance that the playbook's readers have."""


def _no_secret(value: Any, info: Any) -> Any:
    try:
        refuse_secret(info.field_name, value)
    except UsageError as error:
        raise PydanticCustomError("refused", "{said}", {"said": error.message, "hint": error.hint or ""}) from None
    return value


def model_table(name: str, doc: str, **more: Any) -> type[SettingsTable]:
    """Return a table with the keys of a model, and more."""
    checks = {"no_secret": field_validator("*")(cast("Callable[..., Any]", _no_secret))}
    return table_of(name, ModelSettings, doc, without=("price",), checks=checks, **more)


if TYPE_CHECKING:

    class LearnTable(SettingsTable):
        """The loop that learns; `Settings.learn_config` has its values with their types."""

    class ModelTable(SettingsTable):
        """Models of the roles; `Settings.model_of` has their values with their types."""

else:
    LearnTable = table_of(
        "LearnTable",
        LearnConfig,
        "The loop that learns.",
        aggregate=Literal[tuple(sorted(BASELINES))],
        candidates=Annotated[tuple[Count, ...], Field(strict=False)],
    )
    RoleTable = model_table("RoleTable", "The model of one role; what is left out is as in [model].")
    ModelTable = model_table(
        "ModelTable",
        "Models of OpenAI-compatible endpoints, or local ones.",
        **{role: (RoleTable | None, Field(None, description=f"Model of the {role} alone.")) for role in ROLES},
    )
