"""Scripted teams on broken repositories: what learning a lead's rules from traces gives, and what delegating costs."""

from __future__ import annotations
