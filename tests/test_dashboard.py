"""The dashboard: its pages as files, and in a real browser against a real server."""

import contextlib
import json
import math
import re
import signal
import socket
import time
import urllib.request
from importlib import resources

import numpy as np
import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import expect

import browser
from service_tools import Server, serving, sql, wait_until
from steadyrank import cli
from steadyrank.service import demo
from steadyrank.service.http.auth import make_key
from steadyrank.service.http.server import bind, port_of
from steadyrank.service.storage import open_store
from steadyrank.service.worker.transfer import compact

FILES = sorted(file.name for file in (resources.files("steadyrank.service.http") / "static").iterdir())
HOSTILE = "<img src=x onerror=document.title='taken'>"
ODD = ["a/b?c=d&e#f %2e%2e", HOSTILE, "ünï cödé 漢字 \U0001f355", "x" * 500, "  spaces  ", "'\"`${1}"]
ITEMS = [*ODD, *(f"item {k}" for k in range(14))]


def source(name):
    return (resources.files("steadyrank.service.http") / "static" / name).read_text()


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def test_both_pages_are_one_public_shell_under_a_strict_policy(url):
    async with serving(url) as local:
        first, second = await local.http.get("/"), await local.http.get("/boards/any.board")
    assert first.status_code == second.status_code == 200
    assert first.content == second.content == source("index.html").encode()
    policy = dict(part.strip().split(" ", 1) for part in first.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[f"{kind}-src"] for kind in ("script", "style", "connect", "img")} == {"'self'"}
    assert {policy[name] for name in ("base-uri", "frame-ancestors", "form-action")} == {"'none'"}
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in first.headers["content-security-policy"]
    assert first.headers["x-content-type-options"] == "nosniff"
    assert first.headers["referrer-policy"] == "no-referrer"
    assert first.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("name", FILES)
async def test_every_file_is_served_with_its_type_and_mark(url, name):
    types = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}

    async with serving(url) as local:
        whole = await local.http.get(f"/static/{name}")
        assert whole.status_code == 200
        assert whole.text == source(name)
        assert whole.headers["content-type"].startswith(types[name.rpartition(".")[2]])
        assert whole.headers["cache-control"] == "no-cache"
        head = await local.http.head(f"/static/{name}")
        assert (head.content, head.headers["content-length"]) == (b"", str(len(whole.content)))
        mark = whole.headers["etag"]
        for known in (mark, f'"other", W/{mark}'):
            again = await local.http.get(f"/static/{name}", headers={"if-none-match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", mark)
        assert (await local.http.get(f"/static/{name}", headers={"if-none-match": '"x"'})).status_code == 200


async def test_nothing_else_is_served(url):
    async with serving(url) as local:
        for path in (
            "/static/nothing.js", "/static/", "/static", "/static/../pages.py", "/static/%2e%2e%2fpages.py",
            "/static/..%5cpages.py", "/static//etc/passwd", "/static/style.css/", "/boards/", "/boards/a/b",
            "/index.html", "/static/%00", "/static/__init__.py",
        ):  # fmt: skip
            answer = await local.http.get(path)
            assert answer.status_code == 404, path
            assert answer.json()["code"] == 404
        for path in ("/", "/boards/b", "/static/style.css"):
            assert (await local.http.post(path)).status_code == 405


def test_files_refer_to_each_other_and_to_nothing_outside():
    found = set()
    for name in FILES:
        text = source(name)
        outside = set(re.findall(r"\w+://[^\s\"')]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not outside, name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(", text), (
            name
        )
        found |= set(re.findall(r'(?:from "\./|(?:src|href)="/static/)([\w.]+)"', text))
    assert found == set(FILES) - {"index.html"}
    page = source("index.html")
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?![^>]*src=)", page)
    ids = re.findall(r'\bid="([\w-]+)"', page)
    assert len(ids) == len(set(ids))
    used = {name for file in FILES for name in re.findall(r'byId\("([\w-]+)"\)', source(file))}
    assert used <= set(ids)


def test_scripts_say_what_they_are_for():
    for name in FILES:
        if name.endswith(".js"):
            assert source(name).startswith("/** "), f"{name} does not say what it is for"


async def test_points_count_the_feedback_that_came_to_its_end(url):
    async with serving(url) as local:
        await local.board(lifetime=10)
        shown = [await local.rank() for _ in range(6)]
        for each in shown[:2]:
            await local.answer(each, clicked=each["items"][0])
        await local.quiet()
        points = (await local.ask("GET", "boards/b/watch"))["timeline"]["points"]
        assert [sum(point[name] for point in points) for name in ("impressions", "feedback", "clicks")] == [
            6,
            0,
            0,
        ]
        local.clocks.pass_time(11)
        await local.quiet()
        points = (await local.ask("GET", "boards/b/watch"))["timeline"]["points"]
        assert [sum(point[name] for point in points) for name in ("impressions", "feedback", "clicks")] == [
            6,
            6,
            2,
        ]


async def test_an_item_that_was_never_clicked_does_not_diverge_by_that_alone(url):
    async with serving(url) as local:
        await local.board(settle=0)
        for t in range(120):
            shown = await local.rank()
            liked = next((item for item in shown["items"] if item in ("item 3", "item 5")), None)
            await local.answer(shown, clicked=liked if t % 3 == 0 else None)
        watch = await local.ask("GET", "boards/b/watch")
        assert any(item["looks"] > 10 and item["rate"] < item["low"] for item in watch["list"])
        assert watch["diverging"] == []


def fill(client, name, rounds=400, favourite=None, **settings):
    """A board with honest users, who like the first items best, and then with bots, who like the last three."""
    client.put_board(name, items=ITEMS, length=5, settle=0, **settings)
    rng = np.random.default_rng(3)
    for t in range(rounds):
        bots = t >= 0.75 * rounds and favourite is not None
        likes = dict.fromkeys(favourite, 0.6) if bots else {item: 0.5 - 0.04 * k for k, item in enumerate(ITEMS)}
        shown = client.rank(name)
        clicked = next((item for item in shown.items if rng.random() < likes.get(item, 0.0)), None)
        client.feedback(name, shown.impression, clicked=clicked)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with boards of several kinds, for tests that change none of them."""
    folder = tmp_path_factory.mktemp("served")
    server = Server(f"sqlite:///{folder}/store.db", folder / "log").wait()
    Server.running.remove(server)  # it outlives a test
    client = server.client()
    fill(client, "shop", 800, favourite=ITEMS[-3:])
    fill(client, "plain", 60, learner="CascadeTS")
    client.put_board("empty", items=["a", "b"], length=2)
    client.put_board("large", items=[f"item {k}" for k in range(3_000)], length=10)
    yield server
    assert server.stop() == 0


@pytest.fixture
def own(tmp_path):
    """A server of this test alone, with one board."""
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    fill(server.client(), "shop", 120)
    return server


@contextlib.contextmanager
def watched(server, path, width=1600, dark=False, expected=()):
    """A page that asks nobody but its server, and whose console stays empty but for refusals that are expected."""
    with browser.opened("about:blank", width, dark=dark, offline=False) as (page, errors):
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        if server.token is None:
            wait_until(lambda: server.token is not None)  # the demo says it when its board is made
        page.goto(f"{server.address}{path}?token={server.token}")
        assert page.url == f"{server.address}{path}"
        yield page
        assert page.title() != "taken"
        outside = [url for url in asked if not url.startswith((server.address, "data:", "blob:", "about:"))]
        assert outside == []
        assert [error for error in errors if not any(re.search(known, error) for known in expected)] == []


CONTRAST = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const back = parts(getComputedStyle(node).backgroundColor);
      if (back.length < 4 || back[3] > 0.99) return back;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("main *, header *")) {
    const text = [...node.childNodes].some((child) => child.nodeType === 3 && child.nodeValue.trim());
    if (!text || !node.checkVisibility() || node.disabled) continue;
    const style = getComputedStyle(node);
    const ink = node.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const [one, two] = [light(parts(ink)), light(behind(node))].sort((a, b) => b - a);
    if ((one + 0.05) / (two + 0.05) < 4.5) poor.push([node.tagName, node.textContent.slice(0, 30), ink]);
  }
  return poor;
}"""


@browser.needed
@pytest.mark.parametrize(
    ("path", "ready"), [("/", ".sketch .line[d^=M]"), ("/boards/shop", ".timeline .line.clicked[d^=M]")]
)
def test_pages_fit_and_can_be_read(served, path, ready):
    with watched(served, path) as page:
        for width, dark in [(400, True), (1280, False), (1600, True)]:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme="dark" if dark else "light")
            page.reload()
            page.locator(ready).first.wait_for(state="attached")
            page.locator("[data-fact='items'], #list-rows tr").first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(CONTRAST) == []
            cards = page.evaluate("[...document.querySelectorAll('.card')].map(c => c.getBoundingClientRect().right)")
            assert max(cards) <= width
            boxes = "[...document.querySelectorAll('.scroll')].filter(box => box.checkVisibility())"
            assert page.evaluate(f"{boxes}.filter(box => box.scrollWidth > box.clientWidth).length") == 0
            if width == 1600:
                assert max(cards) > 1_400, "the room is used"


