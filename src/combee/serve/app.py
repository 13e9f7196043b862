"""The HTTP side of a service: routes, limits and answers. What a request does is in `service`.

Every error is answered with JSON, `{"error": ...}`. The tenant of a request is that of its token; there is no other way
to name one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from combee.errors import CombeeError, StorageError, UsageError
from combee.serve.access import Access, Grant
from combee.serve.intake import RefusedError, deepest
from combee.serve.mcp_route import McpRoute
from combee.serve.service import BusyError, ServedOutcome, Service

__all__ = ["make_app"]

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_MOST_OUTCOMES = 10_000
_SMALL_BODY = 1 << 20
_SLOWEST = 120  # seconds that a body may take to arrive
_log = logging.getLogger("combee.serve")
Answer = Callable[[Request, Grant], Awaitable[Response]]


class _SafeHeaders:
    """Puts the security headers on every answer that does not set them itself."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_with(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(each for each in _HEADERS if each[0] not in given)]
            await send(message)

        await self.app(scope, receive, send_with)


class Api:
    """The routes of one service."""

    def __init__(self, service: Service, access: Access) -> None:
        self.service = service
        self.access = access

    def routes(self) -> list[Route]:
        """Return the routes; each names the scope that its token needs."""
        table: tuple[tuple[str, str, str, Answer], ...] = (
            ("POST", "/v1/traces", "ingest", self.traces),
            ("POST", "/v1/runs", "ingest", self.runs),
            ("POST", "/v1/outcomes", "ingest", self.outcomes),
            ("GET", "/v1/receipts/{name:path}", "ingest", self.receipts),
            ("GET", "/v1/playbook", "read", self.playbook),
            ("GET", "/v1/lessons", "read", self.lessons),
            ("GET", "/v1/versions", "read", self.versions),
            ("GET", "/v1/status", "read", self.status),
            ("GET", "/metrics", "read", self.metrics),
            ("POST", "/v1/promote", "admin", self.promote),
            ("POST", "/v1/rollback", "admin", self.rollback),
            ("POST", "/v1/forget", "admin", self.forget),
            ("POST", "/v1/retry", "admin", self.retry),
        )
        routes = [Route(path, self._guarded(scope, answer), methods=[method]) for method, path, scope, answer in table]
        pages = [Route("/", _page), Route("/page/{name}", _page)]
        return [*routes, Route("/healthz", self.health), *pages]

    def _guarded(self, scope: str, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            grant = await self.authorize(request, scope)
            try:
                return await answer(request, grant)
            except RefusedError as error:
                return JSONResponse({"error": str(error)}, error.status)
            except BusyError as error:
                return JSONResponse({"error": str(error)}, 429, {"Retry-After": str(error.after)})
            except StorageError as error:
                _log.error("%s", error)
                return JSONResponse({"error": "it could not be kept; the log says why"}, 503, {"Retry-After": "10"})
            except CombeeError as error:
                message = str(error).replace(str(self.service.folder), "FOLDER")
                return JSONResponse({"error": message}, 400 if isinstance(error, UsageError) else 500)

        return guarded

    async def authorize(self, request: Request, scope: str) -> Grant:
        """Return what a request may do.

        Raises:
            HTTPException: 401 without a good token, 403 where it lacks the scope, 429 over its rate.
        """
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        grant = await self.access.grant(token.strip() if kind.lower() == "bearer" else None)
        if grant is None:
            raise HTTPException(401, "a token is needed: Authorization: Bearer ...", {"WWW-Authenticate": "Bearer"})
        if self.access.is_open:
            _refuse_foreign_pages(request)
        if scope not in grant.scopes:
            raise HTTPException(403, f"this token lacks the scope {scope}")
        if request.method == "POST" and (seconds := self.access.wait(grant)):
            raise HTTPException(429, "this token is over its rate", {"Retry-After": str(math.ceil(seconds))})
        return grant

    async def traces(self, request: Request, grant: Grant) -> Response:
        """Take a request of an exporter of OpenTelemetry."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in {"application/x-protobuf", "application/json"}:
            raise RefusedError("the content type is application/x-protobuf or application/json", 415)
        data, packed = await self._body(request)
        as_json = kind == "application/json"
        taken = await self.service.take_spans(grant.tenant, data, as_json=as_json, packed=packed)
        return _exported(as_json=as_json, rejected=len(taken.skipped), why="; ".join(taken.skipped[:3]))

    async def runs(self, request: Request, grant: Grant) -> Response:
        """Take runs of any format that a reader knows."""
        data, packed = await self._body(request)
        alias = request.query_params.get("id", "")[:200]
        return JSONResponse(await self.service.take_runs(grant.tenant, data, packed=packed, alias=alias), 202)

    async def outcomes(self, request: Request, grant: Grant) -> Response:
        """Take one outcome, a list of them, or lines."""
        data, _ = await self._body(request, _SMALL_BODY)
        rows = [_outcome(row) for row in _listed(data)]
        return JSONResponse({"accepted": len(rows), "new": await self.service.take_outcomes(grant.tenant, rows)}, 202)

    async def receipts(self, request: Request, grant: Grant) -> Response:
        """Say what became of a trace."""
        found = await self.service.receipt(grant.tenant, request.path_params["name"])
        if not found:
            return JSONResponse({"receipts": [], "error": "nothing came under this id"}, 404)
        return JSONResponse({"receipts": found})

    async def playbook(self, request: Request, grant: Grant) -> Response:
        """Give the lessons that a unit is served."""
        query = request.query_params
        unit, task = query.get("unit", "")[:200], query.get("task", "")[:8000]
        try:
            most = min(100_000, max(1, int(query.get("max_tokens", "4000"))))
        except ValueError:
            raise RefusedError("max_tokens is not a number") from None
        arm, version = await self.service.route(grant.tenant, unit)
        mark = hashlib.sha256(f"{version} {most} {task}".encode("utf-8", "replace")).hexdigest()[:32]
        headers = {
            "ETag": f'"{mark}"',
            "Cache-Control": "private, no-cache",
            "Vary": "Authorization",
            "Combee-Arm": arm,
            "Combee-Version": version,
        }
        if f'"{mark}"' in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        text = await self.service.lessons(grant.tenant, version, task, most)
        return PlainTextResponse(text, headers=headers)

    async def lessons(self, request: Request, grant: Grant) -> Response:
        """Give the lessons of a version as data, with the runs that each is from."""
        version = request.query_params.get("version", "stable")
        return JSONResponse({"lessons": await self.service.bullets(grant.tenant, version)})

    async def versions(self, request: Request, grant: Grant) -> Response:
        """List the versions and trials of a tenant."""
        return JSONResponse(await self.service.history(grant.tenant))

    async def status(self, request: Request, grant: Grant) -> Response:
        """Say how a tenant's learning stands."""
        return JSONResponse(await self.service.status(grant.tenant))

    async def metrics(self, request: Request, grant: Grant) -> Response:
        """Give the numbers of a tenant to Prometheus."""
        from combee.serve.metrics import metrics_text

        text = await metrics_text(self.service, grant.tenant)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def promote(self, request: Request, grant: Grant) -> Response:
        """Make a version stable."""
        given = await self._object(request)
        version = await self.service.promote(grant.tenant, str(given.get("version", "canary")), _note(given, grant))
        return JSONResponse({"stable": version})

    async def rollback(self, request: Request, grant: Grant) -> Response:
        """End a trial; without one, put stable back to where it was before."""
        version = await self.service.rollback(grant.tenant, _note(await self._object(request), grant))
        return JSONResponse({"stable": version})

    async def forget(self, request: Request, grant: Grant) -> Response:
        """Make the stable version as if some traces had never been."""
        given = await self._object(request)
        traces = given.get("traces")
        if not isinstance(traces, list) or not traces or not all(isinstance(each, str) for each in traces):
            raise RefusedError("traces is a list of ids")
        return JSONResponse({"stable": await self.service.forget(grant.tenant, traces)})

    async def retry(self, request: Request, grant: Grant) -> Response:
        """Queue again what was given up: the cause is mended now."""
        return JSONResponse({"traces": await self.service.retry(grant.tenant)})

    async def health(self, request: Request) -> Response:
        """Say that the service works: its file can be written."""
        try:
            await self.service.store.write(lambda db: None)
        except StorageError:
            return JSONResponse({"status": "the file cannot be written"}, 503)
        return JSONResponse({"status": "ok"})

    async def _body(self, request: Request, limit: int | None = None) -> tuple[bytes, bool]:
        """Return a body of at most `limit` bytes, and whether it is packed with gzip."""
        most = self.service.settings.max_body if limit is None else limit
        packing = request.headers.get("content-encoding", "identity").strip().lower()
        if packing not in {"identity", "gzip"}:
            raise RefusedError("the content encoding is gzip or none", 415)
        data = bytearray()
        try:
            async with asyncio.timeout(_SLOWEST):
                async for chunk in request.stream():
                    data += chunk
                    if len(data) > most:
                        raise RefusedError(f"it is larger than {most} bytes", 413)
        except TimeoutError:
            raise RefusedError(f"it did not come within {_SLOWEST} seconds", 408) from None
        return bytes(data), packing == "gzip"

    async def _object(self, request: Request) -> dict[str, Any]:
        data, _ = await self._body(request, _SMALL_BODY)
        rows = _listed(data or b"{}")
        if len(rows) != 1:
            raise RefusedError("one JSON object is expected")
        return rows[0]


_PAGE = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)


