"""Re-ranked search over Debian's packages, with visitors and a button for bots: python examples/search/run.py

Ctrl-C ends it; nothing is kept. `make search` does the same.
"""

import argparse
import atexit
import json
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import packages
import pages
from visitors import Crowd, Taste, visit  # noqa: F401

from steadyrank.client import Client

STAGE = (pathlib.Path(__file__).parent / "stage.html").read_text()
SERVER = "http://127.0.0.1:8080"
# the engine's order; a collection without a guard; the page's collection
NAMES = ENGINE, BELIEVING, OURS = "the engine's order", "every click believed", "steadyrank"
COLLECTIONS = {OURS: "packages", BELIEVING: "believing"}


class Told:
    """What every visitor was shown and opened; reports it to a collection that believes all of it, by `observe`."""

    def __init__(self, client, taste):
        self._client, self._taste = client, taste
        self._lists = {name: {query: names[: pages.PLACES] for query, names in taste.found.items()} for name in NAMES}

    def __call__(self, query, names, opened):
        """Record a visit: a query, the list shown, and what was opened."""
        self._lists[OURS][query] = names
        past = {"query": query, "candidates": self._taste.found[query], "clicked": opened}
        seen = self._client.observe(COLLECTIONS[BELIEVING], secrets.token_hex(8), names, **past)
        self._lists[BELIEVING][query] = list(seen.ours)

    def list_of(self, name, query):
        """The latest list of a ranker for a query; empty if nobody has asked yet."""
        return self._lists[name].get(query, [])

    def worth(self):
        """The chance that a visitor opens something, by ranker, averaged over queries by how often they are asked."""
        taste, total = self._taste, sum(self._taste.weights)

        def mean(lists):
            rows = zip(taste.queries, taste.weights, strict=True)
            return sum(weight * taste.worth(lists[query]) for query, weight in rows) / total

        return {name: mean(lists) for name, lists in self._lists.items()}


class Stage(pages.Handler):
    """The page, with columns beside it that show what goes on; the page itself is unchanged."""

    client: Client
    crowd: Crowd
    told: Told
    dashboard = ""

    def do_GET(self):
        """Answer a request; requests of the page as before."""
        path, _, rest = self.path.partition("?")
        if path != "/stage.json":
            super().do_GET()
            return
        query = dict(urllib.parse.parse_qsl(rest)).get("q", "")
        watch, taste = self.client.collection_watch(COLLECTIONS[OURS]), self.crowd.taste
        seen = {
            "lists": {name: self.told.list_of(name, query) for name in (ENGINE, BELIEVING)},
            "worth": self.told.worth(),
            "queries": taste.queries[:8],
            "paid": taste.paid,
            "attacked": self.crowd.attacked,
            "unheard": watch["guard"]["count"],
            "visits": watch["collection"]["impressions"],
            "dashboard": self.dashboard,
        }
        seen["lists"][ENGINE] = [hit["_id"] for hit in self.engine.search(query)["hits"]["hits"][: pages.PLACES]]
        self.client.close()  # this thread ends with its connection
        self.send(200, json.dumps(seen), "application/json")

    def do_POST(self):
        """Handle the button."""
        if self.path == "/bots":
            self.crowd.call_bots()
        self.send(200 if self.path == "/bots" else 404, "")

    def send(self, code, text, kind="text/html", cookie=None):
        """Send an answer; add the columns to a page with a list."""
        super().send(code, text.replace("</main>", f"{STAGE}</main>"), kind, cookie)


def start_server(folder):
    """Start `steadyrank serve` on an empty store; returns the address of its dashboard."""
    command = [sys.executable, "-m", "steadyrank.cli", "serve", "--store", f"sqlite:///{folder}/search.db"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    atexit.register(process.terminate)  # even if this is ended before the server is up
    link = re.search(r"http\S+/\?token=\S+", process.stdout.readline())
    if link is None:
        process.wait()
        raise SystemExit(f"no server at {SERVER}: is the port taken?")
    return process, link[0].replace("/?", f"/collections/{COLLECTIONS[OURS]}?")


def put_collections(client):
    """Create the page's collection, and one that believes every click."""
    settings = {"length": pages.PLACES, "settle": 0, "lifetime": 600.0, "keep_queries": True}
    client.put_collection(COLLECTIONS[OURS], **settings)
    client.put_collection(COLLECTIONS[BELIEVING], **settings, guard="Anyone", most_clicks=None)


def main():
    """Run everything, until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="of the page")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="end after so long; bots come at half time"
    )
    options = parser.parse_args()
    available = packages.read(packages.available())
    print(f"{len(available):,} packages.")
    print("Starting; code is compiled once, which takes half a minute, longer where others work.", flush=True)
    engine = packages.Engine(available)
    with tempfile.TemporaryDirectory(prefix="steadyrank-search-") as folder:
        process, link = start_server(folder)
        client, taste = Client(SERVER, timeout=120.0, tries=50), Taste(engine)
        put_collections(client)
        server, told = pages.serve(engine, options.port, Stage), Told(client, taste)
        address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        crowd = Crowd(address, SERVER, taste, told)
        handler = server.RequestHandlerClass
        handler.client, handler.crowd, handler.told, handler.dashboard = client, crowd, told, link
        print(f"Open {address}, watch for a minute, and start the bots. Ctrl-C ends it.", flush=True)
        try:
            wait(options.seconds, crowd, told)
        except KeyboardInterrupt:
            pass
        finally:
            crowd.end()
            server.shutdown()
            server.server_close()
            client.close()
            process.terminate()
            process.communicate()
            report(told.worth())


def report(worth):
    """Print the value of each ranker's lists."""
    shares = ", ".join(f"{100 * value:.0f} ({name})" for name, value in worth.items())
    print(f"Of 100 people so many would open something: {shares}", flush=True)


def wait(seconds, crowd, told):
    """Wait until the time is over, or forever."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(seconds / 4, max(end - time.monotonic(), 0.0), 3600.0))
        if seconds < float("inf"):
            report(told.worth())
            if time.monotonic() > end - 0.6 * seconds and not crowd.attacked:
                crowd.call_bots(seconds / 2)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
