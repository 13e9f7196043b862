"""The known readers: the built-in ones, and those that installed packages offer under `combee.readers`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from combee.errors import UsageError, did_you_mean
from combee.traces.readers.atif import AtifReader
from combee.traces.readers.claude_code import ClaudeCodeReader
from combee.traces.readers.clawteam import ClawTeamReader
from combee.traces.readers.codex import CodexReader
from combee.traces.readers.harbor import HarborReader
from combee.traces.readers.inspect_ai import InspectReader
from combee.traces.readers.langsmith import LangSmithReader
from combee.traces.readers.mini_swe_agent import MiniSweAgentReader
from combee.traces.readers.openai_chat import OpenAIChatReader
from combee.traces.readers.openclaw import OpenClawReader
from combee.traces.readers.openhands import OpenHandsReader
from combee.traces.readers.otel_genai import OtelReader
from combee.traces.readers.own import OwnReader
from combee.traces.readers.protocol import Reader
from combee.traces.readers.swe_agent import SweAgentReader
from combee.traces.readers.terminal_bench import TerminalBenchReader

__all__ = ["GROUP", "reader", "readers"]

GROUP = "combee.readers"
_BUILT_IN: tuple[Reader, ...] = (
    OwnReader(),
    HarborReader(),
    TerminalBenchReader(),
    AtifReader(),
    SweAgentReader(),
    MiniSweAgentReader(),
    OpenHandsReader(),
    ClaudeCodeReader(),
    CodexReader(),
    OpenClawReader(),
    InspectReader(),
    LangSmithReader(),
    OtelReader(),
    ClawTeamReader(),
    OpenAIChatReader(),
)


@cache
def readers() -> tuple[Reader, ...]:
    """Return all readers, those of other packages first, so that a sharper reader of a known format can be installed.

    Raises:
        UsageError: an installed package offers something that is not a reader.
    """
    foreign: list[Reader] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            made = point.load()
            offered = made() if isinstance(made, type) else made
        except Exception as error:  # a foreign package may fail in any way; the user must learn which
            raise UsageError(
                f"the trace reader {point.name!r} ({point.value}) cannot be loaded: {error}",
                hint="Update or remove the package that brings it.",
            ) from error
        if not isinstance(offered, Reader):
            raise UsageError(
                f"the trace reader {point.name!r} ({point.value}) has no name, sniff and read",
                hint="See combee.traces.readers.Reader for what a reader must have.",
            )
        foreign.append(offered)
    return (*foreign, *_BUILT_IN)


def reader(name: str) -> Reader:
    """Return the reader of that name.

    Raises:
        UsageError: there is none; the hint names the nearest.
    """
    known = {each.name: each for each in reversed(readers())}
    if name not in known:
        raise UsageError(f"no reader for the trace format {name!r}", hint=did_you_mean(name, known))
    return known[name]