@browser.needed
def test_nothing_moves_if_the_system_asks_for_that(served):
    with watched(served, "/boards/shop") as page:
        expect(page.locator("#pulse")).to_have_text("live")
        moving = "getComputedStyle(document.querySelector('#pulse'), '::before').animationName"
        assert page.evaluate(moving) == "none"
        page.emulate_media(reduced_motion="no-preference")
        assert page.evaluate(moving) == "breathe"


@browser.needed
def test_everything_to_use_has_a_name_and_headings_are_in_order(served):
    with watched(served, "/boards/shop") as page:
        page.locator("#list-rows tr").first.wait_for()
        page.locator("#all summary").click()
        page.locator("#all-rows tr").first.wait_for()
        for role in ("button", "textbox", "spinbutton", "searchbox", "link", "region"):
            for node in page.get_by_role(role).all():
                label = node.aria_snapshot().splitlines()[0]
                assert '"' in label, label
        levels = page.get_by_role("heading").evaluate_all("nodes => nodes.map(node => Number(node.tagName[1]))")
        assert levels[0] == 1
        assert set(levels[1:]) == {2}


@browser.needed
def test_all_boards_at_a_glance(served):
    with watched(served, "/") as page:
        expect(page.locator("#cards .card")).to_have_count(4)
        shop = page.locator("#cards .card", has_text="shop")
        expect(shop.locator(".state")).to_contain_text("Clicks have changed")
        expect(shop.locator(".sketch .doubted")).to_have_count(1)
        expect(page.locator("#cards .card", has_text="plain").locator(".state")).to_contain_text("No regimes")
        expect(page.locator("#cards .card", has_text="empty").locator(".state")).to_contain_text("No feedback yet")
        shop.get_by_role("link").press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("shop")


def percent(share):
    """As the page writes it: a browser rounds halves up, Python to the even digit."""
    return f"{math.floor(1000 * share + 0.5) / 10:.1f}"


@browser.needed
def test_a_board_shows_rates_regimes_and_what_diverges(served):
    state = served.client().board("shop")
    watch = json.loads(fetch(served, "/v1/boards/shop/watch"))
    with watched(served, "/boards/shop") as page:
        rows = page.locator("#list-rows tr")
        expect(rows).to_have_count(5)
        assert rows.locator(".text").all_inner_texts() == [item["item"] for item in watch["list"]]
        first = watch["list"][0]
        estimate, low, high, rate = (percent(first[name]) for name in ("estimate", "low", "high", "rate"))
        for text in (f"{estimate} %", f"{low} to {high}", f"{rate} %"):
            expect(rows.first).to_contain_text(text)
        odd = page.locator("#diverging-rows tr")
        expect(odd).to_have_count(len(watch["diverging"]))
        assert odd.locator("td.odd").count() == len(watch["diverging"]) > 0
        bands = page.locator("#band-rows tr")
        expect(bands).to_have_count(len(watch["bands"]))
        assert len(watch["bands"]) >= 2
        shows_a_change(page)
        expect(page.locator("#headline")).to_contain_text(f"Since round {watch['bands'][-1]['start']}")
        expect(page.locator("#facts")).to_contain_text(f"{100 * watch['view']['corrupted']:.1f} %")
        expect(page.locator("#facts")).to_contain_text(f"{state['answers']:,} answered, {watch['open']:,} open")
        expect(page.locator("#limits")).to_contain_text(f"{state['most_open']:,} at most")
        expect(page.locator("#limits")).to_contain_text(f"{watch['events']:,} events")
        expect(page.locator("#saved-say")).to_contain_text(f"feedback of {watch['saved']['rounds']:,} rounds")
        expect(page.locator("#saved-say")).to_contain_text(f"about {watch['saved']['lost']['value']:,.0f} clicks")
        counted = page.evaluate("import('/static/words.js').then((words) => words.count(-0.0) + words.count(12345))")
        assert counted == "012,345"
        saved = page.locator("#saved-rows tr")
        expect(saved).to_have_count(5)
        expect(saved.first.locator("td").nth(2)).to_contain_text(watch["saved"]["believed"][0])
        page.get_by_text("Time line as a table").click()
        expect(page.locator("#point-rows tr")).to_have_count(len(watch["timeline"]["points"]))
        assert page.locator("img[src=x]").count() == 0