async def _page(request: Request) -> Response:
    """Give the page; it holds nothing, and asks for what it shows with the reader's token."""
    name = request.path_params.get("name", "index.html")
    if name not in _PAGE:
        raise HTTPException(404)
    text = files("combee.serve").joinpath("page", name).read_text(encoding="utf-8")
    headers = {"Content-Security-Policy": _PAGE_POLICY, "Cache-Control": "no-cache"}
    return Response(text, media_type=_PAGE[name], headers=headers)


def _refuse_foreign_pages(request: Request) -> None:
    """Without tokens only programs of this machine may ask, not a foreign page that a browser here shows."""
    name = request.url.hostname or ""
    origin = request.headers.get("origin")
    foreign = origin is not None and origin != f"{request.url.scheme}://{request.url.netloc}"
    if name not in {"localhost", "127.0.0.1", "::1"} or foreign:
        raise HTTPException(403, "without tokens only requests to localhost, from no other page, are answered")


def _note(given: dict[str, Any], grant: Grant) -> str:
    note = str(given.get("note", ""))[:500]
    return f"by {grant.name or 'hand'}: {note}" if note else f"by {grant.name or 'hand'}"


def _listed(data: bytes) -> list[dict[str, Any]]:
    """Return the objects of a JSON object, a list of them, or lines."""
    if deepest(data) > 5:
        raise RefusedError("it is nested too deeply")
    try:
        value = json.loads(data) if b"\n" not in data.strip() else None
    except ValueError:
        value = None
    try:
        rows = [json.loads(line) for line in data.splitlines() if line.strip()] if value is None else value
    except ValueError:
        rows = _whole(data)
    rows = rows if isinstance(rows, list) else [rows]
    if len(rows) > _MOST_OUTCOMES or not all(isinstance(row, dict) for row in rows):
        raise RefusedError(f"up to {_MOST_OUTCOMES} JSON objects are expected")
    return rows


