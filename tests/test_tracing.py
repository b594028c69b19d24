"""Traces: one from the request over the commit to the board, also where another worker owns the board."""

import contextlib
import http.server
import subprocess
import sys
import threading

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from service_tools import ITEMS, Server, serving, until, wait_until
from steadyrank.service import tracing
from steadyrank.service.http.app import Service

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
PARENT = f"00-{TRACE:032x}-{SPAN:016x}-01"


@pytest.fixture
def spans():
    """The spans of this process, as they end."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.set_provider(provider)
    yield exporter.get_finished_spans
    tracing.set_provider(None)
    provider.shutdown()


def by_name(spans, *, trace):
    return {span.name: span for span in spans() if span.context.trace_id == trace}


async def test_an_answer_is_one_trace_from_the_request_to_the_fold(tmp_path, spans):
    async with serving(f"sqlite:///{tmp_path}/store.db") as local:
        await local.board(settle=0)
        transport = httpx.ASGITransport(app=tracing.traced(Service(local.worker).app()))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as traced:
            shown = (await traced.post("/v1/boards/b/rank", json={})).json()
            body = {"impression": shown["impression"], "clicked": shown["items"][0]}
            answer = await traced.post("/v1/boards/b/feedback", json=body, headers={"traceparent": PARENT})
            assert answer.status_code == 200
            missing = await traced.get("/v1/boards/nothing")
            assert missing.status_code == 404
        await until(lambda: len([span for span in spans() if span.name == "apply"]) == 2)
        mine = by_name(spans, trace=TRACE)
        request = mine["POST /v1/boards/{board}/feedback"]
        assert mine.keys() == {request.name, "commit", "apply"}
        assert request.parent.span_id == SPAN
        assert {mine[part].parent.span_id for part in ("commit", "apply")} == {request.context.span_id}
        times = [request.start_time, mine["commit"].start_time, mine["commit"].end_time, mine["apply"].start_time]
        assert [*times, mine["apply"].end_time, request.end_time] == sorted(
            [*times, mine["apply"].end_time, request.end_time]
        )
        assert request.attributes["http.response.status_code"] == 200
        assert request.attributes["http.route"] == "/v1/boards/{board}/feedback"
        others = [span for span in spans() if span.context.trace_id != TRACE]
        assert {span.name for span in others} == {
            "POST /v1/boards/{board}/rank", "commit", "apply", "GET /v1/boards/{board}"
        }  # fmt: skip
        assert not any("impression" in str(span.attributes) for span in spans())


async def test_without_a_place_to_send_them_there_are_no_traces(tmp_path):
    assert not tracing.begin({})
    assert not tracing.begin({"OTEL_SDK_DISABLED": "true", tracing._ENDPOINTS[0]: "x"})
    app, headers = object(), [(b"traceparent", b"x")]
    assert tracing.traced(app) is app
    assert tracing.current() is None
    assert tracing.with_trace_context(headers) is headers
    script = "import sys, steadyrank.service.http.server; print([x for x in sys.modules if 'opentelemetry' in x])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class _Collector(http.server.BaseHTTPRequestHandler):
    """Takes traces as an OpenTelemetry collector does."""

    def do_POST(self):
        content = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        for resource in content.resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args):
        """Say nothing."""


@contextlib.contextmanager
def collecting():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
    server.spans = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_trace_goes_on_at_the_worker_that_owns_the_board(database, tmp_path, monkeypatch):
    """Two workers as processes, which send their traces over OTLP: one trace, and the owner's request below ours."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        url = database.fresh()
        workers = [Server(url, tmp_path / f"log{k}").wait() for k in range(2)]
        for name in (boards := [f"b{k}" for k in range(8)]):
            workers[0].client().put_board(name, items=ITEMS, length=3, settle=0)

        def passed_on():
            """An answer that went over both workers, as its trace."""
            for name in boards:
                with httpx.Client(base_url=workers[0].address, headers={"traceparent": PARENT}) as client:
                    shown = client.post(f"/v1/boards/{name}/rank", json={})
                    if shown.status_code == 200 and "steadyrank-owner" in shown.headers:
                        body = {"impression": shown.json()["impression"], "clicked": None}
                        return client.post(f"/v1/boards/{name}/feedback", json=body).status_code == 200
            return False

        wait_until(passed_on)

        def below(parent):
            return {span.name: span for span in list(collector.spans) if span.parent_span_id == parent}

        answer = "POST /v1/boards/{board}/feedback"
        wait_until(lambda: answer in below(SPAN.to_bytes(8)))
        first = below(SPAN.to_bytes(8))[answer]
        wait_until(lambda: below(first.span_id).keys() == {answer})
        owners = below(first.span_id)[answer]
        wait_until(lambda: below(owners.span_id).keys() == {"commit", "apply"})
        assert {span.trace_id for span in (first, owners, *below(owners.span_id).values())} == {TRACE.to_bytes(16)}
        for worker in workers:
            worker.stop()
