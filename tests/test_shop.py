"""The shop of the examples: steadyrank in shadow changes nothing of what it shows, in as few lines as is said."""

import importlib.util
import itertools
import pathlib
import random
import re
import sys
import threading
import urllib.request

import pytest

import browser
from service_tools import Server, free_port, wait_until
from steadyrank.client import Client

SHOP = pathlib.Path(__file__).parent.parent / "examples" / "shop"
MARK = re.compile(r".*(#|//|<!--) \+ steadyrank( -->)?$")
PARTS = ("shop.py", "page.html")


def load(folder, name="shop"):
    """A module of the shop, as a script would import it."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bare(tmp_path):
    """The shop without the lines that steadyrank takes."""
    folder = tmp_path / "examples" / "shop"
    folder.mkdir(parents=True)
    for name in PARTS:
        kept = [line for line in (SHOP / name).read_text().splitlines(keepends=True) if not MARK.match(line)]
        (folder / name).write_text("".join(kept))
    return folder


def test_it_takes_few_lines_and_the_docs_say_how_many(bare):
    marked = [sum(bool(MARK.match(line)) for line in (SHOP / name).read_text().splitlines()) for name in PARTS]
    text = (SHOP.parents[1] / "docs" / "shadow.md").read_text()
    assert f"It takes {sum(marked)} lines: {marked[0]} in the shop's server" in text
    assert f"and {marked[1]} in its page" in text
    assert sum(marked) <= 25
    code = (bare / "shop.py").read_text()
    assert "steadyrank" not in code[code.index("import collections") :]
    assert "steadyrank" not in (bare / "page.html").read_text()


def pages(module, shop, n=60):
    """What visitors get who search, click and buy; the pages, in order."""
    server = module.serve(shop, 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    chance, found = random.Random(3), []
    try:
        for k in range(n):
            query = chance.choice(["", "", "mug", "oak", "nothing"])
            address = f"http://127.0.0.1:{server.server_port}"
            request = urllib.request.Request(f"{address}/?q={query}", headers={"cookie": f"visitor=v{k % 7}"})
            with urllib.request.urlopen(request, timeout=20) as answer:
                found.append(answer.read())
            links = re.findall(rb'href="(/go[^"]*)"', found[-1])
            if links and chance.random() < 0.7:
                link = chance.choice(links).decode()
                urllib.request.urlopen(address + link, timeout=20).close()
                bought = urllib.request.Request(address + link.replace("/go", "/buy"), b"", request.headers)
                urllib.request.urlopen(bought, timeout=20).close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    return found


def lists(found):
    return [re.search(rb'<ol id="list">.*?</ol>', page, re.DOTALL)[0] for page in found]


def test_shadow_changes_no_list_of_the_shop(bare, tmp_path):
    without = pages(load(bare), load(bare).Shop())
    assert all(b"beacon" not in page for page in without)
    module = load(SHOP)
    module.api = Client(f"http://127.0.0.1:{free_port()}", timeout=0.5, tries=1)
    assert lists(pages(module, module.Shop())) == lists(without)
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    server.client().put_board("shop", items=module.PRODUCTS, length=module.PLACES, goal="value")
    module.api, selling = server.client(timeout=20), module.Shop()
    told = pages(module, selling)
    module.api.close()
    assert lists(told) == lists(without)
    assert len({bytes(one) for one in lists(told)}) > 5, "clicks move the shop's lists"
    reported = sum(b"<li>" in page for page in told)
    assert 0 < reported < len(told)
    wait_until(lambda: server.client().board("shop")["impressions"] == reported)
    wait_until(lambda: server.client().board("shop")["outcomes"] == selling.sold.total() > 10)
    assert sum(bool(re.search(rb'impression: "[\w-]', page)) for page in told) == reported
    assert server.stop() == 0


def test_lists_keep_the_shops_rules():
    """At most two of a brand, and the campaign in its place where it is among what was searched for."""
    module = load(SHOP)
    shop = module.Shop({product: 9 for product in module.PRODUCTS if product.startswith("red")})
    assert shop.list_for("") == ["red basket", "red chair", "blue basket", module.CAMPAIGN, "blue chair"]
    assert shop.list_for("lamp")[0] == "red lamp"
    assert shop.list_for("red") == ["red basket", "red chair"]
    assert shop.list_for("plain") == ["plain chair", module.CAMPAIGN]


def test_people_spend_what_is_worked_out_for_them(monkeypatch):
    """Of a list of one product: how many click it, times how many of these buy it, times its price."""
    monkeypatch.syspath_prepend(str(SHOP))
    visitors = load(SHOP, "visitors")
    monkeypatch.delitem(sys.modules, "shop")
    monkeypatch.setattr(visitors, "LIKED", {"red mug": 0.5, "oak chair": 0.4})
    monkeypatch.setattr(visitors, "BOUGHT", {"red mug": 0.2, "oak chair": 0.1})
    assert visitors.sales(["red mug"]) == pytest.approx(0.5 * 0.2 * 9)
    assert visitors.sales(["oak chair", "red mug"]) == pytest.approx(0.4 * 0.1 * 120 + 0.6 * 0.5 * 0.2 * 9)


def test_what_lists_are_worth_is_what_the_docs_say(monkeypatch):
    """The list by what people click most, and the best of all lists of the ten products they would pay most for."""
    monkeypatch.syspath_prepend(str(SHOP))
    visitors = load(SHOP, "visitors")
    shop = sys.modules["shop"]
    monkeypatch.delitem(sys.modules, "shop")
    popular = shop.by_rules(sorted(shop.PRODUCTS, key=lambda product: -visitors.LIKED[product]))
    paid_for = sorted(shop.PRODUCTS, key=lambda product: -visitors.sales([product]))[:10]
    lists = (shop.by_rules([*some, shop.CAMPAIGN]) for some in itertools.permutations(paid_for, shop.PLACES - 1))
    best = max(lists, key=visitors.sales)
    text = (SHOP.parents[1] / "docs" / "shadow.md").read_text()
    assert f"{100 * visitors.worth(popular):.0f} of 100 click something" in text
    assert f"spend {100 * visitors.sales(popular):,.0f} €." in text
    assert f"{100 * visitors.worth(best):.0f} click and spend {100 * visitors.sales(best):,.0f} €" in text


@browser.needed
def test_the_page_with_its_beacon_and_the_button_for_bots(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SHOP))
    run = load(SHOP, "run")
    module = sys.modules.pop("shop")  # which the scripts import of one another
    sys.modules.pop("visitors")
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    module.PAGE = module.PAGE.replace("http://127.0.0.1:8080", server.address)
    module.api, client = server.client(timeout=20), server.client(timeout=20)
    client.put_board("shop", lifetime=60, **run.BOARD)

    class Crowd:  # nobody but this browser comes
        attacked = False

        def call_bots(self):
            self.attacked = True

    served = run.serve(run.Shop(), 0, run.Stage)
    served.RequestHandlerClass.client, served.RequestHandlerClass.crowd = client, Crowd()
    served.RequestHandlerClass.dashboard = server.address
    thread = threading.Thread(target=served.serve_forever, args=(0.02,))
    thread.start()
    try:
        with browser.opened(f"http://127.0.0.1:{served.server_port}/", 900, offline=False) as (page, errors):
            page.wait_for_selector("#ours li")
            assert page.locator("#list li").count() == page.locator("#ours li").count() == run.PLACES
            page.fill("input[name=q]", "lamp")
            page.press("input[name=q]", "Enter")
            page.wait_for_selector("#list li >> text=lamp")
            for column in ("#theirs", "#ours"):  # of what was searched for, and no other
                page.wait_for_selector(f"{column} li >> text=lamp")
                assert all("lamp" in text for text in page.locator(f"{column} li").all_inner_texts())
            assert all("lamp" in text for text in page.locator("#list a").all_inner_texts())
            page.wait_for_timeout(1_500)  # in view
            page.click("#list li:nth-child(2) a")
            page.wait_for_selector("h1 >> text=lamp")
            wait_until(lambda: client.board("shop")["clicks"] == 1)
            page.click("text=Back")
            lamp = max(served.RequestHandlerClass.shop.clicks)
            page.wait_for_selector(f"#theirs li:first-child >> text={lamp}")
            for product in module.PRODUCTS[:3]:
                served.RequestHandlerClass.shop.clicks[product] += 2
            page.wait_for_selector(f"#theirs li:first-child >> text={min(module.PRODUCTS[:3])}")  # with no reload
            page.click("#bots")
            page.wait_for_selector("#attack >> text=Bots click")
            page.wait_for_selector("#ours-sales >> text=€")
            assert errors == []
    finally:
        served.shutdown()
        thread.join()
        served.server_close()
    assert server.stop() == 0
