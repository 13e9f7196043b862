"""What a worker process does with a request's body: unpack, read, redact. Only what it returns may touch the disk.

Bodies are read with the readers of `combee.traces`; those need a file, which is made in a private folder, in memory
where the system has a file system there, and is deleted when the body is read.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal

from combee.redaction import Redactor, Trace, to_jsonl, trace_from_data
from combee.traces.mining import safe
from combee.traces.readers import read
from combee.traces.readers.otel_genai import attributes_of, span_events
from combee.traces.readers.values import objects, table, text

__all__ = [
    "Body",
    "Intake",
    "Limits",
    "RefusedError",
    "deepest",
    "end_with_service",
    "joined_spans",
    "take",
    "take_all",
]

Kind = Literal["runs", "otlp", "otlp_json"]
_MEMORY = Path("/dev/shm")  # noqa: S108  # in memory, not on the disk
_GENERATIVE = ("gen_ai.", "llm.")


class RefusedError(ValueError):
    """A body that cannot be taken; `status` is that of the answer."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one body: bytes as unpacked, levels of nested JSON."""

    size: int
    depth: int


@dataclass(frozen=True, slots=True)
class Body:
    """One body as it came, of one tenant: runs are labelled with it, whatever their own label says."""

    kind: Kind
    data: bytes
    tenant: str
    packed: bool = False


@dataclass(slots=True)
class Intake:
    """What may be stored of one body: redacted traces as (id, line), spans as (trace, span, is root, record).

    `twice` counts traces that the body held before, `skipped` says what could not be read, `redacted` counts by kind.
    """

    traces: list[tuple[str, str]] = field(default_factory=list)
    spans: list[tuple[str, str, bool, str]] = field(default_factory=list)
    twice: int = 0
    skipped: list[str] = field(default_factory=list)
    redacted: dict[str, int] = field(default_factory=dict)


def end_with_service() -> None:
    """Make this worker process end when the service that started it is gone: killed, it leaves no other sign."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@cache
def _redactor_of(patterns: tuple[tuple[str, str], ...]) -> Redactor:
    """Return a process's redactor: making one takes longer than a body."""
    return Redactor(dict(patterns))


def take_all(
    bodies: Iterable[Body], patterns: tuple[tuple[str, str], ...], limits: Limits
) -> list[Intake | RefusedError]:
    """Take several bodies in one go; one that is refused costs no other."""
    redactor = _redactor_of(patterns)
    return [_taken(body, redactor, limits) for body in bodies]


def _taken(body: Body, redactor: Redactor, limits: Limits) -> Intake | RefusedError:
    try:
        return take(body, redactor, limits)
    except RefusedError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a body that breaks a reader costs no other
        return RefusedError(f"it cannot be read: {type(error).__name__}")


def take(body: Body, redactor: Redactor, limits: Limits) -> Intake:
    """Return what may be stored of a body.

    Raises:
        RefusedError: It is too large or too deep, or not of its format.
    """
    data = body.data
    for _ in range(2):  # it may be compressed in transit, and be a compressed file besides
        if body.packed or data[:2] == b"\x1f\x8b":
            data = _unpacked(data, limits.size)
            body = replace(body, packed=False)
    if len(data) > limits.size:
        raise RefusedError(f"it is larger than {limits.size} bytes", 413)
    if body.kind == "otlp":
        return _spans(_from_protobuf(data, limits.depth), redactor)
    if data.count(b"{") + data.count(b"[") > limits.depth and deepest(data) > limits.depth:
        raise RefusedError(f"it is nested more than {limits.depth} levels deep")
    if body.kind == "otlp_json":
        return _spans(_from_json(data), redactor)
    return _runs(data, body.tenant, redactor)


def _unpacked(data: bytes, limit: int) -> bytes:
    packed = zlib.decompressobj(wbits=31)
    try:
        out = packed.decompress(data, limit + 1)
    except zlib.error as error:
        raise RefusedError(f"it is not gzip: {error}") from error
    if len(out) > limit or packed.unconsumed_tail:
        raise RefusedError(f"unpacked it is larger than {limit} bytes", 413)
    if not packed.eof:
        raise RefusedError("its gzip stream is cut")
    if packed.unused_data:
        raise RefusedError("more follows its gzip stream")
    return out


def deepest(data: bytes) -> int:
    """Return how deep the brackets of JSON are nested, in linear time; those inside strings do not count."""
    depth = most = 0
    for sign in _BRACKETS.findall(_TEXTS.sub(b"", data)):
        depth += 1 if sign in b"[{" else -1
        most = max(most, depth)
    return most


_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


def _runs(data: bytes, tenant: str, redactor: Redactor) -> Intake:
    taken = Intake()
    known: set[str] = set()
    traces = _own(data, taken) if data.lstrip()[:64].startswith(b'{"combee_trace"') else _any_format(data, taken)
    for trace in traces:
        if trace.id in known:
            taken.twice += 1
            continue
        known.add(trace.id)
        _keep(trace, tenant, redactor, taken)
    if not taken.traces and not taken.skipped:
        taken.skipped.append("there is no run in it")
    return taken