def fetch(server, path):
    with urllib.request.urlopen(f"{server.address}{path}", timeout=60) as answer:
        return answer.read()


@browser.needed
def test_the_page_says_what_rules_cost(own):
    client = own.client()
    with watched(own, "/boards/shop") as page:
        expect(page.locator("#list-rows tr")).to_have_count(5)
        expect(page.locator("#rules-card")).to_be_hidden()
        expect(page.locator("#few-outcomes-card")).to_be_hidden()
        others = [row for row in client.state("shop")["items"] if row["item"] != HOSTILE]
        best = [row["item"] for row in sorted(others, key=lambda row: -row["estimate"])]
        client.put_board("shop", rules={"pins": {HOSTILE: 2}, "exclude": [best[0], best[1]]})
        expect(page.locator("#rules-rows tr")).to_have_count(2)
        expect(page.locator("#rules-rows")).to_contain_text(f"{HOSTILE!r} at 2")
        rules = client.watch("shop")["rules"]
        assert rules["all"]["value"] > 0.0
        expect(page.locator("#rules-rows tr").first).to_contain_text(f"{rules['each'][0]['cost']['value']:.1f}")
        expect(page.locator("#rules-say")).to_contain_text(f"about {rules['all']['value']:.1f} clicks in 1,000 lists")
        client.put_board("shop", rules=None)
        expect(page.locator("#rules-card")).to_be_hidden()


@browser.needed
def test_boards_without_regimes_without_feedback_and_unknown_ones_say_so(served):
    with watched(served, "/boards/plain", expected=["404"]) as page:
        expect(page.locator("#headline")).to_contain_text("CascadeTS does not tell regimes apart")
        expect(page.locator("#list-rows tr")).to_have_count(5)
        expect(page.locator("#list-say")).to_contain_text("no estimates")
        expect(page.locator("#diverging-box")).to_be_hidden()
        expect(page.locator("#regimes-say")).to_have_text("CascadeTS does not tell regimes apart.")
        expect(page.locator("#saved-say")).to_have_text("CascadeTS does not tell regimes apart.")
        page.goto(f"{served.address}/boards/empty")
        expect(page.locator("#headline")).to_contain_text("No feedback yet")
        expect(page.locator("#as-fraud")).to_be_disabled()
        expect(page.locator("#interval-say")).to_have_text("Nothing to label yet.")
        expect(page.locator("#saved-say")).to_contain_text("Nothing so far")
        expect(page.locator("#saved-box")).to_be_hidden()
        page.goto(f"{served.address}/boards/nowhere")
        expect(page.get_by_role("heading", level=1)).to_have_text("No such board")


@browser.needed
def test_a_page_says_that_answers_wait(own):
    client = own.client()
    client.put_board("waits", items=["a", "b"], length=2)
    with watched(own, "/boards/waits") as page:
        expect(page.locator("#list-say")).to_have_text(re.compile("^What users get now"))
        client.feedback("waits", client.rank("waits").impression, clicked="a")
        expect(page.locator("#list-say")).to_contain_text(
            "1 answer came, none is learnt yet: each waits until 30 min"
        )


def resize(page, width):
    """Until what follows the width of the window has done so."""
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


