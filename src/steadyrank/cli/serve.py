"""`steadyrank serve`, and commands for its operators: boards, export, import, compact."""

import argparse
import contextlib
import getpass
import os
import pathlib
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from ..service.http.limits import MEANINGS, Limits, check

if TYPE_CHECKING:
    from ..service.storage import SqlStore

_STORE = "sqlite:///steadyrank.db"
_WEBHOOK = "STEADYRANK_WEBHOOK"
_SECRET = "STEADYRANK_WEBHOOK_SECRET"
_KEEP_DAYS = "events older than this are replaced by a snapshot"
_KEEP_EVENTS = "the most events of a board; older ones are replaced by a snapshot"
_SET = "STEADYRANK_STORE"  # a variable, so that the password of a store does not appear in process listings


def add(commands: Any) -> None:
    """Add the commands of the service."""
    long = "Serve the boards of a store over HTTP, with a dashboard at the same address."
    sub = command(commands, "serve", "rank over HTTP", long, _serve, "--store sqlite:///boards.db")
    sub.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; any but a loopback address needs API keys"
    )
    sub.add_argument("--port", type=int, default=8080, help="port to listen on")
    sub.add_argument("--keep-days", type=float, default=90.0, metavar="DAYS", help=_KEEP_DAYS)
    sub.add_argument("--keep-events", type=int, default=5_000_000, metavar="EVENTS", help=_KEEP_EVENTS)
    sub.add_argument(
        "--awake-boards",
        type=int,
        default=1_000,
        metavar="BOARDS",
        help="most boards in memory; the least recently used ones are evicted",
    )
    for name, default in Limits()._asdict().items():
        unit = name.rpartition("_")[2].upper()
        sub.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default, metavar=unit, help=MEANINGS[name][0]
        )
    sub.add_argument("--webhook", metavar="URL", help=f"where alerts are sent (default: the value of {_WEBHOOK})")
    sub.add_argument(
        "--webhook-secret-file",
        metavar="FILE",
        type=pathlib.Path,
        help=f"file with the secret that signs them, 24 bytes or more (default: the value of {_SECRET})",
    )
    sub.add_argument(
        "--demo", action="store_true", help="serve a board with simulated users and attacks, in a temporary store"
    )
    sub.add_argument(
        "--demo-attack-after",
        type=float,
        metavar="SECONDS",
        help="time with honest users before each attack of the demo (default: 60)",
    )
    command(commands, "boards", "boards of a store", "List the boards of a store.", _boards)
    sub = command(
        commands,
        "export",
        "write a board with its log to a file",
        "Write a board with its log to a file.",
        _export,
        "front --out front.jsonl",
    )
    sub.add_argument("board", help="its name")
    sub.add_argument("--out", required=True, type=pathlib.Path, help="file to write")
    sub.add_argument("--with-secret", action="store_true", help="keep impression ids valid that were given out")
    sub.add_argument("--key-file", type=pathlib.Path, metavar="FILE", help="file with the key that signs the export")
    sub = command(
        commands,
        "import",
        "read a board from a file",
        "Create a board from a file that `export` wrote.",
        _import,
        "front.jsonl",
    )
    sub.add_argument("file", type=pathlib.Path, help="a file that `export` wrote")
    sub.add_argument(
        "--as",
        dest="name",
        metavar="NAME",
        help="name of the copy, which gets a new secret (default: the name it had)",
    )
    words = "file with the key: an export that is not signed with it is refused"
    sub.add_argument("--key-file", type=pathlib.Path, metavar="FILE", help=words)
    sub.add_argument(
        "--board-bytes",
        type=int,
        default=Limits().board_bytes,
        metavar="BYTES",
        help="limit on the memory of a board, the same as on the servers; a larger board is refused",
    )
    sub = command(
        commands,
        "compact",
        "shorten logs",
        "Replace the oldest events by snapshots.",
        _compact,
        "--keep-days 30",
    )
    sub.add_argument("--keep-days", type=float, default=90.0, metavar="DAYS", help=_KEEP_DAYS)
    sub.add_argument("--keep-events", type=int, default=5_000_000, metavar="EVENTS", help=_KEEP_EVENTS)
    words = "the current time (default: by the clock of the database, or of this machine)"
    sub.add_argument("--now", type=float, metavar="SECONDS_SINCE_1970", help=words)
    words = "numbers separated by commas: compact only boards in these partitions of a PostgreSQL store"
    sub.add_argument("--partitions", metavar="NUMBERS", help=words)


