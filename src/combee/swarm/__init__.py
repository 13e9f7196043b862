"""Agents that live: bounded windows in a shared world, asked through copies of themselves, every token on an edge."""

from __future__ import annotations

from combee.swarm.agents import AgentModel, PolicyModel, Reply, ToolSpec, View, use
from combee.swarm.briefing import Lessons
from combee.swarm.context import Newest, Summarise
from combee.swarm.knowledge import publish
from combee.swarm.ledger import edges, totals
from combee.swarm.mail import join
from combee.swarm.pydantic_agents import PydanticModel
from combee.swarm.repository import Repository
from combee.swarm.structure import Structure, adopt, tree
from combee.swarm.swarm import USER, Swarm, SwarmLimits
from combee.swarm.tools import Tool
from combee.swarm.traces import traces
from combee.swarm.world import World

__all__ = [
    "USER",
    "AgentModel",
    "Lessons",
    "Newest",
    "PolicyModel",
    "PydanticModel",
    "Reply",
    "Repository",
    "Structure",
    "Summarise",
    "Swarm",
    "SwarmLimits",
    "Tool",
    "ToolSpec",
    "View",
    "World",
    "adopt",
    "edges",
    "join",
    "publish",
    "totals",
    "traces",
    "tree",
    "use",
]