def fits(page):
    """No box is wider than what there is room for, in a narrow window or in a wide one."""
    for width in (400, 1280):
        resize(page, width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        wide = "box => box.checkVisibility() && box.scrollWidth > box.clientWidth"
        assert page.evaluate(f"[...document.querySelectorAll('.scroll')].filter({wide}).map(box => box.id)") == []


LONG = 100 * "n"  # the longest name of a feature
FEATURES = {
    "explained": 0.625,
    "says": "What is known of items and visitors explains 62 % of it.",
    "count": 4,
    "strongest": [
        {"feature": "a for b", "effect": -0.5, "odds": 0.61, "says": "Visitors with a high <b> click items less."},
        {"feature": "a", "effect": 0.25, "odds": 1.28, "says": f"Visitors click items with {LONG} more."},
        {"feature": "c", "effect": 0.0, "odds": 1.0, "says": "Nothing."},
    ],
}


@browser.needed
def test_a_page_says_what_features_are_worth(served):
    """What a board with features answers, put into the answer of one without: its learner need not be compiled."""

    def featured(route):
        answer = route.fetch()
        watch = answer.json()
        watch["board"]["features"] = {"items": {LONG: [0, 1]}, "visits": {"<b>": [0, 1]}}
        route.fulfill(response=answer, json={**watch, "features": FEATURES, "diverging": []})

    with watched(served, "/boards/shop") as page:
        expect(page.locator("#list-rows tr")).to_have_count(5)
        expect(page.locator("#features")).to_be_hidden()
        page.route("**/watch", featured)
        expect(page.locator("#features-say")).to_contain_text("explains 62 % of it. The strongest 2 of 4")
        rows = page.locator("#feature-rows tr")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("Visitors with a high <b> click items less.")
        expect(rows.first).to_contain_text("\u00d7 0.61")
        left, right = (float(row.locator("rect").get_attribute("x")) for row in (rows.first, rows.last))
        assert left < right
        expect(page.locator("#list-say")).to_contain_text("of whom nothing is known")
        expect(page.locator("#diverging-say")).to_contain_text("not compared")
        expect(page.locator("#limits")).to_contain_text(f"of items: {LONG}; of visits: <b>")
        fits(page)
        page.unroute("**/watch")


@browser.needed
def test_a_page_shows_the_list_of_the_segment_that_is_chosen(served):
    """Segments put into the answer of a board without: the first has its list as it is, the second the other way."""

    def segmented(route):
        answer = route.fetch()
        watch = answer.json()
        watch["board"]["segments"] = ["<i>"]
        turned = {"list": watch["list"][::-1], "view": {**watch["view"], "current": 2, "trusted": 1}}
        kept = {"segment": None, "list": watch["list"], "view": {**watch["view"], "current": 1, "trusted": 1}}
        route.fulfill(
            response=answer, json={**watch, "segments": [kept, {"segment": "<i>", **turned}], "diverging": []}
        )

    with watched(served, "/boards/shop") as page:
        rows = page.locator("#list-rows tr")
        expect(rows).to_have_count(5)
        expect(page.locator("#segment-row")).to_be_hidden()
        page.route("**/watch", segmented)
        choice = page.locator("#segment")
        expect(choice.locator("option")).to_have_text(["visits without a segment", "<i>"])
        expect(page.locator("#list-say")).to_contain_text("What visits without a segment get now")
        expect(page.locator("#diverging-say")).to_contain_text("not compared")
        expect(page.locator("#limits")).to_contain_text("<i>")
        names = rows.locator("th").all_text_contents()
        choice.select_option("<i>")
        expect(page.locator("#list-say")).to_contain_text("What visits of segment <i> get now")
        expect(rows.locator("th")).to_have_text(names[::-1])
        expect(page.locator("#list-say")).to_contain_text("items are of regimes 1 and 2")
        page.unroute("**/watch")


@browser.needed
def test_a_page_says_in_which_segments_those_were_who_are_not_heard_and_leaves_only_some(served):
    """Put into the answer of a board without segments, as a server with some would say it."""
    long = "<i>" + 97 * "x"
    parts = [{"segment": long, "visits": 1_200}, {"segment": None, "visits": 7}]
    bot = {"kind": None, "since": 3, "time": None, "visits": 1_207, "clicks": 2, "why": "it was odd", "label": None}
    bots = [{"client": 5, "segments": parts, **bot}, {"client": 6, "segments": None, **bot, "label": 9}]
    names = [long]  # the segments of the board

    def besieged(route):
        answer = route.fetch(url=route.request.url.partition("?")[0])
        watch, chosen = answer.json(), "segment=" in route.request.url
        if chosen and not names:
            route.fulfill(status=422, json={"code": 422, "message": "segment must be one of ..., not '<i>'"})
            return
        shown = [item | {"low": None, "high": None} for item in watch["list"]]
        kept = {"list": shown, "view": {**watch["view"], "current": 1, "trusted": 1}}
        guard = {**watch["guard"], "count": 2, "of_segment": 1 if chosen else None, "silenced": bots[: 2 - chosen]}
        segments = [{"segment": each, **kept} for each in (None, *names)]
        watch["board"]["segments"] = names
        route.fulfill(response=answer, json={**watch, "segments": segments, "guard": guard})

    with watched(served, "/boards/shop", expected=["422"]) as page:
        rows, row, said = (page.locator(f"#silenced-{part}") for part in ("rows tr", "segment-row", "say"))
        expect(said).to_contain_text("refused")
        expect(row).to_be_hidden()
        page.route(re.compile("/watch"), besieged)
        expect(rows).to_have_count(2)
        expect(page.get_by_role("columnheader", name="visits by segment")).to_be_visible()
        expect(rows.first).to_contain_text(f"{long}: 1,200, without a segment: 7")
        expect(page.locator("#list-head")).not_to_contain_text("(95 %)", use_inner_text=True)
        fits(page)
        expect(rows.last.locator("td").nth(2)).to_have_text("\N{EN DASH}")
        choice = page.get_by_label("With visits of segment")
        expect(choice.locator("option")).to_have_text(["any", long])
        choice.select_option(long)
        expect(rows).to_have_count(1)
        expect(said).to_contain_text("2 clients or cohorts refused")
        expect(said).to_contain_text("1 of those refused had visits of the segment that is chosen.")
        expect(page.locator("#unheard")).to_contain_text("2 clients or cohorts are refused")
        names.clear()  # the board has other segments now: what was chosen is given up
        expect(rows).to_have_count(2)
        expect(row).to_be_hidden()
        page.unroute(re.compile("/watch"))


@browser.needed
def test_thousands_of_items_are_read_in_parts(served):
    with watched(served, "/boards/large", 400) as page:
        page.locator("#all summary").click()
        expect(page.locator("#all-rows tr")).to_have_count(50)
        page.locator("#all-more").click()
        expect(page.locator("#all-rows tr")).to_have_count(100)
        page.locator("#item-filter").fill("item 2999")
        expect(page.locator("#all-rows tr")).to_have_count(1)
        expect(page.locator("#all-say")).to_contain_text("1 item with this in the name")


@browser.needed
def test_an_interval_is_chosen_by_hand_by_mouse_or_by_its_regime(served):
    with watched(served, "/boards/shop") as page:
        expect(page.locator("#as-fraud")).to_be_disabled()
        page.locator("#band-rows button").first.click()
        band = json.loads(fetch(served, "/v1/boards/shop/watch"))["bands"][-1]
        expect(page.locator("#start")).to_have_value(str(band["start"]))
        expect(page.locator("#end")).to_have_value(str(band["end"]))
        expect(page.locator("#as-fraud")).to_be_enabled()
        page.locator("#clear-interval").click()
        box = page.locator(".timeline").bounding_box()
        page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 100, steps=4)
        page.mouse.up()
        start, end = (int(page.locator(f"#{name}").input_value()) for name in ("start", "end"))
        assert 150 < start < 300 < 400 < end < 560
        drawn = page.locator(".timeline .chosen rect").bounding_box()
        assert abs(drawn["width"] - 0.3 * box["width"]) < 6
        expect(page.locator("#readout")).to_contain_text("clicks per 100 lists")
        for start, end, words in (
            ("9", "3", "ends before"),
            ("0", "3", "first round"),
            ("1", "9999", "latest"),
        ):
            page.locator("#start").fill(start)
            page.locator("#end").fill(end)
            expect(page.locator("#interval-say")).to_contain_text(words)
            expect(page.locator("#as-honest")).to_be_disabled()


