"""The known readers: the built-in ones, and those that installed packages offer under `combee.readers`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from combee.errors import UsageError, did_you_mean
from combee.readers.atif import AtifReader
from combee.readers.claude_code import ClaudeCodeReader
from combee.readers.clawteam import ClawTeamReader
from combee.readers.codex import CodexReader
from combee.readers.harbor import HarborReader
from combee.readers.inspect_ai import InspectReader
from combee.readers.langsmith import LangSmithReader
from combee.readers.mini_swe_agent import MiniSweAgentReader
from combee.readers.openai_chat import OpenAIChatReader
from combee.readers.openclaw import OpenClawReader
from combee.readers.openhands import OpenHandsReader
from combee.readers.otel_genai import OtelReader
from combee.readers.own import OwnReader
from combee.readers.protocol import Reader
from combee.readers.swe_agent import SweAgentReader
from combee.readers.terminal_bench import TerminalBenchReader

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
                hint="See combee.readers.Reader for what a reader must have.",
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
