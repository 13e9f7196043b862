"""A run's playbook for agents that speak the Model Context Protocol; `combee.mcp.server` needs the extra `mcp`."""

from __future__ import annotations

from combee.mcp.store import REPORTED, LessonStore

__all__ = ["REPORTED", "LessonStore"]