@browser.needed
def test_labels_are_given_and_taken_back_with_the_keyboard_alone(own):
    with watched(own, "/boards/shop") as page:
        page.locator("#list-rows tr").first.wait_for()
        page.locator("#start").press_sequentially("11")
        page.keyboard.press("Tab")
        page.keyboard.type("60")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_contain_text("Label 50 rounds, 11 to 60, as fraud?")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.locator("#label-rows tr")).to_have_count(0)
        expect(page.locator("#as-fraud")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#said")).to_have_text("Label 1: rounds 11 to 60 are fraud.")
        expect(page.locator("#label-rows tr")).to_contain_text("1 fraud")
        expect(page.locator(".timeline .strip.fraud")).to_have_count(1)
        expect(page.locator("#facts")).to_contain_text("besides 50 labelled fraud")
        assert json.loads(fetch(own, "/v1/boards/shop/labels"))["labels"] == [
            {"number": 1, "start": 11, "end": 60, "label": "fraud"}
        ]
        expect(page.locator("#start")).to_have_value("")
        page.locator("#start").fill("30")
        page.locator("#end").fill("90")
        page.locator("#as-honest").press("Enter")
        page.locator("#ask-yes").press("Enter")
        expect(page.locator(".timeline .strip.honest")).to_have_count(1)
        page.get_by_role("button", name="Take back label 1").press("Enter")
        page.locator("#ask-yes").press("Enter")
        expect(page.locator("#said")).to_have_text("Label 1 was taken back.")
        expect(page.locator(".timeline .strip.fraud")).to_have_count(0)
        assert [label["number"] for label in json.loads(fetch(own, "/v1/boards/shop/labels"))["labels"]] == [2]
        page.goto(f"{own.address}/")
        expect(page.locator("#cards .state")).to_contain_text("Steady.")
        own.client().label("shop", 1, 120, "fraud")
        expect(page.locator("#cards .state")).to_contain_text("No feedback yet")


def besiege(client, name, visits=3_000, bots=100, share=0.15):
    """Honest users, who like the first items, and among them a ring of bots that like the last ones."""
    client.put_board(name, items=ITEMS, length=4, settle=0)
    rng, answers = np.random.default_rng(6), []
    for _ in range(visits):
        bot = rng.random() < share
        who = f"bot {rng.integers(bots)}" if bot else f"user {rng.integers(600)}"
        liked = ITEMS[-4:] if bot else ITEMS[:4]
        shown = client.rank(name, client=who)
        clicked = next((item for item in shown.items if rng.random() < (0.5 if item in liked else 0.04)), None)
        answers.append({"board": name, "impression": shown.impression, "clicked": clicked})
        if len(answers) == 250:
            assert {row["code"] for row in client.feedback_batch(answers)} == {200}
            answers = []


@browser.needed
def test_a_ring_of_a_hundred_identities_is_not_heard_and_a_person_can_say_otherwise(tmp_path):
    """Through a real server: the ring is named by numbers, since when and why; labels go both ways."""
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    client = server.client()
    besiege(client, "shop")
    guard = client.state("shop")["guard"]
    assert guard["count"] == len(guard["silenced"]) >= 50
    assert guard["refused"] > 0
    assert guard["retracted"] > 0
    numbers = {row[0] for row in sql(server.url, "SELECT number FROM clients")}
    assert {one["client"] for one in guard["silenced"]} <= numbers
    assert {item["item"] for item in client.watch("shop")["list"]} == set(ITEMS[:4])
    first = guard["silenced"][0]
    with watched(server, "/boards/shop") as page:
        expect(page.locator("#unheard")).to_contain_text(f"{guard['count']} clients or cohorts are refused")
        rows = page.locator("#silenced-rows tr")
        expect(rows).to_have_count(50)
        expect(rows.first).to_contain_text(f"client {first['client']}")
        expect(rows.first).to_contain_text(f"round {first['since']:,}")
        expect(rows.first).to_contain_text(f"{first['visits']} visits, {first['clicks']} click")
        expect(rows.first).to_contain_text("fit a taste that a few others share")
        page.get_by_role("button", name=f"Label client {first['client']} as honest").click()
        page.locator("#ask-yes").click()
        expect(page.locator("#said")).to_have_text(f"Label 1: client {first['client']} is honest.")
        back = page.get_by_role("button", name=f"Take back label 1 of client {first['client']}")
        expect(back).to_be_visible()
        back.click()
        page.locator("#ask-yes").click()
        expect(page.locator("#said")).to_have_text("Label 1 was taken back.")
        expect(rows.first).to_contain_text(f"client {first['client']}")
        client.put_board("shop", shadow=True)
        expect(page.locator("#unheard")).to_contain_text("in shadow: not refused")
        expect(page.locator("#limits")).to_contain_text("ClientTrust, in shadow")
    assert server.stop() == 0


@browser.needed
def test_items_are_named_whose_clicks_rise_while_outcomes_do_not(tmp_path):
    """Half of the clicks lead to a purchase; then one item is clicked again and again, and nobody buys it."""
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    client, items = server.client(), [HOSTILE, "hat", "scarf", "gloves"]
    client.put_board("shop", items=items, length=4, settle=0, learner="CascadeTS")
    answers = []
    for t in range(480):
        bot = t >= 320 and t % 2 == 0
        clicked = HOSTILE if bot or t % 10 == 1 else items[1 + t % 3]
        one = {"board": "shop", "impression": client.rank("shop").impression, "clicked": clicked}
        answers.append({**one, "value": 5.0} if not bot and t % 7 < 4 else one)
    assert {row["code"] for row in client.feedback_batch(answers)} == {200}
    (told,) = client.watch("shop")["few_outcomes"]
    assert told["item"] == HOSTILE
    assert told["expected_outcomes"] > 20 > told["outcomes"]
    assert told["clicks"] > 3 * told["expected_clicks"] > 0
    with watched(server, "/boards/shop") as page:
        row = page.locator("#few-outcomes-rows tr")
        expect(row).to_have_count(1)
        expect(row.locator("th")).to_have_text(HOSTILE)
        expect(row).to_contain_text(f"{told['start']} to {told['end']}{told['clicks']}")
        expect(page.locator("#few-outcomes-say")).to_contain_text("1 item was clicked more than before, and fewer")
    assert server.stop() == 0


@browser.needed
def test_items_with_any_name_are_retired_and_reinstated(own):
    with watched(own, "/boards/shop") as page:
        page.locator("#all summary").click()
        for left, item in enumerate(ODD, 1):
            row = page.locator("#all-rows tr").filter(
                has=page.get_by_role("button", name=f"Retire {item}", exact=True)
            )
            row.get_by_role("button").click()
            expect(page.get_by_role("dialog")).to_contain_text(item.strip())
            page.locator("#ask-yes").click()
            expect(page.locator("#said")).to_contain_text(f"is retired; {len(ITEMS) - left} items left")
        state = json.loads(fetch(own, "/v1/boards/shop/state"))
        assert [item["item"] for item in state["items"] if not item["active"]] == ODD
        expect(page.locator("#board-kind")).to_contain_text(f"{len(ITEMS) - len(ODD)} items")
        page.get_by_role("button", name=f"Reinstate {HOSTILE}", exact=True).click()
        page.locator("#ask-yes").click()
        expect(page.locator("#said")).to_contain_text("is reinstated; 15 items now")
        assert page.locator("img[src=x]").count() == 0


@browser.needed
def test_a_board_is_exported_and_refusals_are_told(own, tmp_path):
    with watched(own, "/boards/shop", expected=["404"]) as page:
        page.locator("#list-rows tr").first.wait_for()
        page.locator("#export").click()
        with page.expect_download() as download:
            page.locator("#ask-yes").click()
        assert download.value.suggested_filename == "shop.jsonl"
        download.value.save_as(tmp_path / "shop.jsonl")
        expect(page.locator("#said")).to_contain_text("Exported shop")
        other = f"sqlite:///{tmp_path}/other.db"
        assert cli.main(["import", str(tmp_path / "shop.jsonl"), "--store", other]) == 0
        page.locator("#list-rows button").first.click()
        own.client().delete_board("shop")
        page.locator("#ask-yes").click()
        expect(page.locator("#said")).to_have_text("Refused: No board 'shop'.")
        expect(page.get_by_role("heading", level=1)).to_have_text("No such board")


@browser.needed
def test_a_late_refusal_of_one_key_does_not_forget_the_next(own):
    """Two keys are tried, and the refusal of the wrong one comes while the right one is still under way."""
    store = open_store(own.url)
    admin, kept = make_key(["admin"], None, 0.0)
    store.add_key(kept)
    with watched(own, "/boards/shop", expected=["401"]) as page:
        expect(page.locator("#login")).to_be_visible()
        held = []
        page.route("**/v1/boards?limit=1", lambda route: held.append(route))
        for text in ("sr.wrong.key", admin):
            page.locator("#key").fill(text)
            with page.expect_request("**/v1/boards?limit=1"):
                page.keyboard.press("Enter")
        with page.expect_response(lambda response: response.status == 401):
            held[0].continue_()
        held[1].continue_()
        expect(page.locator("#board")).to_be_visible()
        page.unroute_all()


@browser.needed
def test_keys_open_what_their_scope_says(own):
    store = open_store(own.url)
    admin, kept = make_key(["admin"], None, 0.0)
    few, few_kept = make_key(["rank"], "shop", 0.0)
    store.add_key(kept)
    store.add_key(few_kept)
    with watched(own, "/boards/shop", expected=["401", "403"]) as page:
        expect(page.locator("#login")).to_be_visible()  # keys are read every second
        expect(page.locator("#board")).to_be_hidden()
        expect(page.locator("#key")).to_be_focused()
        assert page.locator("#key").get_attribute("type") == "password"
        page.keyboard.type("sr.wrong.key")
        page.keyboard.press("Enter")
        expect(page.locator("#reason")).to_have_text("This API key is unknown, was revoked or has expired.")
        page.locator("#key").fill("sr.…")
        page.keyboard.press("Enter")
        expect(page.locator("#reason")).to_contain_text("This is no API key")
        page.locator("#key").fill(few)
        page.keyboard.press("Enter")
        expect(page.locator("#reduced")).to_contain_text("This API key lacks the scope 'admin'")
        expect(page.locator("#facts")).to_contain_text("120 answered")
        expect(page.locator("#export")).to_be_disabled()
        expect(page.locator("#list-title")).to_be_hidden()
        page.locator("#logout").click()
        page.locator("#key").fill(admin)
        page.keyboard.press("Enter")
        expect(page.locator("#list-rows tr")).to_have_count(5)
        expect(page.locator("#reduced")).to_be_hidden()
        assert page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [1, 0, ""]
        page.goto(f"{own.address}/")
        expect(page.locator("#cards .card")).to_have_count(1)
        page.goto(f"{own.address}/boards/shop")
        page.locator("#export").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert store.revoke_key(kept.id, 1.0)
        expect(page.locator("#reason")).to_have_text("This API key is unknown, was revoked or has expired.")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.locator("#key")).to_be_focused()
        page.keyboard.type(few)
        page.keyboard.press("Enter")
        expect(page.locator("#reduced")).to_be_visible()
        page.goto(f"{own.address}/")
        expect(page.locator("#cards .state")).to_contain_text("An admin key sees more.")
    store.close()


