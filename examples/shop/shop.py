"""A small web shop whose own ranker shows the most clicked products first. Uses only the standard library.

steadyrank runs beside it, in shadow: it learns of every list and every sale, and is never asked for a list. The lines
for that end in `+ steadyrank`, here and in page.html; without them the shop shows the same lists. `run.py`
starts everything.
"""

import collections
import html
import http.cookies
import http.server
import itertools
import pathlib
import sys
import urllib.parse
from secrets import token_hex

from steadyrank.client import Client, Refused  # + steadyrank

KINDS = {"mug": 9, "lamp": 45, "chair": 120, "clock": 30, "basket": 18}  # prices, in euros
LOOKS = ("red", "blue", "oak", "brass", "tiny", "striped", "folding", "old", "glass", "plain")
PRODUCTS = [f"{look} {kind}" for look, kind in itertools.product(LOOKS, KINDS)]
PLACES = 5
CAMPAIGN, ITS_PLACE = "plain basket", 4  # places count from 1
MOST = 2  # most products of a brand in a list; the first word of a name is its brand
HERE = pathlib.Path(__file__).parent
PAGE = (HERE / "page.html").read_text()
PRODUCT = (
    '<!doctype html><title>NAME</title><link rel="icon" href="data:,"><h1>NAME</h1>'
    '<form method="post" action="/buy?QUERY"><button>Buy for PRICE €</button></form><a href="/">Back</a>'
)
SCRIPTS = {}
api = Client("http://127.0.0.1:8080", timeout=0.5, tries=1)  # + steadyrank
SCRIPTS["/beacon.js"] = HERE.parents[1] / "clients" / "js" / "src" / "beacon.js"  # + steadyrank


def price(product):
    """The price of a product."""
    return KINDS[product.split()[1]]


def by_rules(order):
    """The list of products in this order, within the shop's rules: the campaign's place, and the limit per brand."""
    pinned = [CAMPAIGN] if CAMPAIGN in order else []
    taken, brands = [], collections.Counter(product.split()[0] for product in pinned)
    for product in order:
        brand = product.split()[0]
        if product not in pinned and brands[brand] < MOST and len(taken) + len(pinned) < PLACES:
            brands[brand] += 1
            taken.append(product)
    return [*taken[: ITS_PLACE - 1], *pinned, *taken[ITS_PLACE - 1 :]]


class Shop:
    """Fifty products, their clicks, and their sales."""

    def __init__(self, clicks=()):
        self.clicks, self.sold = collections.Counter(dict(clicks)), collections.Counter()
        self.shown = {}  # + steadyrank

    def found(self, query):
        """Products whose names contain the query."""
        return [product for product in PRODUCTS if query.lower() in product]

    def list_for(self, query):
        """The most clicked ones first, within the rules."""
        return by_rules(sorted(self.found(query), key=lambda product: (-self.clicks[product], product)))

    def page(self, query, visitor):
        """A page with a list for a visitor."""
        items = self.list_for(query)
        page = PAGE.replace("QUERY", html.escape(query)).replace("LIST", "\n".join(map(row, items)))
        impression = self._shadow(items, self.found(query), visitor)  # + steadyrank
        self.shown |= {(visitor, item): impression for item in items}  # + steadyrank
        page = page.replace("IMPRESSION", impression)  # + steadyrank
        return page

    def sell(self, product, visitor):
        """Sell a product."""
        self.sold[product] += 1
        try:  # + steadyrank
            if seen := self.shown.get((visitor, product)):  # + steadyrank
                api.outcome("shop", seen, product, price(product), id=token_hex())  # + steadyrank
        except (ConnectionError, Refused):  # + steadyrank
            pass  # + steadyrank
        finally:  # + steadyrank
            api.close()  # + steadyrank

    def _shadow(self, items, some, who):  # + steadyrank
        try:  # + steadyrank
            return api.observe("shop", token_hex(), items, candidates=some, client=who).impression  # + steadyrank
        except (ConnectionError, Refused):  # + steadyrank
            return ""  # + steadyrank
        finally:  # + steadyrank
            api.close()  # + steadyrank


def row(item):
    """One product of a list."""
    return f'<li><a href="/go?{urllib.parse.urlencode({"item": item})}">{html.escape(item)}</a></li>'


class Handler(http.server.BaseHTTPRequestHandler):
    """`/?q=lamp` shows a list, `/go?item=NAME` is where its links lead, and `/buy?item=NAME` sells it."""

    protocol_version = "HTTP/1.1"
    shop: Shop

    def do_GET(self):
        """Answer a request."""
        path, _, rest = self.path.partition("?")
        asked = dict(urllib.parse.parse_qsl(rest))
        if path == "/":
            who = self.visitor()
            self.send(200, self.shop.page(asked.get("q", ""), who), cookie=f"visitor={who}; Path=/; SameSite=Lax")
        elif path == "/go" and asked.get("item") in PRODUCTS:
            product = asked["item"]
            self.shop.clicks[product] += 1
            page = PRODUCT.replace("NAME", product).replace("PRICE", str(price(product)))
            self.send(200, page.replace("QUERY", urllib.parse.urlencode({"item": product})))
        elif path in SCRIPTS:
            self.send(200, SCRIPTS[path].read_text(), "text/javascript")
        else:
            self.send(404, "There is no such page.")

    def do_POST(self):
        """Sell a product, and show the shop again."""
        path, _, rest = self.path.partition("?")
        product = dict(urllib.parse.parse_qsl(rest)).get("item")
        if path == "/buy" and product in PRODUCTS:
            self.shop.sell(product, self.visitor())
            self.send(200, '<!doctype html><title>Sold</title><h1>Thank you.</h1><a href="/">Back</a>')
        else:
            self.send(404, "There is no such page.")

    def visitor(self):
        """The visitor, identified by a cookie, which a new visitor gets."""
        cookie = http.cookies.SimpleCookie(self.headers.get("cookie", "")).get("visitor")
        return cookie.value if cookie else token_hex()

    def send(self, code, text, kind="text/html", cookie=None):
        """Send an answer."""
        content = text.encode()
        self.send_response(code)
        self.send_header("content-type", f"{kind}; charset=utf-8")
        self.send_header("content-length", str(len(content)))
        if cookie:
            self.send_header("set-cookie", cookie)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format, *arguments):
        """Do not log single requests."""


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Ignore visitors who left before their answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def serve(shop, port=8000, handler=Handler):
    """A server of a shop, not started yet."""
    return _Server(("127.0.0.1", port), type("ShopHandler", (handler,), {"shop": shop}))
