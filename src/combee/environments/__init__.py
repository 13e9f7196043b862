"""Environments that agents act in and are judged by: Harbor's tasks, as a program; AppWorld, over HTTP."""

from __future__ import annotations