# Where the list is on the screen, not how far the page is scrolled: a sentence that grows above moves the latter.
IN_VIEW = """[document.activeElement.ariaLabel, String(getSelection()),
              Math.round(document.querySelector("#list-rows").getBoundingClientRect().top)]"""


@browser.needed
def test_the_page_lives_keeps_what_is_chosen_and_survives_the_server(own):
    client = own.client()
    with watched(own, "/boards/shop", expected=["ERR_CONNECTION_REFUSED", "503"]) as page:
        impressions = page.locator("#facts div", has_text="impressions").locator("dd").first
        expect(impressions).to_have_text("120")
        page.locator("#start").fill("7")
        row = page.locator("#list-rows tr").nth(4)
        liked = row.locator(".text").text_content()
        row.get_by_role("button").focus()
        page.evaluate("getSelection().selectAllChildren(document.querySelector('#limits dd'))")
        kept = page.evaluate(IN_VIEW)
        assert kept[:2] == [f"Retire {liked}", "SteadyRank"]
        fill_more(client, 30, liked)
        expect(impressions).to_have_text("150")
        expect(page.locator("#list-rows .text").first).to_have_text(liked, use_inner_text=False)
        wait_until(lambda: page.evaluate(IN_VIEW) == kept)
        page.locator("#band-rows button").first.click()
        expect(page.locator("#end")).to_have_value("150")
        page.locator("#start").fill("7")
        own.kill()
        expect(page.locator("#notice")).to_contain_text("The server does not answer.")
        expect(page.locator("#pulse")).to_have_text("not live")
        expect(page.locator("#list-rows tr")).to_have_count(5)
        own.start()
        own.wait()
        expect(page.locator("#notice")).to_be_hidden()
        expect(page.locator("#pulse")).to_have_text("live")
        expect(page.locator("#start")).to_have_value("7")
        page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        with contextlib.suppress(PlaywrightTimeout):
            page.wait_for_event("response", timeout=500)  # one may be under way
        with pytest.raises(PlaywrightTimeout):
            page.wait_for_event("request", timeout=2_500)
        page.evaluate("delete document.hidden")
        with page.expect_request("**/watch"):
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def fill_more(client, rounds, liked):
    for _ in range(rounds):
        shown = client.rank("shop", candidates=list({liked, *ITEMS[-4:]}))
        client.feedback("shop", shown.impression, clicked=liked)


@browser.needed
def test_a_store_without_boards_says_how_to_begin(tmp_path):
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    with watched(server, "/") as page:
        expect(page.locator("#no-boards")).to_contain_text("steadyrank serve --demo")
        server.client().put_board("first", items=["a"], length=1)
        expect(page.locator("#cards .card")).to_contain_text("first")
        expect(page.locator("#no-boards")).to_be_hidden()


@browser.needed
def test_lists_that_nobody_answers_are_shown_with_an_alarm(own):
    client = own.client()
    fill(client, "brief", 120, lifetime=5)
    with watched(own, "/boards/brief") as page:
        fact = page.locator("#facts > div", has_text="unanswered lately")
        expect(fact).to_contain_text("at most 3.3 % are usual")
        expect(page.locator("#silent")).to_be_hidden()
        for _ in range(40):
            client.rank("brief")
        said = "28.6 % of the latest lists were left unanswered, at most 3.3 % are usual."
        expect(page.locator("#silent")).to_contain_text(said)
        expect(fact.locator("dd.no")).to_have_text("28.6 %")