def _keep(trace: Trace, tenant: str, redactor: Redactor, taken: Intake) -> None:
    stored, counts = safe(replace(trace, labels={**trace.labels, "tenant": tenant}), redactor)
    for kind, count in counts.items():
        taken.redacted[kind] = taken.redacted.get(kind, 0) + count
    taken.traces.append((stored.id, "".join(to_jsonl([stored]))))


def _own(data: bytes, taken: Intake) -> Iterator[Trace]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                yield trace_from_data(json.loads(line))
            except (ValueError, RecursionError) as error:
                taken.skipped.append(
                    f"line {number}: {error if isinstance(error, ValueError) else 'nested too deeply'}"
                )


def _any_format(data: bytes, taken: Intake) -> Iterator[Trace]:
    if data[:4] == b"PK\x03\x04" or data[257:262] == b"ustar":
        raise RefusedError("archives are not taken: send what is in it, file by file", 415)
    with tempfile.TemporaryDirectory(prefix="combee-", dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        path = Path(folder) / "body.jsonl"
        path.write_bytes(data)
        result = read(path)
        yield from result.once()
        taken.twice += result.report.twice
        taken.skipped += [f"line {each.line or 1}: {each.reason}" for each in result.report.skipped[:20]]


def _spans(records: Iterable[Mapping[str, Any]], redactor: Redactor) -> Intake:
    """Keep spans of models and agents, and the root of a trace, which says how it ended."""
    taken = Intake()

    def redacted(value: object) -> object:
        if isinstance(value, str):
            result = redactor(value)
            for kind, count in result.counts.items():
                taken.redacted[kind] = taken.redacted.get(kind, 0) + count
            return result.text
        if isinstance(value, dict):
            return {key: redacted(inner) for key, inner in value.items()}
        return [redacted(inner) for inner in value] if isinstance(value, list) else value

    for record in records:
        trace, span, parent = (str(record[key]) for key in ("traceId", "spanId", "parentSpanId"))
        if not (_TRACE_ID.fullmatch(trace) and _SPAN_ID.fullmatch(span)):
            taken.skipped.append("a span without hexadecimal traceId and spanId")
            continue
        names = [*record["attributes"], *(event["name"] for event in record["events"])]
        names += [key for event in record["events"] for key in event["attributes"]]
        if parent and not any(name.startswith(_GENERATIVE) for name in names):
            continue
        ids = ("traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano")
        kept = {key: value if key in ids else redacted(value) for key, value in record.items()}
        taken.spans.append((trace, span, not parent, json.dumps(kept, ensure_ascii=True)))
    return taken


_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SPAN_ID = re.compile(r"[0-9a-f]{16}")


def _from_json(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the spans of OTLP's JSON: ids are hexadecimal there, numbers of 64 bits are texts."""
    try:
        request = json.loads(data)
    except ValueError as error:
        raise RefusedError(f"it is not JSON: {error}") from error
    if not isinstance(request, dict) or not isinstance(request.get("resourceSpans", []), list):
        raise RefusedError("it has no resourceSpans")
    for resource in objects(request.get("resourceSpans")):
        for scope in objects(resource.get("scopeSpans")):
            for span in objects(scope.get("spans")):
                status = table(span.get("status"))
                events = [{"name": name, "attributes": values} for name, values in span_events(span.get("events"))]
                yield {
                    **{key: text(span.get(key)).lower() for key in ("traceId", "spanId", "parentSpanId")},
                    **{key: text(span.get(key)) for key in ("name", "startTimeUnixNano", "endTimeUnixNano")},
                    "attributes": attributes_of(span.get("attributes")),
                    "events": events,
                    "status": {"code": text(status.get("code")), "message": text(status.get("message"))},
                }


def _from_protobuf(data: bytes, depth: int) -> Iterator[dict[str, Any]]:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    try:
        request = ExportTraceServiceRequest.FromString(data)  # the parser itself stops at 100 levels
    except DecodeError as error:
        raise RefusedError(f"it is no OTLP request: {error}") from error
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield {
                    "traceId": span.trace_id.hex(),
                    "spanId": span.span_id.hex(),
                    "parentSpanId": span.parent_span_id.hex(),
                    "name": span.name,
                    "startTimeUnixNano": str(span.start_time_unix_nano),
                    "endTimeUnixNano": str(span.end_time_unix_nano),
                    "attributes": _values(span.attributes, depth),
                    "events": [
                        {
                            "name": each.name,
                            "attributes": {one.key: _value(one.value, depth) for one in each.attributes},
                        }
                        for each in span.events
                    ],
                    "status": {"code": str(span.status.code), "message": span.status.message},
                }


def _values(attributes: Iterable[Any], depth: int) -> dict[str, object]:
    return {each.key: _value(each.value, depth) for each in attributes}


def _value(value: Any, depth: int) -> object:
    """Return what a protobuf AnyValue holds."""
    if depth < 0:
        raise RefusedError("a value is nested too deep")
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each, depth - 1) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _values(value.kvlist_value.values, depth - 1)
    if kind == "bytes_value":
        return f"[{len(value.bytes_value)} bytes]"
    return None if kind is None else getattr(value, kind)


def joined_spans(tenant: str, records: Iterable[str]) -> Body:
    """Return the redacted spans of one trace as a body of which one run is read."""
    return Body("runs", "".join(f"{record}\n" for record in records).encode(), tenant)
