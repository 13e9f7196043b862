"""Models as Combee sees them: a protocol, an HTTP client for any OpenAI-compatible endpoint, limits, a ledger, prices.

`OpenAIModel` and what goes over the network is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from combee.model.budget import Budget, RoleBudget
from combee.model.dialect import Capabilities
from combee.model.engine import CallableModel, Engine, RetryPolicy
from combee.model.ledger import CallRow, Ledger, Totals
from combee.model.limiter import Limiter, LimiterState
from combee.model.outcome import RULES, Fault, Rule, StoppedError
from combee.model.prices import Price, find_price, parse_price
from combee.model.structured import complete_json, find_json, parse_json
from combee.model.types import ChatModel, FinishReason, Message, Request, Response, Timing, Usage

if TYPE_CHECKING:
    from combee.model.clients import Client, Models, RoleModel, open_models
    from combee.model.doctor import EndpointCheck, EndpointReport, check_endpoint
    from combee.model.endpoint import Endpoint
    from combee.model.estimate import Estimate, Phase, Workload, estimate_learning, estimate_phases
    from combee.model.http import Timeouts
    from combee.model.local import LocalModel
    from combee.model.openai import OpenAIModel
    from combee.model.settings import CallOptions, ModelSettings

__all__ = [
    "RULES",
    "Budget",
    "CallOptions",
    "CallRow",
    "CallableModel",
    "Capabilities",
    "ChatModel",
    "Client",
    "Endpoint",
    "EndpointCheck",
    "EndpointReport",
    "Engine",
    "Estimate",
    "Fault",
    "FinishReason",
    "Ledger",
    "Limiter",
    "LimiterState",
    "LocalModel",
    "Message",
    "ModelSettings",
    "Models",
    "OpenAIModel",
    "Phase",
    "Price",
    "Request",
    "Response",
    "RetryPolicy",
    "RoleBudget",
    "RoleModel",
    "Rule",
    "StoppedError",
    "Timeouts",
    "Timing",
    "Totals",
    "Usage",
    "Workload",
    "check_endpoint",
    "complete_json",
    "estimate_learning",
    "estimate_phases",
    "find_json",
    "find_price",
    "open_models",
    "parse_json",
    "parse_price",
]

_LAZY = {
    **dict.fromkeys(("Client", "Models", "RoleModel", "open_models"), "combee.model.clients"),
    **dict.fromkeys(("CallOptions", "ModelSettings"), "combee.model.settings"),
    **dict.fromkeys(("Estimate", "Phase", "Workload", "estimate_phases", "estimate_learning"), "combee.model.estimate"),
    "EndpointCheck": "combee.model.doctor",
    "EndpointReport": "combee.model.doctor",
    "LocalModel": "combee.model.local",
    "check_endpoint": "combee.model.doctor",
    "Endpoint": "combee.model.endpoint",
    "OpenAIModel": "combee.model.openai",
    "Timeouts": "combee.model.http",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
