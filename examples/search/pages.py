"""A page that searches Debian's packages, re-ranked by a collection. Needs only steadyrank and the standard library.

The lines for re-ranking end in `+ steadyrank`, here and in page.html; without them the page shows the engine's
results in its order. `run.py` starts everything.
"""

import html
import http.cookies
import http.server
import pathlib
import urllib.parse
from secrets import token_hex

from packages import Engine

from steadyrank.client import Client  # + steadyrank
from steadyrank.search import re_rank  # + steadyrank

PLACES = 8
HERE = pathlib.Path(__file__).parent
PAGE = (HERE / "page.html").read_text()
PACKAGE = '<!doctype html><title>NAME</title><link rel="icon" href="data:,"><h1>NAME</h1><p>ABOUT</p>'
SCRIPTS = {}
api = Client("http://127.0.0.1:8080")  # + steadyrank
SCRIPTS["/beacon.js"] = HERE.parents[1] / "clients" / "js" / "src" / "beacon.js"  # + steadyrank


class Handler(http.server.BaseHTTPRequestHandler):
    """`/?q=editor` shows search results, `/package?name=NAME` is where their links lead."""

    protocol_version = "HTTP/1.1"
    engine: Engine

    def do_GET(self):
        """Answer a request."""
        path, _, rest = self.path.partition("?")
        asked = dict(urllib.parse.parse_qsl(rest))
        package = self.engine.packages.get(asked.get("name", ""))
        if path == "/":
            who = self.visitor()
            cookie = f"visitor={who}; Path=/; SameSite=Lax"
            self.send(200, self.page(asked.get("q", ""), who), cookie=cookie)
        elif path == "/package" and package is not None:
            text = PACKAGE.replace("ABOUT", html.escape(package.summary))
            self.send(200, text.replace("NAME", html.escape(package.name)))
        elif path in SCRIPTS:
            self.send(200, SCRIPTS[path].read_text(), "text/javascript")
        else:
            self.send(404, "There is no such page.")

    def page(self, query, visitor):
        """A page of search results for a visitor."""
        response = self.engine.search(query)
        page = PAGE
        found = re_rank(api, "packages", query, response, length=PLACES, client=visitor)  # + steadyrank
        api.close()  # + steadyrank
        response, page = found.response, page.replace("IMPRESSION", found.shown.impression)  # + steadyrank
        names = [hit["_id"] for hit in response["hits"]["hits"][:PLACES]]
        rows = "\n".join(self.row(name) for name in names)
        return page.replace("QUERY", html.escape(query)).replace("LIST", rows)

    def row(self, name):
        """One search result."""
        link, summary = urllib.parse.urlencode({"name": name}), html.escape(self.engine.packages[name].summary)
        return f'<li><a href="/package?{link}">{html.escape(name)}</a> <small>{summary}</small></li>'

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


def serve(engine, port=8000, handler=Handler):
    """A server of the page, not started yet."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), type("Site", (handler,), {"engine": engine}))
