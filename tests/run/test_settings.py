"""Settings: one model for files, options and calls; what is wrong is said with file, line, key and the nearest key."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from combee.errors import DataError, UsageError
from combee.kernel.journal import JSON
from combee.kernel.learn import LearnConfig
from combee.model import ModelSettings
from combee.run.settings import Settings, read_settings
from combee.run.settings_sources import Layer


def of_text(text: str, name: str = "combee.toml") -> Settings:
    return Settings.of(Layer(name, tomllib.loads(text), text))


def refused(text: str) -> DataError:
    with pytest.raises(DataError) as caught:
        of_text(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[learn]\nbatch = 0", 2, "batch in [learn] cannot be 0.\n  It must be a whole number of at least 1"),
        ("[learn]\n\n# so\nbach = 1", 4, "[learn] has no key 'bach'.\n  Did you mean 'batch'?"),
        ("[tasks]\nseed = 1\n\n[lern]\nbatch = 1", 4, "there is no table [lern].\n  Did you mean 'learn'?"),
        ("batch = 3", 1, "there is no key 'batch'.\n  It belongs below [learn]."),
        ("[learn]\nepochs = 1\nscorer = 'x'", 3, "It belongs below [tasks]."),
        ("learn = 5", 1, "learn must be a table.\n  Write [learn] on a line of its own"),
        ("[model.curator]\nmax_in_flight = 0.5", 2, "max_in_flight in [model.curator] cannot be 0.5"),
        ("[model]\ncurator.timeout = -1", 2, "It must be a number above 0."),
        ("model = { name = 'm', timout = 1 }", 1, "Did you mean 'timeout'?"),
        ("[prices]\n'gpt-4.1' = { input = 1 }", 2, "[prices.\"gpt-4.1\"] has no 'output'"),
        ("[learn]\ncandidates = [\n  2,\n  'x',\n]", 2, 'item 2 of candidates cannot be "x"'),
        ('[tasks]\nsource = """\n[learn]\nbatch = 7\n"""\n[learn]\nbatch = 0', 7, "cannot be 0"),
        ("[agent]\nkind = 'lexcal'", 2, "Did you mean 'lexical'?"),
        ("[agent]\nkind = 'x'", 2, 'It must be "lexical" or "ace".'),
        ("[agent]\nprompts = ' '", 2, "Say something there"),
        ("[guard]\ntenants = 'acme'", 2, "It must be a list of text."),
        ("[learn]\nquorum = 2", 2, "It must be a number above 0 and up to 1."),
        ("[guard]\nalert_command = []", 2, "alert_command in [guard] cannot be []."),
    ],
)
def test_an_error_names_line_key_and_what_is_right(text: str, line: int, says: str) -> None:
    error = refused(text)
    assert (error.path, error.line) == ("combee.toml", line)
    assert str(error).startswith(f"combee.toml:{line}: ")
    assert says in str(error)


def test_of_several_errors_the_first_line_is_named() -> None:
    assert refused("[model]\nname = 5\n[agent]\nkind = 1\n[learn]\nepochs = 'x'").line == 2


def test_what_is_no_toml_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "combee.toml"
    path.write_text("[learn]\nbatch = = 3\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_settings(path)
    assert (caught.value.line, caught.value.column) == (2, 9)
    path.write_bytes("[tasks]\nsource = 'ä'\n".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        read_settings(path)


@pytest.mark.parametrize(
    "line",
    ['api_key_env = "sk-proj-ABCDEFGHIJKLMNOPQRST0123456789"', 'base_url = "http://u:hunter2pw@127.0.0.1:1/v1"',
     'base_url = "http://127.0.0.1:1/v1?api-key=hunter2pw"', 'name = ["sk-proj-ABCDEFGHIJKLMNOPQRST0123456789"]',
     'extra = { headers = { authorization = "Bearer sk-1234567890abcdef1234567890abcdef" } }'],
)  # fmt: skip
def test_a_secret_is_refused_with_its_line_and_never_shown(line: str) -> None:
    error = refused(f"[model]\nmax_in_flight = 3\n{line}")
    assert error.line == 3
    assert line.partition(" =")[0] in str(error)
    assert not any(part in str(error) for part in ("hunter2", "ABCDEF", "abcdef"))


def test_later_layers_stand_over_earlier_ones_and_each_value_knows_its_origin() -> None:
    text = "[learn]\nbatch = 8\nepochs = 2\n[model]\nname = 'm'\n[model.curator]\nname = 'c'\n"
    found = of_text(text).over({"learn": {"batch": 9, "seed": None}}, "option")
    assert (found.learn_config().batch, found.learn_config().epochs, found.learn_config().seed) == (9, 2, 0)
    assert found.origin("learn", "batch") == "option"
    assert found.origin("learn", "epochs") == "combee.toml:3"
    assert found.origin("model", "curator", "name") == "combee.toml:7"
    assert found.origin("learn", "seed") is None
    assert found.model_of("curator").name == "c"
    assert found.model_of("generator").name == "m"


@pytest.mark.parametrize(
    ("text", "place", "value"),
    [
        ("learn.near=0.8", ("learn", "near"), 0.8),
        ("near=0.8", ("learn", "near"), 0.8),
        ("name=deepseek-chat", ("model", "name"), "deepseek-chat"),
        ('scorer = "tags"', ("tasks", "scorer"), "tags"),
        ("guard.tenants=['a', 'b']", ("guard", "tenants"), ["a", "b"]),
        ("budget.curator.max_calls=1e3", ("budget", "curator", "max_calls"), 1000),
        ("model.base_url=http://h/v1?a=b", ("model", "base_url"), "http://h/v1?a=b"),
        ("model.extra.top_p=0.9", ("model", "extra", "top_p"), 0.9),
    ],
)
def test_set_takes_a_key_with_its_table_or_alone(text: str, place: tuple[str, ...], value: object) -> None:
    found: object = Settings().with_set([text])
    for part in place:
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert found == value
    assert Settings().with_set([text]).origin(*place) == f"--set {text}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("near", "Write KEY=VALUE"),
        ("=1", "Write KEY=VALUE"),
        ("learn.neer=1", "Did you mean 'near'?"),
        ("neer=1", "Did you mean 'near'?"),
        ("seed=1", "Write tasks.seed or learn.seed."),
        ("learn.near=2", "--set learn.near=2: near in [learn] cannot be 2"),
        ("a b=1", "--set"),
    ],
)
def test_set_says_what_it_cannot_take(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings().with_set([text])
    assert says in str(caught.value)


def test_tables_made_of_dataclasses_say_the_same_as_these() -> None:
    learn = Settings().learn_config()
    assert learn == LearnConfig()
    schema = Settings.model_json_schema()
    for name, source in (("LearnTable", LearnConfig), ("ModelTable", ModelSettings)):
        keys = schema["$defs"][name]["properties"]
        assert {item.name for item in dataclasses.fields(source)} - {"price"} <= keys.keys()
    assert schema["$defs"]["LearnTable"]["properties"]["quorum"]["maximum"] == 1
    assert Settings.of(Layer("", {"model": {"name": "m"}})).model_of("curator") == ModelSettings(name="m")


def test_every_key_has_a_description() -> None:
    schema = Settings.model_json_schema()
    tables = {"Settings": schema, **schema["$defs"]}
    bare = [f"{table}.{key}" for table, node in tables.items() for key, one in node["properties"].items()
            if len(one.get("description", "")) < 8]  # fmt: skip
    assert bare == []


@pytest.mark.parametrize("value", [-1, 0, 1, 2, 0.5, 1.5, True, "x", [1], [0], None])
@pytest.mark.parametrize("name", [item.name for item in dataclasses.fields(LearnConfig)])
def test_the_kernel_takes_all_that_a_file_may_say(name: str, value: object) -> None:
    try:
        found = Settings.of(Layer("f", {"learn": {name: value}}))
    except DataError as error:
        refusal = str(error)
        assert name in refusal
        return
    wanted = True if name == "guard" and value is None else value  # what it is then depends on the aggregation
    assert getattr(found.learn_config(), name) == (tuple(wanted) if isinstance(wanted, list) else wanted)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
_SCHEMA = Settings.model_json_schema()
_PLACES = st.sampled_from(
    [(table, key) for table, node in _SCHEMA["properties"].items()
     for key in _SCHEMA["$defs"].get(node.get("$ref", "").rpartition("/")[2], {"properties": ["m"]})["properties"]]
)  # fmt: skip


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(_PLACES, _VALUES)
def test_any_value_passes_or_is_a_usage_error(place: tuple[str, str], value: object) -> None:
    table, key = place
    with suppress(UsageError):
        found = Settings.of(Layer("combee.toml", {table: {key: value}}))
        found.learn_config()
        if value is not None:
            assert Settings.from_json(found.to_json()).to_json() == found.to_json()
        if table == "model":
            found.over({"model": {"name": "m"}}).model_of("curator")


def test_the_file_that_init_writes_passes_also_with_every_line_switched_on(tmp_path: Path) -> None:
    text = resources.files("combee.cli").joinpath("combee.toml").read_text(encoding="utf-8")
    assert of_text(text).learn_config() == LearnConfig()
    assert of_text(re.sub(r"(?m)^# (?=\[|[\w\"-]+ = )", "", text)).budget.max_cost == 5.0


def test_settings_that_an_older_version_kept_still_open() -> None:
    old = {
        "tasks": {"from": "/logs", "format": None, "redact": True, "patterns": ["ticket"]}, "agent": {"kind": "ace"},
        "model": {"name": "m", "curator": {"name": "c"}}, "learn": {"batch": "auto", "candidates": [2, 4]},
        "budget": {"max_calls": 3, "curator": {"max_cost": 1}}, "guard": {}, "start": None,
        "prices": {"m": {"input": 1, "output": 2, "cached": None}},
    }  # fmt: skip
    found = Settings.from_json(cast("JSON", old))
    assert found.tasks.traces == "/logs"
    assert found.learn_config().candidates == (2, 4)
    assert found.budget.curator is not None
    assert (found.budget.max_calls, found.budget.curator.max_cost) == (3, 1)


def test_what_is_learned_from_is_the_last_word() -> None:
    text = "[tasks]\nsource = 'rows.csv'\n"
    base = Settings.of(Layer("combee.toml", tomllib.loads(text), text))
    assert base.over({"tasks": {"traces": "logs"}}).tasks.source is None
    assert base.over({"tasks": {"traces": "logs"}}).over({"tasks": {"source": "x.csv"}}).tasks.traces is None
    with pytest.raises(UsageError, match="both"):
        base.over({"tasks": {"traces": "logs", "source": "x.csv"}})
