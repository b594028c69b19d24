"""The shop, with steadyrank in shadow, visitors, and a button that starts bots: python examples/shop/run.py

Ctrl-C ends it; nothing is kept. `make shop` does the same.
"""

import argparse
import atexit
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from shop import CAMPAIGN, ITS_PLACE, LOOKS, MOST, PLACES, PRODUCTS, Handler, Shop, by_rules, serve
from visitors import PAID, Crowd, past, sales, worth

from steadyrank.client import Client

STAGE = (pathlib.Path(__file__).parent / "stage.html").read_text()
SERVER = "http://127.0.0.1:8080"
BRANDS = {look: [product for product in PRODUCTS if product.startswith(look)] for look in LOOKS}
BOARD = {  # the shop's rules, and the goal of sales
    "items": PRODUCTS,
    "length": PLACES,
    "goal": "value",
    "rules": {
        "pins": {CAMPAIGN: ITS_PLACE},
        "groups": {look: {"items": items, "most": MOST} for look, items in BRANDS.items()},
        "when_impossible": "best",  # in case a search does not find the campaign
    },
}


class Stage(Handler):
    """The shop's pages with a column beside them that shows what goes on; the shop itself is unchanged."""

    client: Client
    crowd: Crowd
    dashboard = ""

    def do_GET(self):
        """Answer a request; requests of the shop as before."""
        path, _, rest = self.path.partition("?")
        if path != "/stage.json":
            super().do_GET()
            return
        query, watch = dict(urllib.parse.parse_qsl(rest)).get("q", ""), self.client.watch("shop")
        theirs, ours = self.shop.list_for(query), self.ours_for(query, watch)
        self.client.close()  # this thread ends with its connection
        view = watch["view"]
        seen = {
            "theirs": theirs,
            "ours": ours,
            "both": view["current"] != view["trusted"],
            "unheard": watch["guard"]["count"] if watch["guard"] else 0,
            "theirs_worth": worth(theirs),
            "ours_worth": worth(ours),
            "theirs_sales": sales(theirs),
            "ours_sales": sales(ours),
            "attacked": self.crowd.attacked,
            "paid": PAID,
            "dashboard": self.dashboard,
        }
        self.send(200, json.dumps(seen), "application/json")

    def ours_for(self, query, watch):
        """What steadyrank would show: its common list, or for a search the found items that it rates best."""
        found = self.shop.found(query)
        first = [one["item"] for one in watch["list"] if one["item"] in found]
        rates = {one["item"]: one["estimate"] for one in self.client.state("shop")["items"]}
        return by_rules([*first, *sorted(set(found) - set(first), key=lambda product: -rates[product])])

    def do_POST(self):
        """Handle the button."""
        if self.path != "/bots":
            super().do_POST()
            return
        self.crowd.call_bots()
        self.send(200, "")

    def send(self, code, text, kind="text/html", cookie=None):
        """Send an answer; add the column to a page with a list."""
        super().send(code, text.replace("</main>", f"{STAGE}</main>"), kind, cookie)


def start_server(folder):
    """Start `steadyrank serve` on an empty store; returns the address of its dashboard."""
    command = [sys.executable, "-m", "steadyrank.cli", "serve", "--store", f"sqlite:///{folder}/shop.db"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    atexit.register(process.terminate)  # even if this is ended before the server is up
    said = process.stdout.readline()
    link = re.search(r"http\S+/\?token=\S+", said)
    if link is None:
        process.wait()
        raise SystemExit(f"no server at {SERVER}: is the port taken?")
    return process, link[0].replace("/?", "/boards/shop?")


def main():
    """Run everything, until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="of the shop")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="end after so long; bots come at half time"
    )
    options = parser.parse_args()
    print("Starting; the learner is compiled once, which takes half a minute, longer where others work.", flush=True)
    with tempfile.TemporaryDirectory(prefix="steadyrank-shop-") as folder:
        process, link = start_server(folder)
        client = Client(SERVER, timeout=120.0, tries=50)
        client.put_board("shop", lifetime=5.0, **BOARD)
        rows = list(past())  # both start from the same month of clicks
        client.history("shop", rows)
        shop = Shop(collections.Counter(row["clicked"] for row in rows if row["clicked"]))
        server = serve(shop, options.port, Stage)
        address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        crowd = Crowd(address, SERVER)
        server.RequestHandlerClass.client, server.RequestHandlerClass.crowd = client, crowd
        server.RequestHandlerClass.dashboard = link
        print(f"Open {address}, watch for a minute, and start the bots. Ctrl-C ends it.", flush=True)
        try:
            wait(options.seconds, crowd)
        except KeyboardInterrupt:
            pass
        finally:
            crowd.end()
            ours = [one["item"] for one in client.watch("shop")["list"]]
            server.shutdown()
            server.server_close()
            client.close()
            process.terminate()
            process.communicate()
            report(shop.list_for(""), ours)


def report(theirs, ours):
    """Print what both rankers would show by now."""
    print(f"Most popular by now: {', '.join(theirs)}\nsteadyrank: {', '.join(ours)}")
    print(f"Of 100 people {100 * worth(theirs):.0f} would click, {100 * worth(ours):.0f} with steadyrank")
    print(f"They would spend {100 * sales(theirs):.0f} €, {100 * sales(ours):.0f} € with steadyrank")


def wait(seconds, crowd):
    """Wait until the time is over, or forever."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(seconds / 2, end - time.monotonic(), 3600.0))
        if seconds < float("inf") and not crowd.attacked:
            crowd.call_bots(seconds / 2)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
