"""Simulated visitors of the search: people, who open what others want too, and bots, who open what they are paid for.

What people want is taken from the packages themselves: the more of them depend on one, recommend or suggest it, the
more likely it is opened. The engine does not use that.
"""

import json
import math
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from html import unescape
from re import findall, search

QUERIES = (
    *("pdf viewer", "text editor", "image viewer", "music player", "web server", "terminal", "chess", "web browser"),
    *("mail client", "video player", "backup", "archive", "calculator", "firewall", "spell checker", "calendar"),
    *("screenshot", "torrent", "ssh", "compiler", "sound editor", "font", "game", "debugger", "drawing", "scanner"),
)
PEOPLE, BOTS = 300, 40  # how many there are of each
ATTACKED, PAID = 5, 4  # queries in which bots click, and packages in each of them


class Taste:
    """What people like, and what bots are paid for: the truth, unknown to all rankers."""

    def __init__(self, engine):
        self.engine = engine
        candidates = {query: [hit["_id"] for hit in engine.search(query)["hits"]["hits"]] for query in QUERIES}
        self.found = {query: names for query, names in candidates.items() if len(names) >= 10}
        self.queries = list(self.found)
        self.weights = [1.0 / (1 + place) ** 0.8 for place in range(len(self.queries))]
        self.paid = {query: self._least(self.found[query][:25]) for query in self.queries[:ATTACKED]}

    def _least(self, names):
        return sorted(names, key=self.liked)[:PAID]

    def liked(self, name):
        """The chance that a person who looks at a package opens it."""
        return min(0.02 + 0.06 * math.log2(1 + self.engine.packages[name].wanted), 0.5)

    def worth(self, names):
        """The chance that a person opens something in a list."""
        return 1.0 - math.prod(1.0 - self.liked(name) for name in names)

    def query(self, chance, bot):
        """Draw a visitor's query."""
        return chance.choice(list(self.paid)) if bot else chance.choices(self.queries, self.weights)[0]

    def opened(self, query, names, chance, bot):
        """What a visitor opens in a list, from the top; None if nothing."""
        if bot:
            shown = [name for name in names if name in self.paid[query]]
            return chance.choice(shown) if shown else None
        return next((name for name in names if chance.random() < self.liked(name)), None)


def visit(site, server, taste, name, chance, bot=False):
    """Search, open something, and let the page's beacon report it; returns query, list and what was opened."""
    query = taste.query(chance, bot)
    address = f"{site}/?{urllib.parse.urlencode({'q': query})}"
    request = urllib.request.Request(address, headers={"cookie": f"visitor={name}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        page = answer.read().decode()
    names = [unescape(one) for one in findall(r"<li><a [^>]*>([^<]*)</a>", page)]
    opened, shown = taste.opened(query, names, chance, bot), search(r'impression: "([^"]+)"', page)
    if shown:
        body = json.dumps({"impression": shown[1], "clicked": opened}).encode()
        urllib.request.urlopen(f"{server}/v1/collections/packages/feedback", body, timeout=10).close()
    return query, names, opened


class Crowd:
    """People all the time, and bots for a while once called; each kind in a thread of its own.

    `told` is called for every visit with the query, the list and what was opened.
    """

    def __init__(self, site, server, taste, told, seed=0):
        self._site, self._server, self.taste, self._told = site, server, taste, told
        self._until = 0.0  # when the bots leave
        self._ended = threading.Event()
        chance = random.Random(seed)
        work = [(bot, random.Random(chance.random())) for bot in (False, True)]
        self._threads = [threading.Thread(target=self._come, args=one, daemon=True) for one in work]
        for thread in self._threads:
            thread.start()

    def call_bots(self, seconds=90.0):
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

    def _come(self, bot, chance):
        while not self._ended.wait(0.1 if bot else 0.02):
            if bot and not self.attacked:
                continue
            name = f"bot-{chance.randrange(BOTS)}" if bot else f"visitor-{chance.randrange(PEOPLE)}"
            try:
                self._told(*visit(self._site, self._server, self.taste, name, chance, bot))
            except urllib.error.HTTPError as error:
                error.close()
                if not (bot and error.code == 429):  # over the limit of one client
                    print("a visitor was turned away:", error)
            except OSError as error:
                print("no answer:", error)