@browser.needed
def test_many_boards_are_shown_a_part_at_a_time(own):
    client = own.client()
    for k in range(201):
        client.put_board(f"b{k}", items=["x"], length=1, learner="Random")
    with watched(own, "/") as page:
        expect(page.locator("#overview-sum")).to_have_text("the first 200 boards")
        expect(page.locator("#cards .card")).to_have_count(200)
        page.get_by_role("button", name="Show more").press("Enter")
        expect(page.locator("#overview-sum")).to_have_text("202 boards")
        expect(page.get_by_role("button", name="Show more")).to_be_hidden()


@browser.needed
def test_rounds_that_are_no_longer_kept_cannot_be_chosen(own):
    assert own.stop() == 0
    with contextlib.closing(open_store(own.url)) as store:
        assert compact(store, 0.0, 100)["shop"] > 0
    own.start()
    own.wait()
    first = json.loads(fetch(own, "/v1/boards/shop/watch"))["first_round"]
    assert 1 < first < 120
    with watched(own, "/boards/shop") as page:
        expect(page.locator("#limits")).to_contain_text(f"rounds before {first} are a snapshot")
        page.locator("#start").fill("1")
        page.locator("#end").fill("120")
        expect(page.locator("#interval-say")).to_contain_text(f"The first round that can be labelled is {first}")
        expect(page.locator("#as-fraud")).to_be_disabled()
        page.locator("#band-rows button").last.click()
        expect(page.locator("#start")).to_have_value(str(first))
        expect(page.locator("#as-fraud")).to_be_enabled()


@browser.needed
def test_parked_boards_are_named_with_the_reason(own):
    assert own.stop() == 0
    sql(own.url, "DELETE FROM snapshots")
    sql(own.url, "UPDATE boards SET edge = 1")
    own.start()
    own.wait()
    with watched(own, "/", expected=["503"]) as page:
        why = "board 'shop': no snapshot can be read, and the beginning of its log is no longer kept"
        expect(page.locator("#parked-list")).to_have_text(f"shop: {why}")
        own.client().put_board("other", items=["a"], length=1)
        expect(page.locator("#cards .card")).to_contain_text("other")
        page.goto(f"{own.address}/boards/shop")
        expect(page.get_by_role("heading", level=1)).to_have_text("This board is parked")


def demonstrated(tmp_path, monkeypatch, after):
    """The demo, its first attack after so many seconds."""
    (tmp_path / "temporary").mkdir()
    with monkeypatch.context() as only:
        only.setenv("TMPDIR", str(tmp_path / "temporary"))
        options = ["--demo", "--demo-attack-after", str(after)]
        return Server(f"sqlite:///{tmp_path}/real.db", tmp_path / "log", options=options).wait()


def test_the_demo_says_what_it_does_and_leaves_nothing_behind(tmp_path, monkeypatch):
    server = demonstrated(tmp_path, monkeypatch, 1)
    assert len(list((tmp_path / "temporary").glob("steadyrank-demo-*/demo.db"))) == 1
    wait_until(lambda: "attack for 1 s: bots make nine of ten visits" in server.log.read_text())  # the second attack
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(30) == 0
    said = server.log.read_text()
    assert f"Open {server.address}/boards/demo" in said
    assert re.search(
        r"honest users for 1 s, then an attack\n\[ *\d+ s\] attack for 1 s: 20 bots come .*, and click \w+,", said
    )
    assert re.search(r"Clicks of people lost so far, by what they like: \d+ here, \d+ on the board 'plain'", said)
    assert "Traceback" not in said
    assert not (tmp_path / "real.db").exists(), "the demo keeps away from the store of the environment"
    assert list((tmp_path / "temporary").glob("steadyrank-demo-*")) == []


@pytest.mark.slow  # half a minute of visits, which a busy machine has fewer of
@browser.needed
def test_the_demo_shows_a_change_of_regime(tmp_path, monkeypatch):
    server = demonstrated(tmp_path, monkeypatch, 12)
    with watched(server, "/boards/demo", expected=["404"]) as page:  # the board is made a moment after the start
        expect(page.locator("#headline-title")).to_have_text("Steady.")
        expect(page.locator(".timeline .strip.trusted")).to_have_count(1)
        while "attack for 8 s: bots make nine of ten visits" not in server.log.read_text():  # the second attack
            page.wait_for_timeout(100)
        shows_a_change(page)
    assert server.stop() == 0


def shows_a_change(page):
    """The second regime is not trusted, and a click leads to its label."""
    expect(page.locator(".timeline .strip.doubted")).to_have_count(1)
    expect(page.locator("#headline-title")).to_have_text("Clicks have changed.")
    expect(page.locator("#headline-text")).to_contain_text("not the trusted regime 1")
    expect(page.locator("#headline-text")).to_contain_text("Clicked more than expected: ")
    page.locator("#headline-act").click()
    expect(page.locator("#as-fraud")).to_be_focused()
    expect(page.locator("#as-fraud")).to_be_enabled()
    expect(page.locator("#band-rows tr").first).to_contain_text("2 not trusted")


def test_the_demo_refuses_a_store_with_anything_in_it(tmp_path, capsys, monkeypatch):
    url = f"sqlite:///{tmp_path}/store.db"
    monkeypatch.setenv("STEADYRANK_STORE", url)
    store = open_store(url)
    _, kept = make_key(["admin"], None, 0.0)
    store.add_key(kept)
    store.close()
    assert cli.main(["serve", "--demo", "--store", url]) == 2
    assert "--demo needs an empty store, or none; the one given holds keys" in capsys.readouterr().err
    assert cli.main(["serve", "--demo", "--demo-attack-after", "0"]) == 2
    assert "--demo-attack-after must be at least 1 second, not 0" in capsys.readouterr().err
    assert cli.main(["serve", "--demo", "--host", "0.0.0.0"]) == 2
    assert "the demo has no keys and is for this machine alone" in capsys.readouterr().err


def test_the_demo_invites_nobody_to_a_port_that_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = Server("", tmp_path / "log", port, ["--demo"])
        assert server.process.wait(60) == 2
    said = server.log.read_text()
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use; see --port" in said
    assert "Open" not in said


