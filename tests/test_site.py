"""The documentation as a site: it is built without a warning, and asks nobody else for anything."""

import functools
import http.server
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest

import browser
from shared_folder import shared_folder

ROOT = pathlib.Path(__file__).parent.parent
ASKS = re.compile(r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(?:https?:)?//", re.IGNORECASE)
LINKS = re.compile(r"<link\b[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>", re.IGNORECASE)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    with shared_folder(tmp_path_factory, "site") as folder:
        if not (folder / "built").exists():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder / "pages"]
            environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
            assert done.returncode == 0, done.stderr
            (folder / "built").touch()
    return folder / "pages"


def test_the_site_has_every_page_and_asks_nobody_else(site):
    pages = list(site.glob("*.html"))
    assert {page.stem for page in pages} >= {page.stem for page in (ROOT / "docs").glob("*.md")}
    for page in pages:
        text = page.read_text()
        assert not ASKS.search(text), page.name
        assert not LINKS.search(text), page.name
        assert "fmt: skip" not in text, page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?(?:https?:)?//", sheet.read_text()), sheet.name
    assert not list(site.glob("**/*.py"))


def test_the_api_page_has_what_docstrings_say(site):
    text = re.sub(r"<[^>]+>", "", (site / "api.html").read_text())
    assert "once per seed, and return its regret curves" in text
    assert "Answer an impression" in text
    assert "check_adversary(" in text


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *arguments):
        """Nothing."""


def search(page, words):
    """Search as a person does: open the search, wait until it has its index, and type key by key.

    The page reads the words when a key goes up: words that are put in at once may never be read.
    """
    page.locator(".md-search__input").click()
    page.locator(".md-search-result__meta", has_text="Type to start searching").wait_for(timeout=60_000)
    page.locator(".md-search__input").press_sequentially(words)
    page.locator(".md-search-result__link").first.wait_for(timeout=60_000)


@browser.needed
@pytest.mark.parametrize("dark", [False, True])
def test_pages_work_in_a_browser_without_any_other_server(site, dark):
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        with browser.opened("about:blank", 1280, dark=dark, offline=False) as (page, errors):
            asked = []
            page.on("request", lambda request: asked.append(request.url))
            for name in ("corruption",) if dark else ("index", "corruption", "api", "algorithms"):
                page.goto(f"{home}{name}.html")
                assert page.locator("h1").count() == 1
            scheme = page.locator("body").get_attribute("data-md-color-scheme")
            assert scheme == ("slate" if dark else "default")
            if not dark:
                page.goto(f"{home}index.html")
                search(page, "mean of medians")
            elsewhere = [url for url in asked if not url.startswith((home, "data:", "blob:"))]
        server.shutdown()
    assert not elsewhere
    assert not errors
