"""The root command: its own commands and those of other packages, each loaded when it is called.

The one place where errors become messages and exit codes. Standard streams may be closed or full: what is said on the
way may get lost, the work and its result may not. A closed stream is opened on the null device, so that no file of ours
takes its number; what is then written to standard output fails, as it does on a full disk (exit code 1). Standard error
takes everything, and loses what it cannot write.
"""

from __future__ import annotations

import codecs
import importlib
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from combee import __version__
from combee.errors import INTERRUPTED, CombeeError, UsageError, did_you_mean
from combee.run import plugins
from combee.run.plugins import offered
from combee.run.words import with_program

if TYPE_CHECKING:
    from types import FrameType

    from _typeshed import ReadableBuffer

# name: (module below combee.cli and command in it, one line of help). `combee --help` loads no command for its line.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo:command", "Show in seconds what one big aggregation loses and what Combee keeps."),
    "init": ("config:init_command", "Write a commented combee.toml to start from."),
    "config": ("config:command", "Show the settings in force and where each comes from; print their JSON schema."),
    "learn": ("learn:learn_command", "Learn a playbook from tasks, or from recorded traces."),
    "resume": ("learn:resume_command", "Go on with a run that was stopped; stored results are not bought again."),
    "eval": ("evaluate:eval_command", "Score a playbook on held-out tasks."),
    "compare": ("runs:compare_command", "Runs or evals side by side: which rows flipped, and what each took."),
    "runs": ("runs:runs_command", "List runs and how they ended."),
    "show": ("versions:show_command", "Show a run's playbook."),
    "diff": ("versions:diff_command", "Compare two playbooks or versions."),
    "versions": ("versions:versions_command", "List the versions of a run's playbook and their labels."),
    "promote": ("versions:promote_command", "Put a label (stable, canary) on a version."),
    "rollback": ("versions:rollback_command", "Put a label back to where it was."),
    "export": ("export:export_command", "Write a playbook as a skill, AGENTS.md, Cursor rule, prompt, JSON or text."),
    "apply": ("export:apply_command", "Put a playbook into a repository, after a look at the diff."),
    "mcp": ("export:mcp_command", "Serve a run's playbook to agents over the Model Context Protocol."),
    "why": ("why:why_command", "Say where a bullet comes from: reflections, traces, nodes, votes."),
    "forget": ("why:forget_command", "Make the playbook as if a trace had never been."),
    "gate": ("evaluate:gate_command", "Fail (exit 1) where a playbook is worse than a baseline; for CI."),
    "plan": ("calibrate:plan_command", "Explain how a number of reflections would be aggregated."),
    "calibrate": ("calibrate:calibrate_command", "Measure how many reflections one call of a model can take."),
    "report": ("runs:report_command", "Write the HTML report of a run."),
    "refine": ("refine:command", "Join overlapping entries of a playbook with a model; nothing is lost."),
    "doctor": ("doctor:doctor_command", "Check this installation and, if one is configured, the model endpoint."),
}

_TRACEBACK = "COMBEE_TRACEBACK"


class _LazyGroup(click.Group):
    """Loads a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *(name for name in offered(plugins.COMMANDS) if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name][0].partition(":")
            command: object = getattr(importlib.import_module(f"combee.cli.{module}"), name)
        elif cmd_name in (found := offered(plugins.COMMANDS)):
            command = plugins.load(found[cmd_name])
        else:
            return None
        if not isinstance(command, click.Command):
            raise UsageError(f"What stands for the command {cmd_name!r} is not a click command.")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            known = self.list_commands(ctx)
            if args[0] not in known:
                raise click.UsageError(f"There is no command {args[0]!r}. {did_you_mean(args[0], known)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # a reader that has seen enough is no failure
            ctx.exit(0)
        except ExceptionGroup as group:  # of a server, whose client is gone
            if group.split(BrokenPipeError)[1] is not None:
                raise
            ctx.exit(0)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, line) for name, (_, line) in COMMANDS.items()]
        joined = offered(plugins.COMMANDS)
        rows += [(name, plugins.first_line(point)) for name, point in joined.items() if name not in COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="combee", message="%(prog)s %(version)s")
def cli() -> None:
    """Learn from many agent runs at once: reflections become a playbook without losing the precise lessons."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code."""
    if arguments is not None:
        return _run(list(arguments))
    open_closed_streams()
    _write_anything(for_programs="--json" in sys.argv or "export" in sys.argv[1:2])
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    try:
        return _run(sys.argv[1:], is_own=True)
    finally:
        drop_unwritten()


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Stop a command that a supervisor ends as Ctrl-C does: with the summary, every answer kept, and how it goes on."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # Ctrl-C is ignored, as in the background of a script
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)


