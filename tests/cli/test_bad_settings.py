"""Settings and names that cannot be used: one clear message, exit code 2, valid JSON, no traceback, nothing written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import resources
from pathlib import Path

import click
import pytest

from combee.cli import run
from combee.cli.main import cli
from combee.errors import UsageError
from combee.run.options import over_options
from combee.run.settings import Settings
from combee.tasks.scorers import scorer

Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run a command that must be refused, with `--json`, in a folder with 24 rows; return the message."""
    monkeypatch.chdir(tmp_path)
    words = ["debt", "cash", "lease", "tax"] * 6
    rows = "".join(f"the {word} amount of case {number},{word}\n" for number, word in enumerate(words))
    Path("rows.csv").write_text("question,answer\n" + rows, encoding="utf-8")

    def made(*arguments: str, toml: str | None = None) -> str:
        if toml is not None:
            Path("combee.toml").write_text(toml, encoding="utf-8")
        before = set(tmp_path.rglob("*"))
        assert run([*arguments, "--json"]) == 2
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert set(tmp_path.rglob("*")) == before
        return str(json.loads(out)["error"]["message"])

    return made


@pytest.mark.parametrize(
    ("table", "line", "right"),
    [
        ("tasks", "source = 5", "must be text"),
        ("tasks", 'question = ["a"]', "must be text"),
        ("tasks", "answer = true", "must be text"),
        ("tasks", "scorer = 1", "must be text"),
        ("tasks", 'scorer = ""', "Say something there"),
        ("tasks", 'train = "5"', "whole number of at least 1"),
        ("tasks", "val = 1.5", "whole number of at least 0"),
        ("tasks", "seed = nan", "whole number"),
        ("tasks", "seed = 99999999999999999999", "whole number"),
        ("agent", "forget = inf", "number above 0"),
        ("agent", 'output_limit = "x"', "whole number of at least 1"),
        ("agent", 'method = "gpea"', "Did you mean 'gepa'?"),
        ("learn", 'guard = "false"', "true or false"),
        ("learn", "pipeline = 0", "true or false"),
        ("learn", "seed = 1979-05-27", "whole number"),
        ("learn", "candidates = 4", "list of whole numbers"),
        ("learn", "aggregate = {}", '"combee"'),
        ("learn", "batch = true", 'a whole number of at least 1 or "auto"'),
        ("guard", "tenants = 5", "list of text"),
        ("guard", 'tenants = "acme"', "list of text"),
        ("guard", "alert_timeout = 0", "number above 0"),
        ("model", "timeout = nan", "number above 0"),
        ("model", "requests_per_minute = inf", "number above 0"),
        ("model.curator", "max_in_flight = 0.5", "whole number of at least 1"),
        ("budget", "max_cost = inf", "number above 0"),
        ("budget.generator", 'max_calls = "many"', "number of at least 1"),
        ("prices", '"m" = 3', "must be a table"),
        ("prices", '"m" = { input = 1 }', "has no 'output'"),
        ("prices", '"m" = { input = 1, output = "x" }', "number of at least 0"),
        ("prices", '"m" = { input = 1, output = 2, cahed = 1 }', "Did you mean 'cached'?"),
    ],
)
def test_a_value_of_another_type_is_refused(refused: Refused, table: str, line: str, right: str) -> None:
    assert right in refused("learn", "rows.csv", toml=f"[{table}]\n{line}\n")


def test_every_scorer_that_help_and_settings_name_exists() -> None:
    from combee.cli.learn import learn_command as command

    option = next(item for item in command.params if item.name == "tasks__scorer")
    assert isinstance(option, click.Option)
    toml = resources.files("combee.cli").joinpath("combee.toml").read_text(encoding="utf-8")
    listed = next(line.split("#")[2] for line in toml.splitlines() if line.startswith("# scorer"))
    for name in [*re.split(r", (?:or )?", str(option.help).removesuffix(". [found]")), *listed.split("|")]:
        if "function" not in name:
            scorer(name.strip())


@pytest.mark.parametrize("name", ["", " ", ".", "..", "../x", "a/b", "a@b", "a\0b", "a\nb", "x" * 300])
def test_a_run_has_a_name_that_is_found_again(refused: Refused, name: str) -> None:
    assert refused("learn", "rows.csv", "--name", name)


@pytest.mark.parametrize("what", ["x" * 300, "a\0b", "x" * 300 + ".json", "a\0b.md"])
@pytest.mark.parametrize("command", ["show", "eval", "why", "versions", "resume", "gate", "forget", "promote"])
def test_what_cannot_be_a_path_is_not_found(refused: Refused, command: str, what: str) -> None:
    more = {"why": ["misc-00001"], "gate": ["--baseline", "last"], "forget": ["--trace", "t"], "promote": ["last"]}
    assert refused(command, what, *more.get(command, []))


def commands(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, with the words that call it."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield (*above, name), command
            if isinstance(command, click.Group):
                yield from commands(command, (*above, name))


def test_no_option_of_any_command_takes_a_number_that_is_none() -> None:
    seen = 0
    for words, command in commands(cli):
        for option in command.params:
            if "__" in (option.name or ""):  # over a setting, and checked as one
                table, _, key = str(option.name).partition("__")
                for bad in ("nan", "inf", "-inf"):
                    with suppress(UsageError):
                        made = over_options(Settings(), {str(option.name): bad})
                        assert str(getattr(getattr(made, table), key)).endswith(bad), option.name  # it takes any text
                        continue
                    seen += 1
            if isinstance(option.type, click.types.FloatParamType):
                seen += 1
                for bad in ("nan", "inf", "-inf"):
                    with pytest.raises(click.BadParameter):
                        pytest.fail(f"{' '.join(words)} {option.name} takes {option.type(bad, option)}")
    assert seen > 50


@pytest.mark.parametrize("rules", ["[1]", '{"rules": ["x"]}', '[{"match": "("}]'])
def test_rules_of_the_mock_that_are_none_are_refused(refused: Refused, tmp_path: Path, rules: str) -> None:
    (tmp_path / "rules.json").write_text(rules, encoding="utf-8")
    assert "rule 1" in refused("mock", "--script", "rules.json")


def test_settings_in_a_file_of_the_mock_stand_unless_an_option_says_otherwise(tmp_path: Path) -> None:
    from combee.mock.command import command, config_of

    path = tmp_path / "mock.json"
    path.write_text('{"burst": 2, "rate": 0.1, "seed": 3}', encoding="utf-8")
    given = command.make_context("mock", ["--options", str(path), "--seed", "4"]).params
    config = config_of(given)
    assert (config.burst, config.rate, config.seed) == (2, 0.1, 4)
