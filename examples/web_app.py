"""A ranker inside a web application, without a framework: python examples/web_app.py, then open the address.

`make_shop` returns a WSGI application that any WSGI server can run. With `--visits 200` simulated visitors come
instead, and the program ends. For several processes or durable answers use the service, `steadyrank serve`.
"""

import argparse
import contextlib
import html
import itertools
import pathlib
import random
import re
import threading
import time
import urllib.request
from urllib.parse import parse_qs, urlencode
from wsgiref.simple_server import WSGIRequestHandler, make_server

import steadyrank as sr

OFFERS = [f"offer {k}" for k in range(1, 13)]


def make_shop(ranker: sr.Ranker):
    """A WSGI application: `/` shows a list, `/go?shown=ID&item=NAME` is where its links lead."""

    def shop(environ, start_response):
        asked = parse_qs(environ.get("QUERY_STRING", ""))
        if environ["PATH_INFO"] != "/go":
            start_response("200 OK", [("content-type", "text/html; charset=utf-8")])
            return [page(ranker.rank()).encode()]
        try:
            ranker.feedback(int(asked["shown"][0]), clicked=asked["item"][0])
        except sr.Refused as refused:  # late, repeated or not shown: no concern of the visitor
            print("refused:", refused)
        except (KeyError, ValueError):
            start_response("400 Bad Request", [("content-type", "text/plain")])
            return [b"which offer?"]
        start_response("200 OK", [("content-type", "text/plain; charset=utf-8")])
        return [asked["item"][0].encode()]

    return shop


def page(shown) -> str:
    """The list as links that identify the list they belong to."""
    links = {item: f"/go?{urlencode({'shown': shown.id, 'item': item})}" for item in shown.items}
    rows = (f'<li><a href="{html.escape(link)}">{html.escape(item)}</a></li>' for item, link in links.items())
    return f"<!doctype html><title>Offers</title><ol>{''.join(rows)}</ol>"


class Quiet(WSGIRequestHandler):
    """A request handler without a log."""

    def log_message(self, format, *arguments):
        """Log nothing."""


def visit(address: str, chance: random.Random) -> None:
    """One visitor: looks from the top, and likes low numbers."""
    with urllib.request.urlopen(address) as answer:
        text = answer.read().decode()
    for link in re.findall(r'href="([^"]+)"', text):
        number = int(link.rpartition("+")[2])
        if chance.random() < 1 / (1 + number):
            urllib.request.urlopen(address + html.unescape(link)).close()
            return


def main() -> None:
    """Serve, or run simulated visitors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--visits", type=int, default=0, help="simulated visitors; 0: serve until Ctrl-C")
    parser.add_argument("--save", type=pathlib.Path, help="keep the ranker in this file")
    options = parser.parse_args()
    seconds = itertools.count(0, 5)  # a simulated clock: visitors come every few seconds, without waiting
    clock = seconds.__next__ if options.visits else time.monotonic
    # Non-clicks are not reported: a list without an answer within a minute counts as not clicked.
    ranker = sr.Ranker(OFFERS, length=4, lifetime=60.0, clock=clock)
    port = 0 if options.visits else options.port
    with make_server("127.0.0.1", port, make_shop(ranker), handler_class=Quiet) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        print("open", address)
        if options.visits:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            chance = random.Random(0)
            for _ in range(options.visits):
                visit(address, chance)
            server.shutdown()
        else:
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()
    print("next list:", ", ".join(ranker.rank().items))
    if options.save:
        ranker.save(options.save)
        print("kept in", options.save, "and loaded:", sr.Ranker.load(options.save).rank().items)


if __name__ == "__main__":
    main()
