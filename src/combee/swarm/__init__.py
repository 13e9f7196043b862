"""Agents that live: bounded windows in a shared world, asked through copies of themselves, every token on an edge.

`PydanticModel` and `policy_behind_pydantic`, which need pydantic-ai, are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from combee.swarm.agents import AgentModel, Policy, PolicyModel, Reply, ToolSpec, View, use
from combee.swarm.briefing import Lessons
from combee.swarm.context import Call, Compaction, Entry, Newest, Refuse, Summarise, ToDisk, Window, count
from combee.swarm.knowledge import (
    Document,
    Issue,
    Knows,
    Note,
    close_issue,
    issues,
    note,
    open_issue,
    publish,
    read,
    recall,
    search_notes,
    take_issue,
    who_knows,
)
from combee.swarm.ledger import Edge, SwarmTotals, edges, totals
from combee.swarm.mail import About, Mail, Sent, get_mail, join, open_asks, post, send
from combee.swarm.repository import Repository
from combee.swarm.structure import Proposal, Structure, adopt, proposals, propose, settle, tree
from combee.swarm.swarm import USER, Swarm, SwarmLimits
from combee.swarm.tools import TOOLS, Tool
from combee.swarm.traces import question_trace, traces
from combee.swarm.world import AgentRow, World, WorldEvent

if TYPE_CHECKING:
    from combee.swarm.pydantic_agents import PydanticModel, policy_behind_pydantic

__all__ = [
    "TOOLS",
    "USER",
    "About",
    "AgentModel",
    "AgentRow",
    "Call",
    "Compaction",
    "Document",
    "Edge",
    "Entry",
    "Issue",
    "Knows",
    "Lessons",
    "Mail",
    "Newest",
    "Note",
    "Policy",
    "PolicyModel",
    "Proposal",
    "PydanticModel",
    "Refuse",
    "Reply",
    "Repository",
    "Sent",
    "Structure",
    "Summarise",
    "Swarm",
    "SwarmLimits",
    "SwarmTotals",
    "ToDisk",
    "Tool",
    "ToolSpec",
    "View",
    "Window",
    "World",
    "WorldEvent",
    "adopt",
    "close_issue",
    "count",
    "edges",
    "get_mail",
    "issues",
    "join",
    "note",
    "open_asks",
    "open_issue",
    "policy_behind_pydantic",
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
    "take_issue",
    "totals",
    "traces",
    "tree",
    "use",
    "who_knows",
]

_LAZY = {"PydanticModel", "policy_behind_pydantic"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from combee.swarm import pydantic_agents

        return getattr(pydantic_agents, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
