"""Before there is a key: this machine is served, and no web page, other program's page or proxy on it."""

import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

import browser
from service_tools import ITEMS, Server
from steadyrank.service.http.auth import make_key
from steadyrank.service.storage import open_store


@pytest.fixture
def server(tmp_path):
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    server.client().put_board("b", items=ITEMS, length=4)
    return server


def code(server, method="GET", path="/v1/boards/b/state", body=None, **headers):
    """What the server answers; names of headers with _ for -."""
    request = urllib.request.Request(f"{server.address}{path}", body and json.dumps(body).encode(), method=method)
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return refusal.code


LABEL = {"start": 1, "end": 1, "label": "fraud"}


def test_pages_and_proxies_are_refused_and_the_token_lets_a_browser_in(server):
    client = server.client()
    client.rank("b")
    assert code(server) == 200
    token, own = server.token, server.address
    assert token
    assert len(token) == 32
    for headers in (
        {"origin": "http://127.0.0.1:1"}, {"origin": "https://evil.example"}, {"origin": "null"},
        {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site", "origin": own},
        {"x_forwarded_for": "10.0.0.9"}, {"forwarded": "for=10.0.0.9"}, {"x_real_ip": "10.0.0.9"}, {"via": "1.1 p"},
    ):  # fmt: skip
        for extra in ({}, {"authorization": f"Bearer {token}"}):
            assert code(server, **headers, **extra) == 403, headers
            post = {"content_type": "application/json"}
            assert code(server, "POST", "/v1/boards/b/labels", LABEL, **headers, **extra, **post) == 403
    for headers in ({"sec_fetch_site": "same-origin"}, {"origin": own}, {"user_agent": "Mozilla/5.0"}):
        assert code(server, **headers) == 401
        assert code(server, **headers, authorization="Bearer wrong") == 401
        assert code(server, **headers, authorization=f"Bearer {token}") == 200
    for kind in ("text/plain", "text/plain;charset=UTF-8", "multipart/form-data; boundary=x", "TEXT/PLAIN"):
        assert code(server, "POST", "/v1/boards/b/labels", LABEL, content_type=kind) == 415
    shown = client.rank("b")  # what is public stays so, from any page
    answer = {"impression": shown.impression, "clicked": None}
    beacon = {
        "content_type": "text/plain;charset=UTF-8",
        "origin": "https://shop.example",
        "sec_fetch_site": "cross-site",
    }
    assert code(server, "POST", "/v1/boards/b/feedback", answer, **beacon) == 200
    assert client.labels("b") == []
    assert client.label("b", 1, 1, "fraud") == 1
    server.kill()
    server.start()
    server.wait()
    assert server.token == token  # a page that is open goes on
    with contextlib.closing(open_store(server.url)) as store:
        store.add_key(make_key(["admin"], None, 1.0)[1])
    end = time.monotonic() + 120
    while code(server) != 401:  # keys are read every second
        assert time.monotonic() < end
    assert code(server, authorization=f"Bearer {token}", origin=own) == 401  # it opens nothing any more
    assert server.stop() == 0


PAGE = """<!doctype html><title>waiting</title><script>
const base = new URLSearchParams(location.search).get("at");
const label = JSON.stringify({start: 1, end: 1, label: "fraud"});
const board = `${base}/v1/boards/b`;
const tries = [
  fetch(`${board}/labels`, {method: "POST", mode: "no-cors", headers: {"content-type": "text/plain"}, body: label}),
  fetch(`${board}/labels`, {method: "POST", mode: "no-cors",
    headers: {"content-type": "application/x-www-form-urlencoded"}, body: label}),
  fetch(`${board}/state`, {mode: "no-cors"}), fetch(`${board}/export`, {mode: "no-cors"}),
  fetch(`${board}/items/item%200`, {method: "DELETE"}),
];
Promise.allSettled(tries).then(() => document.title = "tried");
</script>"""


@browser.needed
def test_a_page_on_another_port_of_this_machine_can_do_nothing(server):
    """A real browser on a page of another program: its requests reach the server, and none has an effect."""
    client = server.client()
    client.rank("b")
    with socket.create_server(("127.0.0.1", 0)) as other:
        said = (
            f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(PAGE)}\r\nconnection: close\r\n\r\n"
        )

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = other.accept()
                    with connection:
                        connection.recv(65_536)
                        connection.sendall((said + PAGE).encode())

        threading.Thread(target=serve, daemon=True).start()
        address = f"http://127.0.0.1:{other.getsockname()[1]}/?at={server.address}"
        with browser.opened(address, 800, offline=False) as (page, _):
            page.wait_for_function("document.title === 'tried'")
        other.shutdown(socket.SHUT_RDWR)
    assert client.labels("b") == []
    assert client.board("b")["items"] == len(ITEMS)
    with browser.opened(f"{server.address}/boards/b", 800, offline=False) as (page, _):
        page.locator("#login").wait_for()
        assert "token" in page.locator("#reason").text_content()
        page.locator("#key").fill(server.token)
        page.keyboard.press("Enter")
        page.locator("#list-rows tr").first.wait_for()
