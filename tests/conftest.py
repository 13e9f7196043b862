"""Shared fixtures: where the optional real data lies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A machine that stalls for a moment must not fail a test, and the same code passes or fails each time:
# COMBEE_EXPLORE=1 looks for new examples.
settings.register_profile(
    "combee",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not os.environ.get("COMBEE_EXPLORE"),
)
settings.load_profile("combee")

# In the background of a script (`nohup pytest ... &`) a process is started with Ctrl-C ignored, and so is every program
# that a test starts, also the ones it means to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent


def _folder(variable: str, default: str) -> Path:
    path = Path(os.environ.get(variable, ROOT.parent / "shared" / default))
    if not path.is_dir():
        pytest.skip(f"set {variable} to the folder that holds the {default} files; {path} is not one")
    return path


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with finer/ and formula/."""
    return _folder("COMBEE_DATA", "data")


@pytest.fixture(scope="session")
def traces_dir() -> Path:
    """The folder with recorded agent traces."""
    return _folder("COMBEE_TRACES", "traces")
