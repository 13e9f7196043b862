"""What stands behind a role's model: an endpoint or weights in this process; made once where roles share them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from combee.model import Engine, Price, Request, Response
from combee.model.local import SLOTS, LocalModel, LocalServer, is_local, weights_of

if TYPE_CHECKING:
    from combee.ace.models import ModelSettings
    from combee.model import Endpoint

__all__ = ["Client", "Clients", "place_of"]

HERE = "this process"


class Client(Protocol):
    """A model with its place: `OpenAIModel` or `LocalModel`."""

    engine: Engine
    price: Price | None

    @property
    def name(self) -> str:
        """The model's name at its place."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What besides the request makes a reply what it is."""
        ...

    async def complete(self, request: Request) -> Response:
        """Return a usable reply; see `Engine.complete` for what it raises."""
        ...

    async def aclose(self) -> None:
        """Close connections, or free the weights."""
        ...


def place_of(client: Client) -> str:
    """Return where a client's model runs: a base URL, or "this process"."""
    endpoint: Endpoint | None = getattr(client, "endpoint", None)
    return HERE if endpoint is None else endpoint.base_url


class Clients:
    """Makes clients. Connections are shared by all at one place, weights by all that name one file.

    Args:
        settings: All that will be asked for: the largest `max_in_flight` of a file decides its slots.
    """

    def __init__(self, settings: Iterable[ModelSettings]) -> None:
        self._slots: dict[str, int] = {}
        for one in settings:
            if is_local(one.name):
                self._slots[one.name] = max(self._slots.get(one.name, 0), one.max_in_flight or SLOTS)
        self._endpoints: dict[tuple[Any, ...], Endpoint] = {}
        self._servers: dict[str, LocalServer] = {}
        self._made: dict[tuple[Any, ...], Client] = {}

    def make(self, one: ModelSettings, engine: Engine, price: Price | None) -> Client:
        """Return the client of these settings; the same one for the same settings and engine.

        Raises:
            UsageError: A key or weights are missing, or a setting cannot be used.
            BudgetError: A budget in money meets a model without a price.
        """
        key = (self.place(one), one.name, id(engine), repr(one.extra))
        if key not in self._made:
            self._made[key] = self._new(one, engine, price)
        return self._made[key]

    def place(self, one: ModelSettings) -> tuple[Any, ...]:
        """Return what must be equal for two settings to share a limiter."""
        return (one.name,) if is_local(one.name) else (one.base_url, one.api_key_env, one.timeout)

    def _new(self, one: ModelSettings, engine: Engine, price: Price | None) -> Client:
        if is_local(one.name):
            if one.name not in self._servers:
                self._servers[one.name] = LocalServer(weights_of(one.name), slots=self._slots[one.name])
            return LocalModel(self._servers[one.name], name=one.name, engine=engine, price=price, extra=one.extra)
        from combee.model import OpenAIModel

        return OpenAIModel(model=one.name, endpoint=self._endpoint(one), engine=engine, price=price, extra=one.extra)

    def _endpoint(self, one: ModelSettings) -> Endpoint:
        from combee.model import Endpoint, Timeouts

        place = self.place(one)
        if place not in self._endpoints:
            timeouts = Timeouts() if one.timeout is None else Timeouts(read=one.timeout, total=one.timeout)
            self._endpoints[place] = Endpoint(one.base_url, api_key_env=one.api_key_env, timeouts=timeouts)
        return self._endpoints[place]
