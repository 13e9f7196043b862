"""Workers: the map over samples in other processes, on this machine or on a Ray cluster; a satellite of `run`."""

from __future__ import annotations
