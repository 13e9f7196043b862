"""An OpenAI-compatible server for tests and benchmarks: latency, limits, faults, scripted replies, and what was paid.

It listens on loopback only. In a test: `async with MockServer(MockConfig(...)) as server: ... server.url`. As a process
of its own: `await serve(config, port=8080)`.
"""

from __future__ import annotations

from combee.mock.answer import MockStats
from combee.mock.config import FAULTS, LatencyLaw, MockConfig, parse_latency
from combee.mock.providers import PROVIDERS
from combee.mock.script import Rules, Scripted, sample
from combee.mock.server import MockServer, serve

__all__ = [
    "FAULTS",
    "PROVIDERS",
    "LatencyLaw",
    "MockConfig",
    "MockServer",
    "MockStats",
    "Rules",
    "Scripted",
    "parse_latency",
    "sample",
    "serve",
]
