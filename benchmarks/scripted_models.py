"""Models without a network: replies from a function or a list, and faults at will. Tests and measurements use them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence

from combee.errors import CallError, CallErrorKind, UsageError
from combee.model import ChatModel, Request, Response, Usage

__all__ = ["FaultyModel", "ScriptedModel"]

Script = Callable[[Request], str | Response] | Sequence[str | Response | CallError]


class ScriptedModel:
    """Replies from a function of the request, or from a list in order (an error in it is raised).

    Usage is four characters to a token. `requests` keeps what was asked.

    Args:
        script: The function or the list.
        name: The name that reports show.
        cycle: Begin the list again at its end, instead of failing.
    """

    def __init__(self, script: Script, *, name: str = "scripted", cycle: bool = False) -> None:
        self._script = script
        self._name = name
        self._cycle = cycle
        self._lock = threading.Lock()
        self.requests: list[Request] = []

    @property
    def name(self) -> str:
        """The name that reports show."""
        return self._name

    async def complete(self, request: Request) -> Response:
        """Return the next reply.

        Raises:
            UsageError: The list is used up.
        """
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
        said = self._script(request) if callable(self._script) else self._at(number)
        if isinstance(said, CallError):
            raise said
        if isinstance(said, Response):
            return said
        prompt = sum(len(message.content) for message in request.messages)
        return Response(said, Usage(prompt // 4 + 1, len(said) // 4 + 1), model=self._name, cost=0.0)

    def _at(self, number: int) -> str | Response | CallError:
        if callable(self._script) or not self._script:
            raise UsageError("the script is empty")
        if number >= len(self._script) and not self._cycle:
            raise UsageError(f"the script has {len(self._script)} replies, and one more was asked for")
        return self._script[number % len(self._script)]


class FaultyModel:
    """Another model that fails now and then: each kind at its rate, drawn from the seed and the number of the call.

    Args:
        model: The model that answers where nothing fails.
        rates: Share of calls by kind.
        seed: Same seed, same order of calls: same faults.

    Raises:
        UsageError: The rates add up to more than 1.
    """

    def __init__(self, model: ChatModel, rates: Mapping[CallErrorKind, float], *, seed: int = 0) -> None:
        if min(rates.values(), default=0) < 0 or sum(rates.values()) > 1 + 1e-9:
            raise UsageError("the rates of the faults must be 0 or more and add up to 1 at most")
        self._model = model
        self._rates = dict(rates)
        self._random = random.Random(seed)
        self.injected: dict[CallErrorKind, int] = {}

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self._model.name

    async def complete(self, request: Request) -> Response:
        """Return the inner model's reply, or raise the fault that was drawn."""
        drawn = self._random.random()
        for kind, rate in self._rates.items():
            drawn -= rate
            if drawn < 0:
                self.injected[kind] = self.injected.get(kind, 0) + 1
                raise CallError(f"injected: {kind}", kind=kind)
        return await self._model.complete(request)
