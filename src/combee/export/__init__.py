"""Playbooks in the forms that agents read: skills, AGENTS.md, Cursor rules, prompts, JSON, ACE text."""

from __future__ import annotations

from combee.export.applying import Change, changes, diff_of, put_block, write
from combee.export.forms import BEGIN, END, FORMS, File, Risk, choose, export, own_skill, risks, scored_text, slug

__all__ = [
    "BEGIN",
    "END",
    "FORMS",
    "Change",
    "File",
    "Risk",
    "changes",
    "choose",
    "diff_of",
    "export",
    "own_skill",
    "put_block",
    "risks",
    "scored_text",
    "slug",
    "write",
]
