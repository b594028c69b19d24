"""Many boards on one worker: time to create them, memory when evicted, and time to start and to stop.

python bench/boards.py 1000 10000
python bench/boards.py --bulk 100000
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ITEMS = [f"item {k}" for k in range(10)]


HEAD = (
    "boards    made/s: first, last tenth   KB asleep   ready s   first list ms: 50 %, 99 %   end s   killed: ready s"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1_000, 10_000])
    parser.add_argument("--lists", type=int, default=10, help="a list of each of so many boards, which is answered")
    parser.add_argument("--awake", type=int, default=1_000, help="boards in memory")
    parser.add_argument(
        "--bulk", action="store_true", help="write the boards into the store, rather than ask for them"
    )
    options = parser.parse_args()
    print(f"boards of {len(ITEMS)} items on SQLite, {options.awake} of them in memory")
    print(HEAD)
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            row = measure(pathlib.Path(folder), size, options)
        print(row, flush=True)


def measure(folder, size, options):
    server = Service(folder, options.awake)
    if options.bulk:
        write(folder, options.awake)
        server.start()
        before = server.resident()
        server.end(signal.SIGKILL)
        write(folder, size)
        made, asleep, end = "-, -", None, 0.0
    else:
        made, asleep, end = make(server, size, options)
    ready = server.start()
    if options.bulk:
        asleep = (server.resident() - before) / (size - options.awake) / 1024
    times, ask = [], Connection(server.port)
    for k in range(0, size, max(size // 300, 1)):
        begin = time.perf_counter()
        ask("POST", f"/v1/boards/b{k}/rank", {})
        times.append(1000 * (time.perf_counter() - begin))
    cuts = statistics.quantiles(times, n=100)
    end = max(end, server.end(signal.SIGTERM))
    server.start()
    server.end(signal.SIGKILL)
    again = server.start()
    server.end(signal.SIGKILL)
    kept = "-" if asleep is None else f"{asleep:.1f}"
    lists = f"{cuts[49]:.1f}, {cuts[98]:.1f}"
    return f"{size:<10}{made:>26}{kept:>12}{ready:>10.1f}{lists:>28}{end:>8.1f}{again:>18.1f}"


def make(server, size, options):
    """Create boards, request and answer lists of some; print the rate, memory when evicted, and time to stop."""
    server.start()
    ask, marks, half = Connection(server.port), [time.perf_counter()], None
    for k in range(size):
        ask("PUT", f"/v1/boards/b{k}", {"items": ITEMS, "length": 10})
        if k % options.lists == 0:
            shown = ask("POST", f"/v1/boards/b{k}/rank", {})
            body = {"impression": shown["impression"], "clicked": shown["items"][k % 3]}
            ask("POST", f"/v1/boards/b{k}/feedback", body)
        if k + 1 in (size // 10, size - size // 10, size):
            marks.append(time.perf_counter())
        if k + 1 == max(2 * options.awake, size // 2):
            half = k + 1, server.resident()
    asleep = None
    if half is not None and half[0] < size:
        asleep = (server.resident() - half[1]) / (size - half[0]) / 1024
    first, last = (size // 10 / (marks[k + 1] - marks[k]) for k in (0, 2))
    return f"{first:.0f}, {last:.0f}", asleep, server.end(signal.SIGTERM)


def write(folder, size):
    """Write a store with boards that were evicted after they were created."""
    from steadyrank.service.board import events
    from steadyrank.service.board.board import Board
    from steadyrank.service.board.config import Config
    from steadyrank.service.storage import open_store
    from steadyrank.service.storage.sql_store import event_checksum
    from steadyrank.service.worker.board_cache import BoardSummary

    path = folder / "boards.db"
    for old in folder.glob("boards.db*"):
        old.unlink()
    open_store(f"sqlite:///{path}").close()
    event = events.encode(events.Created(Config(), ITEMS))
    summary = BoardSummary.of(Board.create(Config(), ITEMS)).encode()
    numbers, now = range(1, size + 1), time.time()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        boards = ((n, f"b{n - 1}", n.to_bytes(32)) for n in numbers)
        db.executemany("INSERT INTO boards (id, name, secret) VALUES (?, ?, ?)", boards)
        rows = ((n, n, now, event, event_checksum(n, n, now, event)) for n in numbers)
        db.executemany("INSERT INTO events (seq, board, at, body, checksum) VALUES (?, ?, ?, ?, ?)", rows)
        db.executemany("INSERT INTO rests VALUES (?, ?, ?)", ((n, n, summary) for n in numbers))
        db.execute("UPDATE head SET seq = ?", (size,))


class Service:
    """`steadyrank serve` as a process."""

    def __init__(self, folder, awake):
        self.folder, self.awake = folder, awake

    def start(self):
        """Start it; returns seconds until it is ready."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        command = [sys.executable, "-m", "steadyrank.cli", "serve", "--port", str(self.port)]
        command += ["--awake-boards", str(self.awake), "--store", f"sqlite:///{self.folder}/boards.db"]
        begin = time.perf_counter()
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ)
        while True:
            with contextlib.suppress(OSError, urllib.error.HTTPError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5)
                return time.perf_counter() - begin
            time.sleep(0.02)

    def resident(self):
        """Resident memory in bytes."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(text.split("VmRSS:")[1].split()[0])

    def worked(self):
        """Processor time in seconds."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, number):
        """Send it a signal; returns seconds until it has ended."""
        begin = time.perf_counter()
        self.process.send_signal(number)
        self.process.wait()
        return time.perf_counter() - begin


class Connection:
    """Requests over one connection."""

    def __init__(self, port):
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def __call__(self, method, path, body):
        self._http.request(method, path, json.dumps(body), {"content-type": "application/json"})
        answer = self._http.getresponse()
        content = answer.read()
        assert answer.status == 200, (answer.status, content)
        return json.loads(content)


if __name__ == "__main__":
    main()
