"""OpenTelemetry traces of requests: from the request through the commit to the board, across workers.

Disabled, with OpenTelemetry not even imported, unless the environment names an endpoint
(`OTEL_EXPORTER_OTLP_ENDPOINT`).
"""

import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

Headers = list[tuple[bytes, bytes]]
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_CONTEXT_HEADERS = (b"traceparent", b"tracestate")

_tracer: Any = None  # None: tracing is disabled


def begin(environment: Mapping[str, str] = os.environ) -> bool:
    """Start exporting traces if OpenTelemetry's environment variables configure it. Returns whether it does."""
    disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or environment.get("OTEL_TRACES_EXPORTER") == "none" or not any(map(environment.get, _ENDPOINTS)):
        return False
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        where = next(name for name in _ENDPOINTS if environment.get(name))
        raise ValueError(f"{where} is set: traces need pip install 'steadyrank[otel]' ({error})") from error
    name = environment.get("OTEL_SERVICE_NAME", "steadyrank")
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))  # flushed and shut down at exit
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    set_provider(provider)
    return True


def set_provider(provider: Any) -> None:
    """Set the provider of the tracer; None disables tracing."""
    global _tracer
    _tracer = None if provider is None else provider.get_tracer("steadyrank")


def current() -> Any:
    """Return the context of the request being handled; None if tracing is disabled or the request is not sampled."""
    if _tracer is None:
        return None
    from opentelemetry import context, trace

    return context.get_current() if trace.get_current_span().is_recording() else None


def note(name: str, of: Any, start: int, **attributes: int) -> None:
    """Record a span from `start` (nanoseconds since 1970) until now; `of`: the request's context, from `current`."""
    span = _tracer.start_span(name, context=of, start_time=start, attributes=attributes)
    span.end(time.time_ns())


def with_trace_context(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    """The headers for forwarding a request to another worker, with the trace context of this one added."""
    if _tracer is None:
        return headers
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    kept = [header for header in headers if not carrier or header[0] not in _CONTEXT_HEADERS]
    return kept + [(name.encode(), value.encode()) for name, value in carrier.items()]


class Traced:
    """ASGI middleware that makes each request a span: the root of a trace, or a child of the sender's span."""

    def __init__(self, app: Any) -> None:
        self._app, self.router = app, app.router

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Handle a request, or the lifespan of the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.pop("extensions", None)  # direct sends would bypass `send`, and the status would be missed
        with _span(scope) as span:
            await self._app(scope, receive, _recording_status(span, send))
            route = getattr(scope.get("endpoint"), "name", None)  # set once the route was matched
            if route is not None:
                span.update_name(route)
                span.set_attribute("http.route", route.partition(" ")[2])


@contextlib.contextmanager
def _span(scope: Mapping[str, Any]) -> Iterator[Any]:
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _CONTEXT_HEADERS}
    given = TraceContextTextMapPropagator().extract(carrier)
    attributes = {"http.request.method": scope["method"]}
    with _tracer.start_as_current_span(scope["method"], given, kind=SpanKind.SERVER, attributes=attributes) as span:
        yield span


def _recording_status(span: Any, send: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            span.set_attribute("http.response.status_code", message["status"])
        await send(message)

    return sending


def traced(app: Any) -> Any:
    """Wrap an application in `Traced`; returns it unchanged if tracing is disabled."""
    return app if _tracer is None else Traced(app)
