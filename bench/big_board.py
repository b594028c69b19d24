"""A board with a million items on one worker: time to create it, cost of lists, time to stop and to start.

python bench/big_board.py [--items 1000000] [--lists 4000] [--chunk 50000]

Milliseconds are measured by the client, over loopback, one request at a time, in turns with a board of 500 items.
Every list is answered. The server writes to SQLite, in a temporary folder.
"""

import argparse
import pathlib
import signal
import tempfile
import time

import numpy as np
from boards import Connection, Service


def timed(work):
    """Run a function; returns seconds and its result."""
    begin = time.perf_counter()
    found = work()
    return time.perf_counter() - begin, found


def put(ask, board, names, chunk):
    """Create a board in parts; returns the seconds of each."""
    seconds = []
    for start in range(0, len(names), chunk):
        body = {"items": names[start : start + chunk], "length": 10, "guard": "Anyone", "settle": 0}
        seconds.append(timed(lambda part=body: ask("PUT", f"/v1/boards/{board}", part))[0])
    return seconds


def lists(ask, boards, number):
    """Milliseconds of rank and of feedback by board, in turns, with a click in the middle of each list."""
    times = {(board, what): [] for board in boards for what in ("rank", "feedback")}
    for k in range(number):
        for board in boards:
            took, shown = timed(lambda name=board: ask("POST", f"/v1/boards/{name}/rank", {}))
            times[board, "rank"].append(1000 * took)
            body = {"impression": shown["impression"], "clicked": shown["items"][4] if k % 3 else None}
            took, _ = timed(lambda name=board, said=body: ask("POST", f"/v1/boards/{name}/feedback", said))
            times[board, "feedback"].append(1000 * took)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--lists", type=int, default=4_000)
    parser.add_argument("--chunk", type=int, default=50_000)
    options = parser.parse_args()
    names = [f"item {k}" for k in range(options.items)]
    with tempfile.TemporaryDirectory() as folder:
        server = Service(pathlib.Path(folder), 1_000)
        server.start()
        try:
            measure(server, names, options)
        finally:
            server.end(signal.SIGKILL)
        size = sum(path.stat().st_size for path in pathlib.Path(folder).glob("boards.db*"))
        print(f"store: {size / 2**20:.0f} MB")


def measure(server, names, options):
    """Print a line for each measurement."""
    ask = Connection(server.port)
    put(ask, "small", names[:500], 500)
    before = server.resident()
    seconds = put(ask, "big", names, options.chunk)
    grown = (server.resident() - before) / options.items
    parts = f"by {options.chunk:,}: {sum(seconds):.1f} s, a part at most {max(seconds):.2f} s"
    print(f"PUT of {options.items:,} items {parts}; {grown:.0f} bytes an item", flush=True)
    times = lists(ask, ("small", "big"), options.lists)
    for (board, what), found in times.items():
        cuts = ", ".join(f"{x:.2f}" for x in np.quantile(found, (0.5, 0.99, 0.999)))
        print(f"{board:<6}{what:<9} ms at 50, 99, 99.9 %: {cuts}", flush=True)
    ratio = np.quantile(times["big", "rank"], 0.99) / np.quantile(times["small", "rank"], 0.99)
    print(f"rank at 99 %, big / small: {ratio:.1f}")
    for path in ("watch", "state"):
        took, _ = timed(lambda last=path: ask("GET", f"/v1/boards/big/{last}", None))
        print(f"{path}: {1000 * took:.0f} ms", flush=True)
    print(f"end: {server.end(signal.SIGTERM):.1f} s", flush=True)
    print(f"start after it: {server.start():.1f} s; {server.resident() / 2**20:.0f} MB")
    took, _ = timed(lambda: Connection(server.port)("POST", "/v1/boards/big/rank", {}))
    print(f"first list: {took:.2f} s", flush=True)
    server.end(signal.SIGKILL)
    print(f"start after a kill: {server.start():.1f} s", flush=True)


if __name__ == "__main__":
    main()
