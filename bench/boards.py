"""Many boards on one worker: how fast they are made, how much they take asleep, and how long a start and an end take.

python bench/boards.py 1000 10000
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ITEMS = [f"item {k}" for k in range(10)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1_000, 10_000])
    parser.add_argument("--awake", type=int, default=1_000, help="boards in memory")
    options = parser.parse_args()
    print(
        f"boards of {len(ITEMS)} items on SQLite, {options.awake} of them in memory; a list and an answer of each tenth"
    )
    print(
        "boards    made/s first, last tenth    KB asleep    ready s    first list ms, 50 % and 99 %    end s    killed: ready s"
    )
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            row = measure(pathlib.Path(folder), size, options.awake)
        print(row, flush=True)


def measure(folder, size, awake):
    server = Service(folder, awake)
    server.start()
    ask = Connection(server.port)
    base, marks = server.resident(), [time.perf_counter()]
    half = None
    for k in range(size):
        ask("PUT", f"/v1/boards/b{k}", {"items": ITEMS, "length": 10})
        if k % 10 == 0:
            shown = ask("POST", f"/v1/boards/b{k}/rank", {})
            body = {"impression": shown["impression"], "clicked": shown["items"][k % 3]}
            ask("POST", f"/v1/boards/b{k}/feedback", body)
        if k + 1 in (size // 10, size - size // 10, size):
            marks.append(time.perf_counter())
        if k + 1 == max(2 * awake, size // 2):
            half = k + 1, server.resident()
    asleep = (
        "-" if half is None or size <= half[0] else f"{(server.resident() - half[1]) / (size - half[0]) / 1024:.1f}"
    )
    tenth = size // 10
    first, last = tenth / (marks[1] - marks[0]), tenth / (marks[3] - marks[2])
    end = server.end(signal.SIGTERM)
    ready = server.start()
    ask = Connection(server.port)
    times = []
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
    places = f"{size:<10}{first:>6.0f}, {last:<14.0f}{asleep:>12}{ready:>11.1f}"
    return f"{places}{cuts[49]:>14.1f}, {cuts[98]:<14.1f}{end:>9.1f}{again:>18.1f}    (base {base / 2**20:.0f} MB)"


class Service:
    """`steadyrank serve` as a process."""

    def __init__(self, folder, awake):
        self.folder, self.awake = folder, awake

    def start(self):
        """Start it; seconds until it is ready."""
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
        """Bytes of memory."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(text.split("VmRSS:")[1].split()[0])

    def end(self, number):
        """Send it a signal; seconds until it has ended."""
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