def test_the_demo_on_any_port_says_which(tmp_path):
    server = Server("", tmp_path / "log", options=["--demo", "--port", "0"])
    while not (found := re.search(r"Open (http://127\.0\.0\.1:\d+)/boards/demo", server.log.read_text())):
        assert server.process.poll() is None
        time.sleep(0.05)
    assert urllib.request.urlopen(f"{found[1]}/healthz", timeout=60).status == 200


def test_a_name_is_bound_at_all_its_addresses_with_one_port(monkeypatch):
    kind, places = socket.SOCK_STREAM, ["127.0.0.1", "127.0.0.2"]
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, kind, 6, "", (p, 0)) for p in places]
    )
    bound = bind("somewhere", 0)
    assert [one.getsockname() for one in bound] == [(place, port_of(bound)) for place in places]
    places.append("192.0.2.1")  # an address for documents, of no machine
    with pytest.raises(ValueError, match="cannot listen on somewhere, port 0: Cannot assign requested address"):
        bind("somewhere", 0)
    for one in bound:
        one.close()


def test_a_host_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"--host nowhere\.invalid is no address of this machine"):
        bind("nowhere.invalid", 0)


def test_an_attack_of_the_demo_is_shorter_than_what_came_before():
    assert [demo.Plan(after).lasts for after in (600.0, 60.0, 12.0)] == [40.0, 40.0, 8.0]


def test_the_crowd_of_the_demo_is_the_same_each_time_and_its_bots_are_not_its_users():
    crowds = [demo.Crowd(demo.Plan()) for _ in range(2)]
    shown = [demo.ITEMS[k : k + 6] for k in range(30)]
    assert [crowds[0].click(items, False) for items in shown] == [crowds[1].click(items, False) for items in shown]
    crowd = crowds[0]
    assert {crowd.click(demo.ITEMS, True) for _ in range(100)} <= {*crowd.targets, None}
    honest = [crowd.click(demo.ITEMS, False) for _ in range(2_000)]
    assert sum(item in crowd.targets for item in honest) < 100


def test_the_demo_counts_what_lists_cost_people():
    """The six best items cost nothing; with the seven favourites' chances 0.42, 0.39, ... the seventh in place of the
    first gives up prod(1 - 0.39, ..., 1 - 0.27) * (0.42 - 0.24) = 0.61 * 0.64 * 0.67 * 0.70 * 0.73 * 0.18 clicks.
    """
    crowd = demo.Crowd(demo.Plan())
    chances = [np.mean([crowd.click([item], False) is not None for _ in range(200)]) for item in demo.ITEMS]
    favourites = [demo.ITEMS[k] for k in np.argsort(chances)[::-1][:7]]
    worth = {item: crowd._worth(np.array([demo.ITEMS.index(item)])) for item in favourites}
    first, *others, seventh = sorted(favourites, key=worth.__getitem__, reverse=True)
    crowd.count(demo.BOARD, [first, *others])
    assert crowd.lost == {demo.BOARD: pytest.approx(0.0, abs=1e-12), demo.PLAIN: 0.0}
    crowd.count(demo.PLAIN, [seventh, *others])
    assert crowd.lost[demo.PLAIN] == pytest.approx(0.61 * 0.64 * 0.67 * 0.70 * 0.73 * 0.18)


RATE = re.compile(r"^\d\d\.\d % \(\d\d\.\d to \d\d\.\d\)$")


@browser.needed
def test_a_collection_shows_its_queries_and_those_that_are_suddenly_clicked_far_more(tmp_path):
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    client = server.client()
    client.put_collection("shop", length=4, settle=0, keep_queries=True)
    client.put_collection("quiet", length=4)
    likes = {"a": 6, "d": 1}  # of 20 visits

    def past(query, clicked, rounds):
        chosen = [item for item, times in clicked.items() for _ in range(times)]
        chosen += [None] * (20 - len(chosen))
        rows = [{"query": query, "items": ["a", "b", "c", "d"], "clicked": chosen[n % 20]} for n in range(rounds)]
        client.history("shop", rows)

    for query in (HOSTILE, "shoes", "hats"):
        past(query, likes, 200)
    with watched(server, "/", expected=["404"]) as page:  # of a query that is forgotten
        links = page.locator("#collections-list a")
        expect(links).to_have_text(["quiet", "shop"])
        links.last.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("shop")
        expect(page.locator("#collection-verdict")).to_contain_text("No query")
        expect(page.locator("#query-rows tr")).to_have_count(3)
        expect(page.locator("#alarms-box")).to_be_hidden()
        past(HOSTILE, {"d": 20}, 40)
        past("hats", {"d": 20}, 40)
        expect(page.locator("#collection-verdict")).to_contain_text("in 2 queries, since round 6")
        (alarm,) = json.loads(fetch(server, "/v1/collections/shop/watch"))["alarms"]
        rows = page.locator("#alarm-rows tr")
        expect(rows).to_have_count(len(alarm["surges"]))
        numbers = re.compile(r"^\d\.\d %$"), re.compile(r"^\d+ of \d+$")
        expect(rows.last.locator("th, td")).to_have_text([HOSTILE, "d", "1", str(alarm["first"]), *numbers])
        by_gain = sorted(
            json.loads(fetch(server, "/v1/collections/shop/watch"))["queries"], key=lambda one: one["gain"]["value"]
        )
        names = [one["query"] for one in by_gain]
        page.locator("#query-order").select_option("lost")
        expect(page.locator("#query-rows th")).to_have_text(names)
        page.locator("#query-order").select_option("gained")
        expect(page.locator("#query-rows th")).to_have_text(names[::-1])
        expect(page.locator("#query-box")).to_be_hidden()
        rows.last.get_by_role("link").click()  # of an alarm
        expect(page.locator("#query-title")).to_have_text(HOSTILE)
        expect(page.locator("#query-title")).to_be_focused()
        page.locator("#query-rows").get_by_role("link", name="shoes").click()
        expect(page.locator("#query-title")).to_have_text("shoes")
        expect(page.locator("#query-sum")).to_contain_text("200 visits, 70 with a click")
        items = page.locator("#query-items tr")
        expect(items).to_have_count(4)
        expect(items.first.locator("th, td")).to_have_text(["a", "1", "1", "200", "60", RATE])
        for width, dark in [(400, True), (1280, False)]:
            resize(page, width)
            page.emulate_media(color_scheme="dark" if dark else "light")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(CONTRAST) == []
        client.forget_query("shop", "shoes")
        expect(page.locator("#query-sum")).to_contain_text("not remembered")
        page.get_by_role("link", name="Back to all queries").click()
        expect(page.locator("#query-box")).to_be_hidden()
    with watched(server, "/collections/nowhere", expected=["404"]) as page:
        expect(page.locator("#missing-title")).to_have_text("No such collection")
    assert server.stop() == 0
