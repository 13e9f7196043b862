"""Makes the shared strategies importable from any folder; no test fails because a machine is busy."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.append(str(Path(__file__).resolve().parents[2]))

settings.register_profile("busy-machine", deadline=None)
settings.load_profile("busy-machine")
