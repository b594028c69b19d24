"""Load on the service over loopback, relative to an empty handler of its server: python bench/service.py [--quick].

Throughput of rank and feedback as shares of the empty handler's, and their 99th percentile relative to its median, in
turns within one run; memory over a million impressions; time of a restart with as many events. SQLite.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from steadyrank.client import Client

ITEMS = [f"item {k}" for k in range(500)]
CONNECTIONS = 32


class Server:
    """`steadyrank serve` on its own port."""

    def __init__(self, store, port):
        self.command = [sys.executable, "-m", "steadyrank.cli", "serve", "--store", store, "--port", str(port)]
        self.client, self.port = Client(f"http://127.0.0.1:{port}", tries=100, timeout=60), port
        self.start()

    def start(self):
        begin = time.perf_counter()
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)
        while True:
            try:
                self.client.boards()
                return time.perf_counter() - begin
            except ConnectionError:
                if self.process.poll() is not None:
                    sys.exit(f"the server ended with code {self.process.returncode}: is port {self.port} free?")
                time.sleep(0.01)

    def stop(self):
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


async def exchange(reader, writer, method, path, body):
    sent = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(sent)}\r\n\r\n"
    writer.write(head.encode() + sent)
    answer = await reader.readuntil(b"\r\n\r\n")
    size = next(int(line[15:]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    content = await reader.readexactly(size)
    if answer[9:12] != b"200":
        raise RuntimeError(content)
    return content


async def drive(port, requests, keep=False):
    """Send requests over some connections: returns requests per second, seconds of each, and the responses."""
    times, answers, left = [], [], iter(requests)

    async def one():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in left:
            begin = time.perf_counter()
            answer = await exchange(reader, writer, *request)
            times.append(time.perf_counter() - begin)
            if keep:
                answers.append(answer)
        writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return len(times) / (time.perf_counter() - begin), times, [json.loads(answer) for answer in answers]


def answers_to(shown, rng):
    for s in shown:
        clicked = rng.choice([*s["items"], None, None])
        yield "POST", "/v1/boards/b/feedback", {"impression": s["impression"], "clicked": clicked}


async def turn(port, n, rng):
    """One turn of each kind: (requests per second, median, 99th percentile)."""
    found = {}
    rate, times, _ = await drive(port, [("GET", "/healthz", {})] * n)
    found["empty"] = rate, statistics.median(times), statistics.quantiles(times, n=100)[98]
    rate, times, shown = await drive(port, [("POST", "/v1/boards/b/rank", {})] * n, keep=True)
    found["rank"] = rate, statistics.median(times), statistics.quantiles(times, n=100)[98]
    rate, times, _ = await drive(port, list(answers_to(shown, rng)))
    found["feedback"] = rate, statistics.median(times), statistics.quantiles(times, n=100)[98]
    return found


def load(server, turns, n):
    rng = random.Random(0)
    runs = [asyncio.run(turn(server.port, n, rng)) for _ in range(turns + 1)][1:]
    print(f"{turns} turns of {n:,} requests over {CONNECTIONS} connections, K = 500, lists of 10, medians over turns")
    empty = statistics.median(run["empty"][1] for run in runs)
    for kind in ("empty", "rank", "feedback"):
        rate = statistics.median(run[kind][0] for run in runs)
        share = statistics.median(run[kind][0] / run["empty"][0] for run in runs)
        late = statistics.median(run[kind][2] for run in runs)
        print(f"{kind:<10}{rate:>8.0f} a second, {share:>5.0%} of empty; 99 % in {late / empty:>4.1f} of its medians")


def long_run(server, impressions):
    print(f"\nmemory over {impressions:,} impressions, half of them answered")
    rng, step = random.Random(1), 20_000
    for done in range(step, impressions + 1, step):
        _, _, shown = asyncio.run(drive(server.port, [("POST", "/v1/boards/b/rank", {})] * step, keep=True))
        rows = [
            {"board": "b", "impression": s["impression"], "clicked": rng.choice([*s["items"], None])} for s in shown
        ]
        for start in range(0, step // 2, 5_000):
            server.client.feedback_batch(rows[start : start + 5_000])
        if done * 10 % impressions < step * 10 and (done * 10 // impressions) != ((done - step) * 10 // impressions):
            print(f"{done:>10,} impressions: {server.memory():>6.0f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the load alone, fewer requests")
    parser.add_argument("--learner", default="SteadyRank")
    parser.add_argument("--port", type=int, default=18_080)
    parser.add_argument("--impressions", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(f"sqlite:///{folder}/store.db", options.port)
        try:
            server.client.put_board(
                "b", items=ITEMS, length=10, learner=options.learner, settle=0, anonymous_minute=10**8
            )
            load(server, 3 if options.quick else 5, 4_000 if options.quick else 10_000)
            if not options.quick:
                long_run(server, options.impressions)
                events = server.client.state("b")["event"]
                os.kill(server.process.pid, signal.SIGKILL)
                server.process.wait()
                server.client.close()
                print(f"\nrestart after kill -9 with {events:,} events: {server.start():.1f} s until it answers")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