def _run(arguments: list[str], *, is_own: bool = False) -> int:
    wants_json = "--json" in arguments
    try:
        code = cli.main(args=arguments, prog_name="combee", standalone_mode=False)
    except CombeeError as error:
        _fail(str(error), wants_json, kind=type(error).__name__)
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:  # not a mistake, but a question
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        said = error.format_message().replace("\n\t", " ")  # click puts each choice on a line of its own
        _fail(f"{said}{_see_help(error)}", wants_json, kind="UsageError")
        return UsageError.exit_code
    except (KeyboardInterrupt, click.Abort):
        if is_own:  # one more ends the process at once: all that was answered is in the journal
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
        _say("Stopped.", "Stopped.", wants_json, kind="Interrupted")
        return INTERRUPTED
    except OSError as error:
        # Files that are read and written have messages of their own: one without a name is standard output.
        what = f"{error.filename}:" if error.filename else "standard output cannot be written, what was done is kept:"
        _fail(f"{what} {error.strerror or error}", wants_json, kind="OSError")
        return CombeeError.exit_code
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        what = "".join(traceback.format_exception_only(error)).strip()
        hint = f"A damaged run, or a fault of Combee. Set {_TRACEBACK}=1 to see where; please report it."
        _fail(f"unexpected: {what}\n  {hint}", wants_json, kind=type(error).__name__)
        return CombeeError.exit_code
    return code if isinstance(code, int) else 0


def _see_help(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"\n  See `{context.command_path} --help`." if context else ""


def _fail(message: str, wants_json: bool, *, kind: str) -> None:
    message = with_program(message)
    _say(f"error: {message}", message, wants_json, kind=kind)


def _say(line: str, message: str, wants_json: bool, *, kind: str) -> None:
    """Say how a command ended where that can still be said: either output may be what failed."""
    with suppress(OSError):
        if wants_json:
            click.echo(json.dumps({"error": {"kind": kind, "message": message}}, ensure_ascii=False))
    with suppress(OSError):
        click.echo(line, err=True)


def _write_anything(*, for_programs: bool) -> None:
    """Make standard output take any text where the locale is not UTF-8: as UTF-8 for programs, with escapes for eyes.

    ASCII is left to click, which writes UTF-8 in its place.
    """
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper) or codecs.lookup(out.encoding).name.startswith(("utf", "ascii")):
        return
    if for_programs:
        out.reconfigure(encoding="utf-8", errors=out.errors)
    else:
        out.reconfigure(errors="backslashreplace")


class _Lossy(io.FileIO):
    """A file that never fails to be written: the words are lost where it is full, closed, or a pipe without reader."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write what can be written."""
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


def open_closed_streams() -> None:
    """Mend this process's own streams, before anything is opened. A terminal stays as it is: it cannot be full."""
    # Standard output the wrong way round, so that writing to what was closed is an error and not silence.
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest number that is free
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    if sys.stderr is None or not sys.stderr.isatty():
        how = ("utf-8", "backslashreplace") if sys.stderr is None else (sys.stderr.encoding, sys.stderr.errors)
        lossy = io.BufferedWriter(_Lossy(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(lossy, *how, line_buffering=True)


def drop_unwritten() -> None:
    """Let go of what standard output did not take: the interpreter would try again at its end, and fail with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
