"""The models of a run, one for each role: endpoints, weights and limiters are made once where roles share them.

One ledger books the calls of all roles; one budget holds for the run and, where asked for, one for a role. Rows go to
the run's journal from `Models.attach` on, with what endpoints were found to take. So limits hold over all resumes of a
run, and a resumed run asks no endpoint for what it has refused.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from combee.errors import BudgetError
from combee.kernel.journal import JSON, Journal
from combee.model.budget import Budget, RoleBudget
from combee.model.dialect import Capabilities
from combee.model.engine import Engine
from combee.model.ledger import CallRow, Ledger
from combee.model.limiter import Limiter
from combee.model.local import SLOTS, LocalModel, LocalServer, is_local, weights_of
from combee.model.prices import Price
from combee.model.settings import ModelSettings
from combee.model.types import Request, Response

if TYPE_CHECKING:
    from combee.model.endpoint import Endpoint
    from combee.model.openai import OpenAIModel

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

    def make(self, one: ModelSettings, engine: Engine) -> Client:
        """Return the client of these settings; the same one for the same settings and engine.

        Raises:
            UsageError: A key or weights are missing, or a setting cannot be used.
            BudgetError: A budget in money meets a model without a price.
        """
        key = (self.place(one), one.name, id(engine), repr(one.extra), one.price)
        if key not in self._made:
            self._made[key] = self._new(one, engine)
        return self._made[key]

    def place(self, one: ModelSettings) -> tuple[Any, ...]:
        """Return what must be equal for two settings to share a limiter."""
        if is_local(one.name):
            return (one.name,)
        return one.base_url, one.api_key_env, one.api_key_header, one.timeout, one.ca_file, one.client_cert

    def _new(self, one: ModelSettings, engine: Engine) -> Client:
        if is_local(one.name):
            if one.name not in self._servers:
                self._servers[one.name] = LocalServer(weights_of(one.name), slots=self._slots[one.name])
            return LocalModel(self._servers[one.name], name=one.name, engine=engine, price=one.price, extra=one.extra)
        from combee.model.openai import OpenAIModel

        return OpenAIModel(
            model=one.name, endpoint=self._endpoint(one), engine=engine, price=one.price, extra=one.extra
        )

    def _endpoint(self, one: ModelSettings) -> Endpoint:
        from combee.model.endpoint import Endpoint
        from combee.model.http import Timeouts

        place = self.place(one)
        if place not in self._endpoints:
            timeouts = Timeouts() if one.timeout is None else Timeouts(read=one.timeout, total=one.timeout)
            self._endpoints[place] = Endpoint(
                one.base_url,
                api_key_env=one.api_key_env,
                key_header=one.api_key_header,
                timeouts=timeouts,
                ca_file=Path(one.ca_file).expanduser() if one.ca_file else None,
                client_cert=Path(one.client_cert).expanduser() if one.client_cert else None,
            )
        return self._endpoints[place]


class CallCounter:
    """How many calls are under way."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: list[asyncio.Future[None]] = []

    def enter(self) -> None:
        """Count a call that begins."""
        self._count += 1

    def leave(self) -> None:
        """Count a call that has ended."""
        self._count -= 1
        if self._count == 0:
            for future in self._waiting:
                if not future.done():
                    future.set_result(None)
            self._waiting.clear()

    async def idle(self) -> None:
        """Wait until no call is under way."""
        if self._count:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future


