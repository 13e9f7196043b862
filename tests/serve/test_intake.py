"""What a worker makes of a body: nothing secret, nothing unbounded, both forms of OpenTelemetry alike."""

from __future__ import annotations

import gzip
import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from combee.redaction import Redactor, trace_from_data
from combee.serve.intake import Body, Limits, RefusedError, deepest, joined_spans, take
from tests.serve.conftest import lines, mended_run

LIMITS = Limits(1 << 20, 50)
SECRET = "sk-proj-abcdefghijklmnopqrstuvwx1234567890"  # noqa: S105  # no key of anybody's


def _take(kind: str, data: bytes, *, packed: bool = False, limits: Limits = LIMITS):  # type: ignore[no-untyped-def]
    return take(Body(kind, data, "acme", packed=packed), Redactor(), limits)  # type: ignore[arg-type]


def test_a_secret_is_gone_before_anything_is_stored_and_the_tenant_is_not_the_senders_to_say() -> None:
    trace = mended_run(1, text=f"The key is {SECRET}")
    data = lines(trace).replace(b'"steps":', b'"labels":{"tenant":"other"},"steps":', 1)
    taken = _take("runs", data)
    assert SECRET not in taken.traces[0][1]
    assert taken.redacted == {"api_key": 1}
    assert trace_from_data(json.loads(taken.traces[0][1])).labels == {"tenant": "acme"}


@pytest.mark.parametrize("packed", [False, True])
def test_what_unpacks_to_more_than_the_limit_is_refused_without_unpacking_it(packed: bool) -> None:
    bomb = gzip.compress(b" " * (200 << 20))
    assert len(bomb) < 1 << 20
    with pytest.raises(RefusedError, match="larger than") as refused:
        _take("runs", bomb, packed=packed)
    assert refused.value.status == 413


def test_json_that_is_nested_too_deeply_is_refused_and_brackets_in_texts_do_not_count() -> None:
    assert deepest(b'{"a": ["[[[[", "\\"[[", {}]}') == 3
    with pytest.raises(RefusedError, match="levels deep"):
        _take("runs", b"[" * 60 + b"]" * 60)
    request = ExportTraceServiceRequest()
    value = request.resource_spans.add().scope_spans.add().spans.add().attributes.add(key="gen_ai.x").value
    for _ in range(20):
        value = value.array_value.values.add()
    with pytest.raises(RefusedError, match="nested too deep"):
        _take("otlp", request.SerializeToString(), limits=Limits(1 << 20, 10))


def test_both_forms_of_opentelemetry_give_the_same_run_and_ids_are_hexadecimal() -> None:
    trace_id, span_id = bytes(range(16)), bytes(range(8))
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"use {SECRET}"}]}]
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=trace_id, span_id=span_id, name="chat m")
    span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    span.attributes.add(key="gen_ai.input.messages").value.string_value = json.dumps(messages)
    as_json = {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": trace_id.hex(),
                                "spanId": span_id.hex(),
                                "name": "chat m",
                                "attributes": [
                                    {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                                    {"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps(messages)}},
                                ],
                            }
                        ]
                    }
                ]
            }
        ]
    }
    one = _take("otlp", request.SerializeToString())
    two = _take("otlp_json", json.dumps(as_json).encode())
    assert (
        [span[:3] for span in one.spans] == [span[:3] for span in two.spans] == [(trace_id.hex(), span_id.hex(), True)]
    )
    runs = []
    for taken in (one, two):
        assert SECRET not in str(taken.spans)
        body = joined_spans("acme", [record for *_, record in taken.spans])
        runs.append(take(body, Redactor(), LIMITS).traces[0][0])
    assert runs[0] == runs[1]


def test_a_span_whose_id_is_not_hexadecimal_is_named() -> None:
    spans = [{"traceId": "AAECAwQFBgcICQoLDA0ODw==", "spanId": "AAECAwQFBgc=", "attributes": []}]
    taken = _take("otlp_json", json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode())
    assert taken.spans == []
    assert taken.skipped == ["a span without hexadecimal traceId and spanId"]
