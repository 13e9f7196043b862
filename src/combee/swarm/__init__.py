"""Agents that live: bounded windows in a shared world, asked through copies of themselves, every token on an edge.

`PydanticBrain` and `policy_brain`, which need pydantic-ai, are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from combee.swarm.brain import Brain, Policy, ScriptedBrain, Thought, ToolSpec, View, use
from combee.swarm.directory import Document, Issue, Knows, issues, open_issue, publish, read, update_issue, who_knows
from combee.swarm.ledger import Edge, Totals, edges, totals
from combee.swarm.lessons import Lessons
from combee.swarm.mail import About, Mail, Sent, get_mail, join, open_asks, post, send
from combee.swarm.memory import Note, note, recall, search_notes
from combee.swarm.repository import Repository
from combee.swarm.structure import Proposal, Structure, adopt, proposals, propose, settle, tree
from combee.swarm.swarm import USER, Limits, Swarm
from combee.swarm.tools import TOOL_SPECS
from combee.swarm.traces import question_trace, traces
from combee.swarm.window import Call, Compaction, Entry, Newest, Refuse, Summarise, ToDisk, Window, count
from combee.swarm.world import AgentRow, Event, World

if TYPE_CHECKING:
    from combee.swarm.pydantic_brain import PydanticBrain, policy_brain

__all__ = [
    "TOOL_SPECS",
    "USER",
    "About",
    "AgentRow",
    "Brain",
    "Call",
    "Compaction",
    "Document",
    "Edge",
    "Entry",
    "Event",
    "Issue",
    "Knows",
    "Lessons",
    "Limits",
    "Mail",
    "Newest",
    "Note",
    "Policy",
    "Proposal",
    "PydanticBrain",
    "Refuse",
    "Repository",
    "ScriptedBrain",
    "Sent",
    "Structure",
    "Summarise",
    "Swarm",
    "Thought",
    "ToDisk",
    "ToolSpec",
    "Totals",
    "View",
    "Window",
    "World",
    "adopt",
    "count",
    "edges",
    "get_mail",
    "issues",
    "join",
    "note",
    "open_asks",
    "open_issue",
    "policy_brain",
    "post",
    "proposals",
    "propose",
    "publish",
    "question_trace",
    "read",
    "recall",
    "search_notes",
    "send",
    "settle",
    "totals",
    "traces",
    "tree",
    "update_issue",
    "use",
    "who_knows",
]

_LAZY = {"PydanticBrain", "policy_brain"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from combee.swarm import pydantic_brain

        return getattr(pydantic_brain, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
