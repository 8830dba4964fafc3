"""Sends the spans of open conversations to an OpenTelemetry collector by OTLP over HTTP."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio.to_thread
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from timeloom import __version__
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.platform.secrets import SECRETS
from timeloom.runtime.read.otel_spans import Span, SpanBuilder

_KINDS: Final = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class Telemetry:
    """Converts entries to spans and passes them to the SDK, which sends them from a background thread."""

    def __init__(self, processor: BatchSpanProcessor, *, content: bool) -> None:
        self._processor = processor
        self._content = content
        self._resource = Resource.create({"service.name": "timeloom", "service.version": __version__})
        self._scope = InstrumentationScope("timeloom", __version__)

    def listener_for(self, conversation: ConversationId) -> Callable[[Entry], None]:
        """Return a listener for the entries of a conversation that was just opened."""
        spans = SpanBuilder(conversation, content=self._content)

        def on_entry(entry: Entry) -> None:
            if span := spans.add(entry):
                self._processor.on_end(self._to_readable_span(SECRETS.redact_value(span)))

        return on_entry

    def _to_readable_span(self, span: Span) -> ReadableSpan:
        trace_id = int(span.trace_id, 16)
        return ReadableSpan(
            name=span.name,
            context=_span_context(trace_id, span.span_id),
            parent=_span_context(trace_id, span.parent_id) if span.parent_id else None,
            resource=self._resource,
            attributes=span.attributes,
            kind=_KINDS[span.kind],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


@asynccontextmanager
async def open_telemetry(endpoint: str, *, content: bool) -> AsyncGenerator[Telemetry]:
    """Open the telemetry for that endpoint; waiting spans are sent when the context ends."""
    processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces"))
    try:
        yield Telemetry(processor, content=content)
    finally:
        await anyio.to_thread.run_sync(processor.shutdown)


def _span_context(trace_id: int, span_id: str) -> SpanContext:
    return SpanContext(trace_id, int(span_id, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
