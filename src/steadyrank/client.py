"""A client of the ranking service: the standard library alone. Requests are sent again while it cannot be reached."""

import http.client
import json
import math
import pathlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode, urlsplit

from .core.files import replacing, writable_through
from .core.refusals import Refused


class _Connections:
    """Connections to one server, one for each thread. Refusals are `Refused` with the server's code.

    `straight`: a thread has one more for each worker behind the server that owns boards it asks for.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        timeout: float,
        tries: int,
        sleep: Callable[[float], None],
        straight: bool = False,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the address of a server is http://HOST:PORT or https://HOST:PORT, not {url!r}")
        if tries < 1:
            raise ValueError(f"tries must be at least 1, not {tries!r}")
        self._parts, self._key, self._timeout, self._tries, self._sleep = parts, key, timeout, tries, sleep
        self._straight = straight
        self._owners: dict[str, str] = {}  # HOST:PORT of who answers for a board, by its path
        self._local = threading.local()

    def close(self) -> None:
        """End this thread's connections."""
        connections = self._opened()
        while connections:
            connections.popitem()[1].close()

    def _opened(self) -> dict[str, http.client.HTTPConnection]:
        """This thread's connections: to the server under an empty name, to workers by their addresses."""
        opened: dict[str, http.client.HTTPConnection] = self._local.__dict__.setdefault("connections", {})
        return opened

    def ask(self, method: str, path: str, body: Any = None, into: BinaryIO | None = None) -> dict[str, Any]:
        """What the server answers; with `into`, what it sends is written there."""
        board = "/".join(path.split("/", 4)[:4])  # /v1/boards/NAME
        for attempt in range(1, self._tries + 1):
            place = self._owners.get(board, "")
            reused = place in self._opened()
            try:
                status, wait, content = self._once(board, place, method, path, body, into)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                self._owners.pop(board, None)
                if attempt == self._tries:
                    raise ConnectionError(f"no answer from {place or self._parts.netloc}: {error}") from error
                if attempt > 1 or not reused:  # a connection that lay idle may have been closed meanwhile: no wait
                    self._sleep(min(0.1 * 2**attempt, 2.0))
                continue
            if status == 503:
                self._owners.pop(board, None)
                if attempt < self._tries:
                    self._sleep(wait)
                    continue
            if status != 200:
                raise Refused(status, str(content.get("message", "")))
            return content
        raise AssertionError("unreachable")

    def _connection(self, place: str) -> http.client.HTTPConnection:
        opened = self._opened()
        if place not in opened:
            if place:
                host, _, port = place.rpartition(":")
                opened[place] = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=self._timeout)
            else:
                kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
                opened[place] = kind(self._parts.hostname or "", self._parts.port, timeout=self._timeout)
        return opened[place]

    def _once(
        self, board: str, place: str, method: str, path: str, body: Any, into: BinaryIO | None
    ) -> tuple[int, float, dict[str, Any]]:
        connection = self._connection(place)
        headers = {"content-type": "application/json"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        sent = None if body is None else json.dumps(body).encode()
        connection.request(method, path if place else self._parts.path.rstrip("/") + path, sent, headers)
        answer = connection.getresponse()
        owner = answer.getheader("steadyrank-owner")
        if self._straight and owner is not None:
            self._owners[board] = owner
        if into is not None and answer.status == 200:
            into.seek(0)
            into.truncate()  # what an answer that was cut off left there
            shutil.copyfileobj(answer, into, 1 << 18)
            if answer.length:
                raise http.client.IncompleteRead(b"", answer.length)
            return 200, 0.0, {}
        raw = answer.read()
        wait = answer.getheader("retry-after") or "1"
        try:
            content = json.loads(raw)
        except ValueError:
            content = {"message": raw[:200].decode(errors="replace")}
        return answer.status, float(wait) if wait.isdigit() else 1.0, content


__all__ = ["Client", "Observed", "Ranking", "Refused"]

_LEFT_OUT: Any = object()
_ITEMS_AT_ONCE = 50_000  # of a request


@dataclass(frozen=True)
class Ranking:
    """A list that was given out."""

    impression: str  # to answer it with
    items: tuple[str, ...]
    expires: float  # seconds since 1970
    skipped: int = 0  # candidates that were left out


@dataclass(frozen=True)
class Observed:
    """What became of a list that another ranker showed."""

    outcome: str  # shown (not answered yet), learnt, waiting, late or duplicate
    impression: str  # to answer it with
    expires: float  # seconds since 1970
    ours: tuple[str, ...]  # what the board would have shown


class Client:
    """Talks to one server; safe for threads, each of which keeps a connection of its own.

    Refusals are `steadyrank.Refused` with the server's code. Where the server cannot be reached or answers 503, the
    request is sent again, up to `tries` times, after as long as the server says. A retry never counts an answer
    twice; if the response to `rank` is lost on the way, that list stays unanswered.

    `straight`: where several workers share the boards, ask the one that owns a board itself, from its second request
    on, at the address that answers name. For programs that reach the workers, with the key in plain text.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        key: str | None = None,
        *,
        timeout: float = 10.0,
        tries: int = 5,
        sleep: Callable[[float], None] = time.sleep,
        straight: bool = False,
    ) -> None:
        self._connections = _Connections(url, key, timeout, tries, sleep, straight)
        self._ask = self._connections.ask

    def rank(
        self,
        board: str,
        candidates: Sequence[str] | None = None,
        *,
        length: int | None = None,
        client: str | None = None,
        cohort: Mapping[str, str] | None = None,
        unknown: str = "refuse",
        theirs: Sequence[str] | None = None,
        features: Mapping[str, float | str | None] | None = None,
        segment: str | None = None,
    ) -> Ranking:
        """A list of the best items, among some if given.

        `client`: who looks; `cohort`: what it has in common with others, by kind, such as network or agent.
        `unknown`: what becomes of candidates that are no items: "refuse", "skip" or "add". `theirs`: a list of your
        own, to be mixed with the board's where it has `interleave`; this needs a `client`. `features`: what is known
        of the visit, by name, where the board has `features`; `segment`: which of the board's `segments` it is in.
        """
        some = None if candidates is None else _names("candidates", candidates)
        body: dict[str, Any] = {"candidates": some, "length": length, "client": client}
        body |= {"cohort": dict(cohort)} if cohort else {}
        body |= {"unknown": unknown} if unknown != "refuse" else {}  # what older servers do not know
        body |= {"theirs": _names("theirs", theirs)} if theirs is not None else {}
        body |= {"features": _finite_features(features)} if features else {}
        body |= {"segment": segment} if segment is not None else {}
        got = self._ask("POST", f"{_board(board)}/rank", body)
        return Ranking(got["impression"], tuple(got["items"]), got["expires"], got.get("skipped", 0))

    def feedback(
        self,
        board: str,
        impression: str,
        *,
        clicked: str | None = _LEFT_OUT,
        clicks: Sequence[bool | int] | None = None,
        examined: int | None = None,
        client: str | None = None,
    ) -> str:
        """Answer an impression: the item clicked or None, or a bit a place; learnt, waiting, late or duplicate.

        `client`: who answers; needed where the board has `bind_client`.
        """
        body: dict[str, Any] = {"impression": impression}
        if client is not None:
            body["client"] = client
        body |= _answer(clicked, clicks, examined)
        return str(self._ask("POST", f"{_board(board)}/feedback", body)["outcome"])

    def observe(
        self,
        board: str,
        id: str,
        items: Sequence[str],
        *,
        clicked: str | None = _LEFT_OUT,
        clicks: Sequence[bool | int] | None = None,
        examined: int | None = None,
        **more: Any,
    ) -> Observed:
        """Learn from a list that another ranker showed, and its answer if there is one by now; once for each `id`.

        `more`: `client`, `cohort`, `features` and `segment` as for `rank`; `time`, `propensities`, `marginals`,
        `candidates`: docs/shadow.md
        """
        body: dict[str, Any] = {"id": id, "items": _names("items", items), **more}
        body |= {"features": _finite_features(more["features"])} if more.get("features") else {}
        body |= _answer(clicked, clicks, examined)
        got = self._ask("POST", f"{_board(board)}/observe", body)
        return Observed(got["outcome"], got["impression"], got["expires"], tuple(got["ours"]))

    def ubi(self, rows: Iterable[Mapping[str, Any]], board: str | None = None) -> dict[str, Any]:
        """Learn from queries and events of User Behavior Insights; what was taken, and what was refused and why.

        `board`: in place of the rows' `application`.
        """
        where = "" if board is None else f"?board={quote(board, safe='')}"
        return self._ask("POST", f"/v1/ubi{where}", list(rows))

    def feedback_batch(self, answers: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Answer many impressions: rows with board, impression and clicked or clicks; a row with code for each."""
        rows: list[dict[str, Any]] = self._ask("POST", "/v1/feedback", {"feedback": list(answers)})["feedback"]
        return rows

    def put_board(self, board: str, **settings: Any) -> dict[str, Any]:
        """Make a board (`items` is needed then), or change its settings.

        `items`: names, or what is known of each by its name, where the board has `features`. Settings of the learner
        are answered when the log was folded again: `timeout` must allow for that.
        """
        if "items" not in settings:
            return self._ask("PUT", _board(board), settings)
        first, *others = _in_parts(_items(settings["items"]))
        answer = self._ask("PUT", _board(board), settings | {"items": first})
        for part in others:
            answer = self._ask("PUT", _board(board), {"items": part})
        return answer

    def board(self, board: str) -> dict[str, Any]:
        """A board's settings and counts."""
        return self._ask("GET", _board(board))

    def boards(self) -> list[dict[str, Any]]:
        """Every board, by name: some 1,000 a request."""
        return list(self.each_board())

    def each_board(self, after: str = "") -> Iterator[dict[str, Any]]:
        """Boards by name, those after a name, asked for as they are needed."""
        following: str | None = after
        while following is not None:
            page = self._ask("GET", f"/v1/boards?after={quote(following, safe='')}")
            yield from page["boards"]
            following = page.get("next")  # older servers tell all at once

    def delete_board(self, board: str) -> None:
        """End a board and delete its log; 404 if there is none, also when the first of several tries ended it."""
        self._ask("DELETE", _board(board))

    def add_items(self, board: str, items: Iterable[str]) -> None:
        """Add items, or reinstate retired ones: names, or what is known of each by its name."""
        for part in _in_parts(_items(items)):
            self._ask("POST", f"{_board(board)}/items", {"items": part})

    def retire_item(self, board: str, item: str) -> None:
        """Show an item no longer."""
        self._ask("DELETE", f"{_board(board)}/items/{_part(item)}")

    def retire_items(self, board: str, items: Iterable[str]) -> None:
        """Show items no longer: all of them, or none if one is unknown; of very many, 50,000 at a time."""
        for part in _in_parts(_names("items", items)):
            self._ask("POST", f"{_board(board)}/items/retire", {"items": part})

    def history(self, board: str, rows: Iterable[Mapping[str, Any]], batch: str = "") -> int:
        """Start from past clicks, rows with items and clicked or clicks; how many were learnt from.

        Rows may have `features` and `segment`, as `rank` has them. A batch with a name is learnt once, however often
        it is sent; other rows under the same name are refused with 409. Without one, the name is made up.
        """
        checked_rows = [
            {**row, "features": _finite_features(row["features"])} if row.get("features") else row for row in rows
        ]
        body = {"rows": checked_rows, "batch": batch or secrets.token_hex(16)}
        return int(self._ask("POST", f"{_board(board)}/history", body)["rows"])

    def state(
        self, board: str, after: str | None = None, limit: int | None = None, segment: str | None = None
    ) -> dict[str, Any]:
        """Items with click rates and estimates, and the learner's own view.

        At most 10,000 items or `limit`; what is under "next" is what to give as `after` for more, None at the end.
        `segment`: of those who are not heard, only who had visits of it.
        """
        return self._ask("GET", f"{_board(board)}/state{_query(after=after, limit=limit, segment=segment)}")

    def label(self, board: str, start: int, end: int, label: str) -> int:
        """Label rounds, both ends included, as "fraud" or "honest"; the number of the label."""
        body = {"start": start, "end": end, "label": label}
        return int(self._ask("POST", f"{_board(board)}/labels", body)["number"])

    def unlabel(self, board: str, number: int) -> None:
        """Take a label back."""
        self._ask("DELETE", f"{_board(board)}/labels/{_part(str(number))}")

    def labels(self, board: str) -> list[dict[str, Any]]:
        """The labels in force, by number."""
        rows: list[dict[str, Any]] = self._ask("GET", f"{_board(board)}/labels")["labels"]
        return rows

    def client_labels(self, board: str) -> list[dict[str, Any]]:
        """The labels of clients and cohorts in force, by number."""
        rows: list[dict[str, Any]] = self._ask("GET", f"{_board(board)}/labels")["clients"]
        return rows

    def watch(self, board: str, segment: str | None = None) -> dict[str, Any]:
        """What a page of a board shows: list, regimes, time line, labels, ...; `segment` as for `state`."""
        return self._ask("GET", f"{_board(board)}/watch{_query(segment=segment)}")

    def comparison(self, board: str) -> dict[str, Any]:
        """What our lists would have got in place of the lists that `observe` reported, with 95 % intervals."""
        return self._ask("GET", f"{_board(board)}/comparison")

    def interleaving(self, board: str) -> dict[str, Any]:
        """Whose items were clicked more on mixed lists, and the verdict: ours, theirs or open; valid at any time."""
        return self._ask("GET", f"{_board(board)}/interleaving")

    def export(self, board: str, path: str | pathlib.Path) -> int:
        """Write the board with its log to a file, whole or not at all; how many bytes.

        The server reads the whole log before it answers: the client's `timeout` must allow for that.
        """
        path = pathlib.Path(path)
        if writable_through(path):
            raise ValueError(f"{path} is no file: what is cut off on its way could not be written again")
        with replacing(path) as file:
            self._ask("GET", f"{_board(board)}/export", into=file)
            return file.tell()

    def forget_client(self, board: str, client: str, cohort: str | None = None) -> int:
        """Delete what is kept of a client, or of a cohort of that kind; how many impressions."""
        which = "" if cohort is None else f"?cohort={quote(cohort, safe='')}"
        return int(self._ask("DELETE", f"{_board(board)}/clients/{_part(client)}{which}")["impressions"])

    def label_client(self, board: str, client: int | str, label: str, kind: str | None = None) -> int:
        """Label a client, or a cohort of a `kind`, as "fraud" or "honest"; the number of the label.

        `client`: its number in `state`, or its name as `rank` was given it.
        """
        body = {"client": client, "label": label, "kind": kind}
        return int(self._ask("POST", f"{_board(board)}/client-labels", body)["number"])

    def rotate_secret(self, board: str) -> float:
        """Sign impression ids by a new secret; until when those given out before are good, in seconds since 1970."""
        return float(self._ask("POST", f"{_board(board)}/secret")["until"])

    def record(self, after: int | None = None) -> list[dict[str, Any]]:
        """Who changed what: the latest rows, or those after a number, at most 500; oldest first."""
        path = "/v1/record" if after is None else f"/v1/record/{_part(str(after))}"
        rows: list[dict[str, Any]] = self._ask("GET", path)["record"]
        return rows

    def close(self) -> None:
        """End this thread's connections."""
        self._connections.close()


def _answer(clicked: Any, clicks: Sequence[bool | int] | None, examined: int | None) -> dict[str, Any]:
    answer: dict[str, Any] = {} if clicked is _LEFT_OUT else {"clicked": clicked}
    if clicks is not None:
        answer |= {"clicks": [int(bit) for bit in clicks], "examined": examined}
    return answer


def _names(what: str, names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise ValueError(f"{what} must be several names, not the text {names!r}")
    return list(names)


def _items(items: Iterable[str]) -> list[str] | dict[str, Any]:
    if isinstance(items, Mapping):
        return {item: _finite_features(features) for item, features in items.items()}
    return _names("items", items)


def _in_parts(items: list[str] | dict[str, Any]) -> list[list[str] | dict[str, Any]]:
    """Items for several requests, in order: one takes so many."""
    if isinstance(items, dict):
        pairs = list(items.items())
        return [dict(pairs[k : k + _ITEMS_AT_ONCE]) for k in range(0, len(pairs), _ITEMS_AT_ONCE)] or [{}]
    return [items[k : k + _ITEMS_AT_ONCE] for k in range(0, len(items), _ITEMS_AT_ONCE)] or [[]]


def _finite_features(features: Mapping[str, Any]) -> dict[str, Any]:
    """Features by name; JSON has neither NaN nor infinity, and the server could not say which one it is."""
    for name, value in features.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"feature {name!r} must be a finite number, or None if it is not known, not {value!r}")
    return dict(features)


def _query(**parameters: Any) -> str:
    """What stands behind a path: nothing, or a question mark and what is given."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _part(name: str) -> str:
    """Text for a path; a dot would lead to another one."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} cannot stand in a path")
    return quote(name, safe="")


def _board(name: str) -> str:
    return f"/v1/boards/{_part(name)}"
