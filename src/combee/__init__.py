"""Combee learns from many agent runs at once: reflections become a playbook, and model weights never change."""

from __future__ import annotations

__version__ = "0.1.0"
