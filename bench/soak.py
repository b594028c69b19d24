"""Attack real servers repeatedly for some minutes, and print one table: python bench/soak.py [--minutes 10].

Each attack has a limit that must hold; a row shows its worst run. `--once` runs a small version of each once. Exits
with code 1 if a limit did not hold.
"""

import argparse
import http.client
import json
import pathlib
import resource
import signal
import sys
import tempfile
import time
import typing

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import boards
import hostile

import steadyrank as sr
from service_tools import Server, wait_until

ITEMS = [f"item {k}" for k in range(100)]
IMPATIENT = ("--request-seconds", "5", "--first-byte-seconds", "5")
KIB = 64  # limit on the memory of a hostile connection


class Found(typing.NamedTuple):
    """The result of an attack. `badness` orders several runs."""

    limit: str
    found: str
    held: bool
    badness: float


class Scale(typing.NamedTuple):
    """The size of attacks."""

    visits: int
    lists: int
    bots: int
    boards: int


FULL, SMALL = Scale(2_000, 2_500, 1_000, 100_000), Scale(400, 500, 150, 2_000)


class Shop:
    """A board on its own server, and its visitors."""

    def __init__(self, folder, seed, **settings):
        self.server = Server(f"sqlite:///{folder}/shop-{seed}-{time.monotonic_ns()}.db", folder / "log").wait()
        self.client = self.server.client(timeout=60)
        self.world = np.random.default_rng(seed)
        self.attraction = dict(zip(ITEMS, self.world.beta(1, 8, len(ITEMS)), strict=True))
        self.target = sorted(ITEMS, key=self.attraction.get)[len(ITEMS) // 2]
        self.client.put_board("shop", items=ITEMS, **settings)

    def honest(self, shown):
        return next((item for item in shown.items if self.world.random() < self.attraction[item]), None)

    def visit(self, count, answer):
        """Request lists, and answer 25 at a time: `answer` gives the rest of a row, or None for no answer."""
        for start in range(0, count, 25):
            shown = [self.client.rank("shop") for _ in range(min(25, count - start))]
            rows = [(s, answer(s)) for s in shown]
            sent = [{"board": "shop", "impression": s.impression, **row} for s, row in rows if row is not None]
            if sent:
                assert all(row["code"] == 200 for row in self.client.feedback_batch(sent))

    def settled(self):
        wait_until(lambda: self.client.watch("shop")["open"] == 0, 60.0)
        return self.client.watch("shop")

    def worth(self):
        """The probability of a click on the list that users get, over that on the best one."""
        best = sorted(self.attraction.values())[-10:]
        now = [self.attraction[item["item"]] for item in self.settled()["list"]]
        return (1 - np.prod(1 - np.array(now))) / (1 - np.prod(1 - np.array(best)))

    def end(self):
        self.server.kill()


def silence(folder, seed, scale):
    """Honest visits, then lists that nobody answers."""
    shop = Shop(folder, seed, lifetime=2)
    shop.visit(scale.visits, lambda shown: {"clicked": shop.honest(shown)})
    before = shop.worth()
    shop.visit(scale.lists, lambda shown: None)
    after, alarm = shop.worth(), shop.client.board("shop")["silence"]["alarmed"]
    shop.end()
    found = f"{after / before:.2f}, alarm {'on' if alarm else 'off'}"
    return Found("worth 0.90 of before, alarm", found, after >= 0.9 * before and bool(alarm), -after / before)


def lists(folder, seed, scale):
    """One client that asks for 300 lists in a minute."""
    shop, codes = Shop(folder, seed), []
    for _ in range(300):
        try:
            shop.client.rank("shop", client="greedy")
            codes.append(200)
        except sr.Refused as refusal:
            codes.append(refusal.code)
    shop.end()
    return Found("240 of 300 lists", f"{codes.count(200)}", codes.count(200) <= 240, codes.count(200))


def late(folder, seed, scale):
    """Honest visits, then bots that answer after answers are settled."""
    shop = Shop(folder, seed, lifetime=60, settle=0.3)
    shop.visit(scale.visits, lambda shown: {"clicked": shop.honest(shown)})

    def wait_and_click(shown):
        time.sleep(0.03)  # 25 of these are more than `settle`
        return {"clicked": shop.target if shop.target in shown.items else None}

    shop.visit(scale.bots, wait_and_click)
    corrupted = shop.client.state("shop")["view"]["corrupted"]
    shop.end()
    share = scale.bots / (scale.bots + scale.visits)
    return Found("half of the share told", f"{corrupted:.2f} of {share:.2f}", corrupted > share / 2, -corrupted)


def selective(folder, seed, scale):
    """15 % bots that click a target, and do not answer if it is not shown."""
    shop = Shop(folder, seed, lifetime=60, settle=0)
    shop.visit(scale.visits, lambda shown: {"clicked": shop.honest(shown)})

    def answer(shown):
        if shop.world.random() >= 0.15:
            return {"clicked": shop.honest(shown)}
        return {"clicked": shop.target} if shop.target in shown.items else {"clicks": [0], "examined": 0}

    shop.visit(scale.bots, answer)
    told = shop.client.watch("shop")
    alarm, shown = told["board"]["silence"]["alarmed"], [item["item"] for item in told["list"]]
    shop.end()
    place = shown.index(shop.target) + 1 if shop.target in shown else 0
    found = f"alarm {'on' if alarm else 'off'}, {f'place {place}' if place else 'not in the list'}"
    return Found("alarm", found, bool(alarm), len(ITEMS) - place if place else 0)


def refused(folder, seed, scale):
    """200 clicks of one client with a limit of 60 per minute."""
    shop = Shop(folder, seed, lifetime=5, settle=0, client_lists=1_000)
    shown = [shop.client.rank("shop", client="busy") for _ in range(200)]
    rows = [{"board": "shop", "impression": s.impression, "clicked": s.items[0]} for s in shown]
    taken = [row["code"] for row in shop.client.feedback_batch(rows)].count(200)
    shop.settled()
    looks = sum(item["looks"] for item in shop.client.state("shop")["items"])
    shop.end()
    return Found("0 counted as non-clicks", f"{looks - taken}", looks == taken, looks - taken)


def before_a_key(folder, seed, scale):
    """Requests from a web page, a proxy or another host name of this machine before there is a key."""
    shop = Shop(folder, seed)
    forged = [
        ("PUT", {"content-type": "text/plain"}),
        ("GET", {"sec-fetch-site": "cross-site"}),
        ("GET", {"origin": "http://127.0.0.1:1"}),
        ("GET", {"x-forwarded-for": "192.0.2.1"}),
        ("GET", {"host": "evil.example"}),
    ]
    through = 0
    for method, headers in forged:
        connection = http.client.HTTPConnection("127.0.0.1", shop.server.port, timeout=10)
        connection.request(method, "/v1/boards/shop", json.dumps({"length": 3}), headers)
        through += connection.getresponse().status == 200
        connection.close()
    shop.end()
    return Found("0 requests let in", f"{through} of {len(forged)}", through == 0, through)


def connection(name, stall, kib):
    """An attack of `hostile`: the longest wait of others, and memory per held connection."""

    def attack(folder, seed, scale):
        found = hostile.measure(name, folder, IMPATIENT)
        for old in folder.glob(f"{name}.*"):
            old.unlink()
        each = 1024 * max(found.memory, 0.0) / max(found.held, 1)
        limit = f"{stall} ms" + (f", {kib} KiB each, closed" if found.held else "")
        said = f"{found.stall:.0f} ms" + (f", {each:.0f} KiB, {found.closed} closed" if found.held else "")
        held = found.stall <= stall and found.closed == found.held and (not found.held or each <= kib)
        return Found(limit, said, held, found.stall)

    attack.__doc__ = hostile.ATTACKS[name].__doc__
    return attack


def many_boards(folder, seed, scale):
    """A store full of boards: time to start and to stop."""
    service = boards.Service(folder, 1_000)
    boards.write(folder, scale.boards)
    ready = service.start()
    ended = service.end(signal.SIGTERM)
    return Found("ready 10 s, end 5 s", f"{ready:.1f} s, {ended:.1f} s", ready <= 10.0 and ended <= 5.0, ready)


# the memory of a single connection can only be measured to a few megabytes
ATTACKS = {
    "silence": silence,
    "lists of one client": lists,
    "late bots": late,
    "bots that choose": selective,
    "refused batch": connection("batch", 1_000, KIB),
    "endless address": connection("url", 250, 4_096),
    "endless headers": connection("headers", 250, 4_096),
    "endless bodies": connection("bodies", 1_000, KIB),
    "half-open requests": connection("half_open", 1_000, KIB),
    "clicks beyond a limit": refused,
    "before the first key": before_a_key,
    "many boards": many_boards,
}


def table(runs):
    """The table, one line per attack with its worst run."""
    lines = [f"{'attack':<24}{'limit':<34}{'worst found':<34}{'runs':>4}  held"]
    for name, found in runs.items():
        worst = max(found, key=lambda one: (not one.held, one.badness))
        lines.append(f"{name:<24}{worst.limit:<34}{worst.found:<34}{len(found):>4}  {'yes' if worst.held else 'NO'}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="no attack is begun after that")
    parser.add_argument("--once", action="store_true", help="each attack once, small ones")
    parser.add_argument("attacks", nargs="*", metavar="NAME", help=", ".join(ATTACKS))
    options = parser.parse_args()
    unknown = set(options.attacks) - set(ATTACKS)
    if unknown:
        parser.error(f"no attack {sorted(unknown)}: choose from {', '.join(ATTACKS)}")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    chosen = {name: attack for name, attack in ATTACKS.items() if name in (options.attacks or ATTACKS)}
    end, seed, runs = time.monotonic() + 60 * options.minutes, 0, {}
    while seed == 0 or not (options.once or time.monotonic() > end):
        for name, attack in chosen.items():
            if time.monotonic() < end:
                with tempfile.TemporaryDirectory() as folder:
                    found = attack(pathlib.Path(folder), seed, SMALL if options.once else FULL)
                print(f"{name}: {found.found}", file=sys.stderr, flush=True)
                runs.setdefault(name, []).append(found)
        seed += 1
    Server.kill_all()
    print(table(runs))
    return 0 if all(one.held for found in runs.values() for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
