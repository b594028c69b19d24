"""`steadyrank keys` manages API keys of the service; `steadyrank record` prints its audit trail."""

import argparse
import contextlib
import datetime
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .serve import command, must_exist, operator, time_of

if TYPE_CHECKING:
    from ..service.storage import Act, Key, SqlStore

_UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_LONGEST = 36_500 * _UNITS["d"]
_GRACE = "1d"


def add(commands: Any) -> None:
    """Add the commands."""
    sub = command(
        commands,
        "keys",
        "API keys of the service",
        "Create, list, rotate and revoke API keys.",
        _keys,
        "create --scope rank",
    )
    sub.add_argument("action", choices=["create", "list", "rotate", "revoke"], help="what to do")
    sub.add_argument("id", nargs="?", help="the key to rotate or to revoke, as `keys list` shows it")
    sub.add_argument(
        "--scope", action="append", default=[], help="rank, feedback, observe or admin; may be given several times"
    )
    sub.add_argument("--board", help="the board that the key is for (default: all)")
    sub.add_argument(
        "--expires", metavar="TIME", help="how long the new key works, such as 90d or 12h (default: forever)"
    )
    sub.add_argument("--grace", metavar="TIME", help=f"how long the old key of a rotation works (default: {_GRACE})")
    command(commands, "record", "who changed what", "Print the record of who changed what, and check it.", _record)


def _seconds(option: str, text: str) -> float:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd])", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST:
        raise ValueError(f"{option} is a time such as 90d, 12h, 30m or 45s, at most 36500d, not {text!r}")
    return seconds


def _keys(options: argparse.Namespace) -> None:
    from ..service.board.checks import check_name
    from ..service.storage import open_store

    if (options.id is None) == (options.action in ("rotate", "revoke")):
        if options.id is None:
            raise ValueError(f"name the key to {options.action}: steadyrank keys {options.action} ID")
        raise ValueError(f"`keys {options.action}` takes no id; {options.id!r} was given")
    if options.action != "create" and (options.scope or options.board):
        raise ValueError(f"--scope and --board are for `keys create`, not for `keys {options.action}`")
    if options.action not in ("create", "rotate") and options.expires is not None:
        raise ValueError(f"--expires is for `keys create` and `keys rotate`, not for `keys {options.action}`")
    if options.action != "rotate" and options.grace is not None:
        raise ValueError(f"--grace is for `keys rotate`, not for `keys {options.action}`")
    if options.board is not None:
        check_name(options.board)
    if options.action != "create":
        must_exist(options.store)
    else:
        _new_key(options, time.time())  # check options first: an invalid one must not create an empty store
    run = {"create": _create, "rotate": _rotate, "revoke": _revoke, "list": _list}[options.action]
    with contextlib.closing(open_store(options.store)) as store:
        run(options, store, time_of(store))


def _new_key(options: argparse.Namespace, now: float) -> tuple[str, "Key"]:
    from ..service.http.auth import make_key

    expires = None if options.expires is None else now + _seconds("--expires", options.expires)
    return make_key(options.scope, options.board, now, expires)


def _create(options: argparse.Namespace, store: "SqlStore", now: float) -> None:
    text, key = _new_key(options, now)
    store.add_key(key, operator())
    _print_key(options, text)


def _rotate(options: argparse.Namespace, store: "SqlStore", now: float) -> None:
    from ..service.http.auth import make_key

    grace = _seconds("--grace", _GRACE if options.grace is None else options.grace)
    old = next((key for key in store.api_keys() if key.id == options.id), None)
    if old is not None and old.expires is not None and options.expires is None:
        raise ValueError(f"key {old.id} expires: say with --expires how long the new one is to work")
    expires = None if options.expires is None else now + _seconds("--expires", options.expires)
    if old is not None:
        text, key = make_key(old.scopes.split(), old.board, now, expires)
    if old is None or not store.replace_key(old.id, key, now + grace, operator()):
        raise ValueError(f"no key {options.id!r} that works: see `steadyrank keys list`")
    _print_key(options, text)
    print(f"The old one works until {_day(now + grace)} UTC, or until it is revoked.", file=sys.stderr)


def _print_key(options: argparse.Namespace, text: str) -> None:
    print(text)
    where = options.store if options.store.startswith("sqlite") else "the PostgreSQL store"
    print(f"A key for {where}. Keep it: it is shown only now.", file=sys.stderr)
    print("Requests send it as `Authorization: Bearer KEY`.", file=sys.stderr)


def _revoke(options: argparse.Namespace, store: "SqlStore", now: float) -> None:
    if not store.revoke_key(options.id, now, operator()):
        raise ValueError(f"no key {options.id!r} that is not revoked: see `steadyrank keys list`")
    print(f"revoked {options.id}")


def _list(options: argparse.Namespace, store: "SqlStore", now: float) -> None:
    for key in store.api_keys():
        print(
            f"{key.id}  {key.scopes:<20}  {key.board or 'all boards':<20}  since {_day(key.created)}{_end(key, now)}"
        )


def _end(key: "Key", now: float) -> str:
    if key.revoked is not None:
        return f"  revoked {_day(key.revoked)}"
    if key.expires is not None:
        return f"  {'until' if now < key.expires else 'expired'} {_day(key.expires)}"
    return ""


def _day(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%Y-%m-%d %H:%M")


def _record(options: argparse.Namespace) -> int:
    from ..service.storage import first_wrong, open_store

    must_exist(options.store)
    with contextlib.closing(open_store(options.store)) as store:
        wrong = first_wrong(_printed(_all(store)))
        for _ in _printed(_all(store, wrong)) if wrong else ():
            pass
    if wrong:
        print(f"row {wrong} does not follow from the one before: the record was changed", file=sys.stderr)
    return 2 if wrong else 0


def _all(store: "SqlStore", after: int = 0) -> Iterator["Act"]:
    while acts := store.acts(after):
        yield from acts
        after = acts[-1].number


def _printed(acts: Iterator["Act"]) -> Iterator["Act"]:
    for act in acts:
        print(
            f"{act.number:>6}  {_day(act.at)}  {act.who:<24}  {act.what:<28}  {act.board:<20}  {act.detail}".rstrip()
        )
        yield act
