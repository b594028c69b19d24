"""The browser beacon: its package, and in a real Chromium on a page of another origin against a real server."""

import contextlib
import http.server
import json
import pathlib
import shutil
import subprocess
import threading

import pytest

import browser
from service_tools import Server, wait_until

ROOT = pathlib.Path(__file__).parents[1] / "clients" / "js"
ITEMS = ["a", "b", "c", "d"]
npm = pytest.mark.skipif(shutil.which("npm") is None, reason="no npm on this machine; on Debian: apt-get install npm")
PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<style>body {{ margin: 0 }} li {{ height: 400px; list-style: none }}</style>
<ol id="list">{places}</ol>
<script type="module">
import * as beacon from "/beacon.js";
window.beacon = beacon;
window.agreed = {agreed};
window.list = beacon.watch(document.querySelector("#list"), {{
  url: "{server}", board: "b", impression: "{impression}", dwell: 100, consent: () => window.agreed,
}});
window.ready = true;
</script>"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package as it would be installed, made from a copy: nothing is left in the tree."""
    folder = tmp_path_factory.mktemp("js")
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns("dist", "node_modules"))
    options = {"check": True, "capture_output": True, "text": True}
    packed = subprocess.run(["npm", "pack", "--json", "--offline"], cwd=folder / "source", **options).stdout
    tarball = folder / "source" / json.loads(packed[packed.index("[") :])[0]["filename"]
    (folder / "shop").mkdir()
    (folder / "shop" / "package.json").write_text('{"name": "shop", "private": true, "type": "module"}')
    install = ["npm", "install", "--offline", "--no-audit", "--no-fund", str(tarball)]
    subprocess.run(install, cwd=folder / "shop", **options)
    return folder / "shop"


@npm
def test_the_package_installs_from_its_tarball_and_is_small(package):
    installed = package / "node_modules" / "steadyrank-beacon"
    files = sorted(str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file())
    assert files == ["README.md", "dist/beacon.d.ts", "dist/beacon.js", "package.json"]
    assert (installed / "dist" / "beacon.js").stat().st_size < 3_000
    about = json.loads((installed / "package.json").read_text())
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & about.keys()
    code = 'import * as b from "steadyrank-beacon"; console.log(Object.keys(b).sort().join())'
    ran = subprocess.run(
        ["node", "--input-type=module", "-e", code], cwd=package, check=True, capture_output=True, text=True
    )
    names = ran.stdout.strip().split(",")
    assert names == ["forget", "resume", "watch"]  # and importing it where there is no page does no harm
    types = (installed / "dist" / "beacon.d.ts").read_text()
    for name in names:
        assert f"export function {name}(" in types


class Shop:
    """A page of another origin with a list that its own ranker made, in shadow."""

    def __init__(self, tmp_path, package):
        self.server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
        self.client = self.server.client()
        self.client.put_board("b", items=ITEMS, length=4, settle=0, count_unanswered=False)
        self.script = (package / "node_modules" / "steadyrank-beacon" / "dist" / "beacon.js").read_bytes()
        self.pages, self.agreed = {}, "true"
        shop = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                kind = "text/javascript" if self.path == "/beacon.js" else "text/html"
                body = shop.script if self.path == "/beacon.js" else shop.pages.get(self.path, "an item").encode()
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://localhost:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def page(self, name):
        """The address of a page with a list of all items."""
        impression = self.client.observe("b", name, ITEMS).impression
        places = "".join(f'<li><a href="/item-{item}">{item}</a> <b>more</b></li>' for item in ITEMS)
        about = {"server": self.server.address, "impression": impression, "agreed": self.agreed, "places": places}
        self.pages[f"/{name}"] = PAGE.format(**about)
        return f"{self.address}/{name}"

    def counts(self):
        return {item["item"]: (item["looks"], item["clicks"]) for item in self.client.state("b")["items"]}

    def answers(self):
        return self.client.board("b")["answers"]

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def shop(tmp_path, package):
    with contextlib.closing(Shop(tmp_path, package)) as shop:
        yield shop


IN_VIEW = """(places) => new Promise((done) => {
  const seen = ([entry]) => entry.isIntersecting && setTimeout(done, 400);
  new IntersectionObserver(seen, { threshold: 0.5 }).observe(document.querySelectorAll("li")[places - 1]);
})"""


@contextlib.contextmanager
def visited(address, returning=False):
    with browser.opened(address, 800, offline=False, returning=returning) as (page, errors):
        page.wait_for_function("window.ready")
        yield page, errors


def seen(page, places):
    """Scroll so that these places are in view, and stay there for longer than a look takes, by the page's time."""
    page.evaluate(f"scrollTo(0, {400 * (places - 2)})")
    page.evaluate(IN_VIEW, places)


@browser.needed
@npm
def test_a_click_is_reported_before_the_page_is_left_and_once(shop):
    with visited(shop.page("one")) as (page, errors):
        seen(page, 2)
        page.locator("b").first.click()  # not on a link: no click on the item
        page.get_by_text("b", exact=True).click()
        page.wait_for_url("**/item-b")
        wait_until(lambda: shop.answers() == 1)
        assert shop.counts() == {"a": (1, 0), "b": (1, 1), "c": (0, 0), "d": (0, 0)}
        page.go_back()  # a new page with the same impression: another answer to it is refused
        page.wait_for_function("window.ready")
        page.get_by_text("a", exact=True).click()
        page.wait_for_url("**/item-a")
        page.wait_for_timeout(300)
        assert shop.answers() == 1
        assert shop.counts()["a"] == (1, 0)
        assert errors == []