def command(commands: Any, name: str, short: str, long: str, run: Any, example: str = "") -> Any:
    """Add a command that works on a store; returns its parser."""
    epilog = f"example: steadyrank {name} {example}" if example else None
    sub = commands.add_parser(name, help=short, description=long, epilog=epilog)
    words = f"sqlite:///PATH or postgresql://... (default: the value of {_SET}, or {_STORE})"
    sub.add_argument("--store", dest="given", metavar="STORE", help=words)
    sub.set_defaults(run=_with_extra(run))
    return sub


def _with_extra(run: Any) -> Any:
    def wrapped(options: argparse.Namespace) -> int | None:
        try:
            from ..service.storage import Unavailable
        except ImportError as error:
            raise ValueError(f"the service needs: pip install 'steadyrank[service]' ({error})") from error
        options.store = os.environ.get(_SET, _STORE) if options.given is None else options.given
        try:
            code: int | None = run(options)
        except Unavailable as error:
            raise ValueError(f"the store cannot be used: {error}") from error
        except ImportError as error:
            raise ValueError(f"the service needs: pip install 'steadyrank[service]' ({error})") from error
        return code

    return wrapped


def _serve(options: argparse.Namespace) -> None:
    from ..service.http.server import serve

    if not 0 <= options.port <= 65535:
        raise ValueError(f"a port is from 0 to 65535, not {options.port}")
    _check_limits(options)
    limits = Limits(*(getattr(options, name) for name in Limits._fields))
    check(limits)
    if options.awake_boards < 1:
        raise ValueError(f"--awake-boards must be at least 1, not {options.awake_boards}")
    webhook = _webhook(options)
    if options.demo:
        _demo(options, limits, webhook)
    elif options.demo_attack_after is not None:
        raise ValueError(f"--demo-attack-after {options.demo_attack_after:g} goes with --demo")
    else:
        kept = options.keep_days, options.keep_events
        rest = {"limits": limits, "invite": _invite, "most_awake": options.awake_boards, "webhook": webhook}
        serve(options.store, options.host, options.port, *kept, **rest)


def _webhook(options: argparse.Namespace) -> tuple[str, bytes] | None:
    """The URL that alerts are sent to and the secret that signs them; None without a URL."""
    from ..service.alerts.webhook import check_url, read_secret

    url = os.environ.get(_WEBHOOK) if options.webhook is None else options.webhook
    secret = os.environ.get(_SECRET)
    if options.webhook_secret_file is not None:
        try:
            secret = options.webhook_secret_file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"--webhook-secret-file {options.webhook_secret_file} cannot be read: {error}") from None
    if not url:
        if options.webhook_secret_file is not None:
            raise ValueError(f"--webhook-secret-file goes with --webhook, or with {_WEBHOOK}")
        return None
    if not secret:
        raise ValueError(f"alerts are signed: name a file with --webhook-secret-file, or set {_SECRET}")
    return check_url(url), read_secret(secret)


def _invite(link: str) -> None:
    print(f"Look at the boards in a browser: {link}", flush=True)


def _demo(options: argparse.Namespace, limits: Limits, webhook: tuple[str, bytes] | None) -> None:
    """Serve the demo with simulated users, in a temporary store or an empty one given by --store."""
    from ..service.demo import Plan, check_empty, visits
    from ..service.http.auth import loopback
    from ..service.http.server import serve

    after = Plan().after if options.demo_attack_after is None else options.demo_attack_after
    if not after >= 1:
        raise ValueError(f"--demo-attack-after must be at least 1 second, not {after:g}")
    if not loopback(options.host):
        raise ValueError(f"the demo has no keys and is for this machine alone, not for others at {options.host}")
    plan, begin = Plan(after), time.monotonic()

    def print_news(news: str) -> None:
        print(f"[{time.monotonic() - begin:5.0f} s] {news}", flush=True)

    with tempfile.TemporaryDirectory(prefix="steadyrank-demo-") as folder:
        url = options.given or f"sqlite:///{folder}/demo.db"
        check_empty(url)
        print("Starting a board with simulated users.", flush=True)
        kept = options.keep_days, options.keep_events
        serve(url, options.host, options.port, *kept, visits(plan, print_news), limits, webhook=webhook)


