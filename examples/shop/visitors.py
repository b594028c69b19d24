"""Simulated visitors of the shop: people, who click what they like and buy some of it, and paid bots."""

import html
import json
import random
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from shop import PLACES, PRODUCTS, price

_chance = random.Random(7)
LIKED = {product: _chance.uniform(0.01, 0.06) for product in PRODUCTS}
LIKED |= dict(zip(_chance.sample(PRODUCTS, 8), (0.42, 0.38, 0.35, 0.32, 0.3, 0.28, 0.26, 0.24), strict=True))
BOUGHT = {product: _chance.uniform(0.05, 0.25) for product in PRODUCTS}  # chance of a sale per click of a person
LATER, SECONDS = 0.5, 5.0  # share of the sales that are made later, and the mean delay
PAID = sorted(PRODUCTS, key=LIKED.__getitem__)[:3]
PEOPLE, BOTS = 200, 40  # number of each


def worth(items):
    """The chance that a person clicks in a list: the truth, unknown to both rankers."""
    nobody = 1.0
    for item in items:
        nobody *= 1.0 - LIKED[item]
    return 1.0 - nobody


def sales(items):
    """Mean sales per visitor to a list, for people who scan from the top and leave with the first click."""
    total, here = 0.0, 1.0
    for item in items:
        total += here * LIKED[item] * BOUGHT[item] * price(item)
        here *= 1.0 - LIKED[item]
    return total


def past(n=3_000, seed=1):
    """Lists of last month, when the shop tried all its products at random places, with people's clicks."""
    chance = random.Random(seed)
    for _ in range(n):
        items = chance.sample(PRODUCTS, PLACES)
        yield {"items": items, "clicked": next((item for item in items if chance.random() < LIKED[item]), None)}


def visit(shop, server, name, chance, bot=False):
    """Look at the shop's page from the top, click, and let the beacon report it; returns what was clicked, if any."""
    request = urllib.request.Request(f"{shop}/", headers={"cookie": f"visitor={name}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        page = answer.read().decode()
    items = [html.unescape(item) for item in re.findall(r"<li><a [^>]*>([^<]*)</a>", page)]
    paid = {item: 0.8 if item in PAID else 0.0 for item in PRODUCTS}
    likes = paid if bot else LIKED
    clicked = next((item for item in items if chance.random() < likes[item]), None)
    opened = PAID if bot else [clicked] if clicked else []  # bots open what they are paid for without a list
    for item in opened:
        urllib.request.urlopen(f"{shop}/go?{urllib.parse.urlencode({'item': item})}", timeout=10).close()
    found = re.search(r'impression: "([^"]+)"', page)
    if found:
        said = json.dumps({"impression": found[1], "clicked": clicked}).encode()
        urllib.request.urlopen(f"{server}/v1/boards/shop/feedback", said, timeout=10).close()
    return clicked


def buy(shop, name, item):
    """Buy a product that was clicked."""
    address = f"{shop}/buy?{urllib.parse.urlencode({'item': item})}"
    request = urllib.request.Request(address, b"", headers={"cookie": f"visitor={name}"})
    urllib.request.urlopen(request, timeout=10).close()


class Crowd:
    """People all the time, and bots for a while once called; each kind in a thread of its own."""

    def __init__(self, shop, server, seed=0):
        self._shop, self._server, self._chance = shop, server, random.Random(seed)
        self._until = 0.0  # when the bots leave
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._come, args=(bot,), daemon=True) for bot in (False, True)]
        for thread in self._threads:
            thread.start()

    def call_bots(self, seconds=40.0):
        """Let bots come for some seconds."""
        self._until = time.monotonic() + seconds

    @property
    def attacked(self):
        """Whether bots are active."""
        return time.monotonic() < self._until

    def end(self):
        """Stop all visits."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _come(self, bot):
        chance, later = random.Random(self._chance.random()), []
        while not self._ended.wait(0.08 if bot else 0.05):
            name = f"bot-{chance.randrange(BOTS)}" if bot else f"visitor-{chance.randrange(PEOPLE)}"
            if bot and not self.attacked:
                continue
            try:
                clicked = visit(self._shop, self._server, name, chance, bot)
                if clicked and not bot and chance.random() < BOUGHT[clicked]:
                    wait = chance.expovariate(1.0 / SECONDS) if chance.random() < LATER else 0.0
                    later.append((time.monotonic() + wait, name, clicked))
                for sale in [sale for sale in later if sale[0] <= time.monotonic()]:
                    later.remove(sale)
                    buy(self._shop, *sale[1:])
            except urllib.error.HTTPError as error:
                error.close()
                if not (bot and error.code == 429):  # over the limit of one client
                    print("a visitor was turned away:", error)
            except OSError as error:
                print("no answer:", error)
