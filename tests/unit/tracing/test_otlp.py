"""Spans as OTLP has them: OpenTelemetry's own library reads what is written, whatever it holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from podtune.tracing.otlp import encode_request, encode_span, read_rejection
from podtune.tracing.spans import SpanEvent, TraceSpan
from tests.unit.tracing.stub_collector import read_attributes

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ATTRIBUTES = st.dictionaries(TEXTS.filter(bool), TEXTS | st.integers(-(2**63), 2**63 - 1), max_size=5)
TIMES = st.integers(0, 4_000_000_000).map(float)
EVENTS = st.lists(st.builds(SpanEvent, TEXTS, TIMES, ATTRIBUTES), max_size=3).map(tuple)
SPANS = st.builds(
    TraceSpan,
    name=TEXTS,
    trace_id=st.binary(min_size=16, max_size=16),
    span_id=st.binary(min_size=8, max_size=8),
    parent_id=st.just(b"") | st.binary(min_size=8, max_size=8),
    start=TIMES,
    end=TIMES,
    attributes=ATTRIBUTES,
    events=EVENTS,
    error=st.none() | TEXTS,
)


@given(span=SPANS)
def test_a_span_is_read_as_it_was(span: TraceSpan) -> None:
    read = OtlpSpan.FromString(encode_span(span))
    assert (read.name, read.trace_id, read.span_id) == (span.name, span.trace_id, span.span_id)
    assert read.parent_span_id == span.parent_id
    assert (read.start_time_unix_nano, read.end_time_unix_nano) == (int(span.start * 1e9), int(span.end * 1e9))
    assert read.kind == OtlpSpan.SPAN_KIND_INTERNAL
    assert read_attributes(read.attributes) == span.attributes
    events = [SpanEvent(e.name, e.time_unix_nano / 1e9, read_attributes(e.attributes)) for e in read.events]
    assert events == list(span.events)
    failed = read.status.code == Status.STATUS_CODE_ERROR
    assert (read.status.message if failed else None) == span.error


@given(spans=st.lists(SPANS, max_size=3), resource=st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=3))
def test_a_request_holds_its_spans_under_one_resource(spans: list[TraceSpan], resource: dict[str, str]) -> None:
    request = ExportTraceServiceRequest.FromString(encode_request(map(encode_span, spans), resource, "1.0"))
    (of_resource,) = request.resource_spans
    (of_scope,) = of_resource.scope_spans
    assert read_attributes(of_resource.resource.attributes) == resource
    assert (of_scope.scope.name, of_scope.scope.version) == ("podtune", "1.0")
    assert [span.span_id for span in of_scope.spans] == [span.span_id for span in spans]


@given(rejected=st.integers(0, 2**40), message=TEXTS)
def test_what_a_collector_rejects_is_read(rejected: int, message: str) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = message
    assert read_rejection(answer.SerializeToString()) == (rejected, message)


def test_a_collector_that_took_all_rejects_nothing() -> None:
    assert read_rejection(ExportTraceServiceResponse().SerializeToString()) == (0, "")


@given(answer=st.binary(max_size=64))
def test_an_answer_that_is_none_rejects_nothing_or_is_read(answer: bytes) -> None:
    rejected, _ = read_rejection(answer)
    assert rejected >= 0


def test_a_page_of_a_proxy_is_no_rejection() -> None:
    assert read_rejection(b"<html>ok</html>") == (0, "")