def _partitions(given: str | None, count: int) -> set[int] | None:
    """Parse the partitions, None for all."""
    if given is None:
        return None
    numbers = [number.strip() for number in given.split(",") if number.strip()]
    for number in numbers:
        if not (number.isascii() and number.isdigit() and int(number) < count):
            raise ValueError(f"--partitions are numbers from 0 to {count - 1} with commas, not {number!r:.80}")
    return set(map(int, numbers))


def _check_limits(options: argparse.Namespace) -> None:
    if not options.keep_days > 0:
        raise ValueError(f"--keep-days must be more than 0, not {options.keep_days:g}")
    if options.keep_events < 1_000:
        raise ValueError(f"--keep-events must be at least 1000, not {options.keep_events}")


def operator() -> str:
    """Who runs the command, for the record."""
    try:
        return f"command line, {getpass.getuser()}"
    except (KeyError, OSError):  # a user without a name
        return f"command line, user {os.getuid()}"


def time_of(store: "SqlStore") -> float:
    """The current time by the clock of the database, which workers use, or of this machine if it has none."""
    store_time = store.time()
    return time.time() if store_time is None else store_time


def must_exist(store: str) -> None:
    """Raise ValueError if the store does not exist: opening it would create an empty one."""
    from ..service.storage import would_be_new

    if would_be_new(store):
        raise ValueError(f"there is no store {store}: name it with --store or {_SET}")


def _boards(options: argparse.Namespace) -> None:
    from ..service.storage import open_store
    from ..service.worker.board_cache import summaries

    must_exist(options.store)
    print(f"{'board':<24}{'learner':<16}{'items':>9}{'impressions':>13}{'answers':>11}{'clicks':>10}")
    with contextlib.closing(open_store(options.store)) as store:
        for name, board in summaries(store):
            if isinstance(board, str):
                print(f"{name:<24}cannot be read: {board}")
                continue
            row = f"{board.items:>9,}{board.impressions:>13,}{board.answers:>11,}{board.clicks:>10,}"
            print(f"{name:<24}{board.learner:<16}{row}")


def _export(options: argparse.Namespace) -> None:
    from ..service.storage import open_store
    from ..service.worker.transfer import export, read_key

    must_exist(options.store)
    key = None if options.key_file is None else read_key(options.key_file)

    def show_count(count: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{count:,} events", end="", file=sys.stderr)

    with contextlib.closing(open_store(options.store)) as store:
        count = export(store, options.board, options.out, options.with_secret, show_count, key)
        if options.with_secret:
            store.record(time_of(store), operator(), "board exported with its secret", options.board, "")
    print(f"{options.out}: board {options.board} with {count:,} events")


def _import(options: argparse.Namespace) -> None:
    from ..service.storage import open_store
    from ..service.worker.transfer import bring_in, read_board, read_key

    key = None if options.key_file is None else read_key(options.key_file)
    # before opening the store: an invalid file must not create an empty one
    carried = read_board(options.file, key, options.board_bytes)
    with contextlib.closing(open_store(options.store)) as store:
        name, count, same_secret = bring_in(store, carried, options.name)
        store.record(time_of(store), operator(), "board imported", name, f"{count} events")
    print(f"board {name} with {count:,} events")
    if same_secret:
        print("It has the secret of the board that was exported: its impression ids can be answered here.")
    else:
        print("It has a secret of its own: impression ids of the board that was exported are refused here.")


def _compact(options: argparse.Namespace) -> int:
    from ..service.storage import open_store
    from ..service.worker.transfer import compact

    _check_limits(options)
    must_exist(options.store)
    left_out: dict[str, str] = {}
    with contextlib.closing(open_store(options.store)) as store:
        now = time_of(store) if options.now is None else options.now
        limits = now - 86_400 * options.keep_days, options.keep_events
        gone = compact(store, *limits, left_out.__setitem__, _partitions(options.partitions, store.partitions))
    for name, count in gone.items():
        print(f"{name}: {count:,} events became a snapshot")
    if not gone:
        print("nothing to do")
    for name, why in left_out.items():
        print(f"{name}: left as it is, since it cannot be read: {why}", file=sys.stderr)
    return 2 if left_out else 0