class RoleModel:
    """The model of a role. When the budget is used up it lets the calls in flight come home before it says so.

    Those are paid for already; a run that stopped at once would throw them away.
    """

    def __init__(self, inner: Client, calls: CallCounter) -> None:
        self.inner = inner
        self._calls = calls

    @property
    def name(self) -> str:
        """The model's name at its place."""
        return self.inner.name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What besides the request makes a reply what it is."""
        return self.inner.parameters

    async def complete(self, request: Request) -> Response:
        """Return a usable reply; see `Engine.complete` for what it raises."""
        self._calls.enter()
        try:
            return await self.inner.complete(request)
        except BudgetError as error:
            used_up = error
        finally:
            self._calls.leave()
        await self._calls.idle()
        raise used_up


@dataclass
class Models:
    """The models of one run by role. Close them in the event loop that used them."""

    by_role: Mapping[str, RoleModel]
    settings: Mapping[str, ModelSettings]
    ledger: Ledger
    budget: Budget
    role_budgets: Mapping[str, Budget]
    call_log: CallLog

    def attach(self, journal: Journal, *, goes_on: bool = True) -> None:
        """Book into this journal, and ask no endpoint for what it is known to refuse.

        Where the run `goes_on`, what the journal says was spent before counts against the budgets.
        """
        self.call_log.attach(journal)
        followed: dict[int, Client] = {}
        for model in self.by_role.values():
            if not is_local(model.name):
                old = cast("OpenAIModel", model.inner)
                if id(old) not in followed:
                    followed[id(old)] = self.call_log.follow(old)
                model.inner = followed[id(old)]
        spent = self.call_log.spent_before()
        if not goes_on:
            return
        self.budget.spent_before(**spent.all)
        for role, budget in self.role_budgets.items():
            budget.spent_before(**spent.by_role.get(role, {}))

    def absorb(self, row: CallRow, *, lost: int = 0) -> None:
        """Book a call that was made elsewhere; `lost`: how often the same may have been paid for besides."""
        self.ledger.absorb(row, lost=lost)
        times = 0 if row.paid == "no" else 1 + lost
        tokens = 0 if row.usage is None else row.usage.prompt + row.usage.completion
        took: dict[str, Any] = {"cost": times * (row.cost or 0.0), "calls": times, "tokens": times * tokens}
        self.budget.spent_before(**took)
        role = row.role.partition("/")[0]
        if role in self.role_budgets:
            self.role_budgets[role].spent_before(**took)

    async def aclose(self) -> None:
        """Close all connections."""
        for model in self.by_role.values():
            await model.inner.aclose()


def _limiter(one: ModelSettings) -> Limiter:
    most = one.max_in_flight or (SLOTS if is_local(one.name) else None)
    return Limiter(most, rpm=one.requests_per_minute, tpm=one.tokens_per_minute)


def open_model(one: ModelSettings, *, budget: Budget | None = None) -> Client:
    """Make the client of one model that shares nothing with another; raises as `open_models`."""
    return Clients([one]).make(one, Engine(limiter=_limiter(one), budget=budget))


def open_models(
    settings: Mapping[str, ModelSettings], *, budget: Mapping[str, Any] | None = None, seed: int = 0
) -> Models:
    """Make the models of all roles.

    Args:
        settings: The model of each role.
        budget: Limits of the run, see `Budget`, with a table for each role that has limits of its own.
        seed: Decides the jitter of waits.

    Raises:
        UsageError: A setting or limit cannot be used, or a key or weights are missing.
        BudgetError: A budget in money meets a model without a price.
    """
    call_log, counter = CallLog(), CallCounter()
    limits = dict(budget or {})
    own = {role: limits.pop(role) for role in settings if limits.get(role)}
    ledger, whole = Ledger(call_log.book, keep_rows=False), Budget(**limits)
    role_budgets = {role: RoleBudget(whole, **table) for role, table in own.items()}
    clients = Clients(settings.values())
    limiters: dict[tuple[Any, ...], Limiter] = {}
    engines: dict[tuple[Any, ...], Engine] = {}
    by_role: dict[str, RoleModel] = {}
    for role, one in settings.items():
        pace = (clients.place(one), one.max_in_flight, one.requests_per_minute, one.tokens_per_minute)
        if pace not in limiters:
            limiters[pace] = _limiter(one)
        shared = (pace, role if role in own else "")
        if shared not in engines:
            held = role_budgets.get(role, whole)
            engines[shared] = Engine(limiter=limiters[pace], ledger=ledger, budget=held, seed=seed)
        by_role[role] = RoleModel(clients.make(one, engines[shared]), counter)
    return Models(by_role, settings, ledger, whole, role_budgets, call_log)


ENDPOINTS = "endpoints"
STARTS = "starts"  # of each process of the run: when it began, Unix seconds, and how many calls were booked by then
_SUMS = ("cost", "calls", "tokens")


@dataclass(slots=True)
class Spent:
    """What earlier parts of a run took: `Budget.spent_before` takes `all` and what belongs to one role."""

    all: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    by_role: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row of the ledger."""
        usage = row.get("usage") or {}
        tokens = int(usage.get("prompt", 0)) + int(usage.get("completion", 0))
        took = (float(row.get("cost") or 0.0), int(row.get("paid") != "no"), tokens)
        for sums in (self.all, self.by_role.setdefault(_role_of(row), dict.fromkeys(_SUMS, 0))):
            for name, amount in zip(_SUMS, took, strict=True):
                sums[name] += amount


