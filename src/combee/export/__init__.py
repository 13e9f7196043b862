"""Playbooks in the forms that agents read: skills, AGENTS.md, Cursor rules, prompts, JSON, ACE text."""

from __future__ import annotations

from combee.export.applying import Change, changes, diff_of, write
from combee.export.blocks import put_block
from combee.export.choosing import choose
from combee.export.forms import BEGIN, END, FORMS, File, export, scored_text, slug
from combee.export.own import own_skill

__all__ = [
    "BEGIN",
    "END",
    "FORMS",
    "Change",
    "File",
    "changes",
    "choose",
    "diff_of",
    "export",
    "own_skill",
    "put_block",
    "scored_text",
    "slug",
    "write",
]