@browser.needed_whole
@npm
def test_a_page_that_comes_back_as_it_was_does_not_answer_again(shop):
    with visited(shop.page("one"), returning=True) as (page, errors):
        page.evaluate("addEventListener('pageshow', (event) => { window.returned = event.persisted; })")
        seen(page, 2)
        page.goto(f"{shop.address}/elsewhere")
        wait_until(lambda: shop.answers() == 1)
        page.go_back(wait_until="commit")
        page.wait_for_function("window.returned")  # from the back-forward cache
        sent = []
        page.on("request", lambda request: sent.append(request.url))
        assert page.evaluate("window.list.ended")
        page.get_by_text("a", exact=True).click()
        page.wait_for_url("**/item-a")
        page.wait_for_timeout(300)
        assert [url for url in sent if url.startswith(shop.server.address)] == []
        assert shop.counts() == {"a": (1, 0), "b": (1, 0), "c": (0, 0), "d": (0, 0)}
        assert errors == []


@browser.needed
@npm
def test_what_was_in_view_is_reported_without_a_click(shop):
    with visited(shop.page("one")) as (page, errors):
        seen(page, 3)
        page.goto(f"{shop.address}/elsewhere")
        wait_until(lambda: shop.answers() == 1)
        assert shop.counts() == {"a": (1, 0), "b": (1, 0), "c": (1, 0), "d": (0, 0)}
        assert errors == []


@browser.needed
@npm
def test_a_list_that_leaves_while_the_page_stays_and_is_watched_twice(shop):
    with visited(shop.page("one")) as (page, errors):
        seen(page, 2)
        same = "beacon.watch(document.querySelector('#list'), {url: '', board: 'b', impression: ID}) === window.list"
        source = page.evaluate("document.documentElement.innerHTML")
        impression = source.partition('impression: "')[2].partition('"')[0]
        assert page.evaluate(same.replace("ID", json.dumps(impression)))
        assert page.evaluate("window.list.ended") is False
        page.evaluate("window.list.end(); window.list.end()")
        wait_until(lambda: shop.answers() == 1)
        wait_until(lambda: page.evaluate("sessionStorage.length") == 0)
        assert page.evaluate("window.list.ended")
        assert shop.counts() == {"a": (1, 0), "b": (1, 0), "c": (0, 0), "d": (0, 0)}
        assert errors == []


@browser.needed
@npm
def test_fallbacks_are_not_watched_and_nothing_is_sent_of_them(shop):
    with visited(shop.page("one")) as (page, errors):
        sent = []
        page.on("request", lambda request: sent.append(request.url))
        watch = "beacon.watch(document.querySelector('#list'), {url: URL, board: 'b', impression: ''})"
        watch = watch.replace("URL", json.dumps(shop.server.address))
        page.evaluate(f"window.fallbacks = [{watch}, {watch}]")
        assert page.evaluate("fallbacks.map((one) => one.ended)") == [True, True]
        page.evaluate("fallbacks.forEach((one) => one.end())")
        page.wait_for_timeout(300)
        assert [url for url in sent if url.startswith(shop.server.address)] == []
        assert page.evaluate("sessionStorage.length") == 0
        page.evaluate("window.list.end()")  # the list that the server gave is watched all the same
        wait_until(lambda: shop.answers() == 1)
        assert errors == []


@browser.needed
@npm
def test_without_consent_nothing_is_noted_sent_or_kept(shop):
    shop.agreed = "false"
    with visited(shop.page("one")) as (page, _):
        sent = []
        page.on("request", lambda request: sent.append(request.url))
        seen(page, 3)
        page.evaluate("window.list.end()")
        page.evaluate("window.agreed = true")  # from here on: what was seen before was not noted
        seen(page, 2)
        page.evaluate("window.agreed = false")
        page.goto(f"{shop.address}/elsewhere")
        page.wait_for_timeout(300)
        assert [url for url in sent if url.startswith(shop.server.address)] == []
        assert page.evaluate("sessionStorage.length") == 0
    assert shop.answers() == 0


@browser.needed
@npm
def test_an_answer_waits_for_a_server_that_is_away_and_counts_once(shop):
    with visited(shop.page("one")) as (page, _):
        seen(page, 2)
        shop.server.kill()
        page.evaluate("window.list.end()")
        wait_until(lambda: page.evaluate("JSON.parse(sessionStorage['steadyrank-beacon'] || '[]').length") == 1)
        page.reload()  # what is left waits for the next page
        shop.server.start()
        shop.server.wait()
        page.evaluate("beacon.resume(); beacon.resume()")  # and beside what tries again by itself
        wait_until(lambda: shop.answers() == 1)
        wait_until(lambda: page.evaluate("sessionStorage.length") == 0)
        assert shop.counts() == {"a": (1, 0), "b": (1, 0), "c": (0, 0), "d": (0, 0)}