class CallLog:
    """Writes the ledger's rows, and what endpoints were found to take, to the run's journal once one is attached."""

    def __init__(self) -> None:
        self.elsewhere: Callable[[Mapping[str, Any]], object] | None = None
        """Takes the rows where there is no journal."""
        self._journal: Journal | None = None
        self._known: dict[str, JSON] = {}
        self._watched: list[tuple[str, OpenAIModel]] = []
        self._seen: list[Capabilities] = []

    def attach(self, journal: Journal) -> None:
        """Write to this journal from now on."""
        self._journal = journal
        self._known = dict(cast("dict[str, JSON]", journal.meta(ENDPOINTS) or {}))

    @property
    def folder(self) -> Path | None:
        """The folder of the journal, once one is attached."""
        return None if self._journal is None else self._journal.path.parent

    def follow(self, model: OpenAIModel) -> OpenAIModel:
        """Return the model with what the journal says of its endpoint; what it finds out from now on is written."""
        where = f"{model.name} at {model.endpoint.base_url}"
        can = self._known.get(where)
        found = model.capabilities if can is None else _read(cast("dict[str, Any]", can))
        followed = model.sibling(capabilities=found)
        self._watched.append((where, followed))
        self._seen.append(found)
        return followed

    def book(self, row: dict[str, Any]) -> None:
        """Keep a row of the ledger, and what its call showed of an endpoint."""
        if self._journal is None:
            if self.elsewhere is not None:
                self.elsewhere(row)
            return
        self._journal.record_call(row)
        for number, (where, model) in enumerate(self._watched):
            can, seen = model.capabilities, self._seen[number]
            if can is not seen:
                self._seen[number] = can
                # Only what is new: roles with budgets of their own ask one endpoint through clients of their own.
                new = {name: value for name, value in asdict(can).items() if value != getattr(seen, name)}
                self._known[where] = {**cast("dict[str, JSON]", self._known.get(where, {})), **new}
                self._journal.set_meta(ENDPOINTS, self._known)

    def spent_before(self) -> Spent:
        """Return what earlier processes of the run took, and note that another one begins.

        A process worked from its beginning to its last call: the time between two of them is nobody's. A role's
        minutes are those worked since its first call. Which process made a call is told by the order of booking, not
        by the clock, which may have been put right between two of them; a clock that goes back adds nothing.
        """
        journal = cast("Journal", self._journal)
        starts = cast("list[tuple[float, int]]", journal.meta(STARTS) or [])
        coming = deque(starts)
        spent, booked = Spent(), 0
        worked, clock = 0.0, math.inf
        since: dict[str, float] = {}
        for row in cast("Iterator[dict[str, Any]]", journal.calls()):
            while coming and coming[0][1] <= booked:
                clock = coming.popleft()[0]
            booked += 1
            spent.add(row)
            now = float(row.get("at", clock))
            worked += max(0.0, now - clock)
            clock = now
            since.setdefault(_role_of(row), max(0.0, worked - float(row.get("wire", 0.0))))
        spent.all["minutes"] = worked / 60
        for role, sums in spent.by_role.items():
            sums["minutes"] = (worked - since[role]) / 60
        journal.set_meta(STARTS, [*starts, [time.time(), booked]])
        return spent


def _role_of(row: Mapping[str, Any]) -> str:
    return str(row.get("role", "")).partition("/")[0]


def _read(kept: Mapping[str, Any]) -> Capabilities:
    known = {part.name: kept[part.name] for part in fields(Capabilities) if part.name in kept}
    return Capabilities(**{**known, "without": tuple(known.get("without", ()))})