def _whole(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise RefusedError(f"it is not JSON: {error}") from error


def _outcome(row: dict[str, Any]) -> ServedOutcome:
    """Return one outcome. Without `pass`, a score below one half is a failure."""
    unit, version, passed, score = row.get("unit"), row.get("version"), row.get("pass"), row.get("score")
    if not isinstance(unit, str) or not 0 < len(unit) <= 200 or not isinstance(version, str):
        raise RefusedError("an outcome has a unit (up to 200 characters) and the version that it was served")
    if isinstance(score, bool) or not isinstance(score, int | float | None) or not 0 <= (score or 0) <= 1:
        raise RefusedError("a score is from 0 to 1")
    if not isinstance(passed, bool | None) or (passed is None and score is None):
        raise RefusedError("an outcome has pass (true or false) or a score")
    failed = not passed if passed is not None else float(score or 0) < 0.5
    name, label = str(row.get("id") or uuid.uuid4().hex)[:200], str(row.get("label", ""))[:200]
    return ServedOutcome(name, unit, version, failed, None if score is None else float(score), label)


def _exported(*, as_json: bool, rejected: int, why: str) -> Response:
    if as_json:
        partial = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": why}} if rejected else {}
        return JSONResponse(partial)
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp

    response = otlp.ExportTraceServiceResponse()
    if rejected:
        response.partial_success.rejected_spans = rejected
        response.partial_success.error_message = why
    return Response(response.SerializeToString(), media_type="application/x-protobuf")


async def _error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse({"error": "something went wrong here; the log says what"}, 500)


def make_app(service: Service, start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[None]]) -> Any:
    """Return the application; `start` and `stop` run in the loop that serves it."""
    api = Api(service, Access(service.store, service.settings.max_rate))
    mcp = McpRoute(service, api.authorize)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await start()
        try:
            yield
        finally:
            await mcp.stop()
            await stop()

    handlers = {HTTPException: _error, 500: _error}
    return _SafeHeaders(
        Starlette(routes=[*api.routes(), Route("/mcp", mcp)], lifespan=lifespan, exception_handlers=handlers)
    )
