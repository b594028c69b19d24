"""Every request of the service, written once, as steps that a blocking or asynchronous transport carries out."""

import functools
import math
import pathlib
import secrets
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, Generic, ParamSpec, TypeVar, overload
from urllib.parse import quote, urlencode

from ..core.files import replacing, writable_through
from ..core.refusals import Refused
from .patience import MOST_BOARDS, AnswerQueue, Breaker, Owners, Patience, Steps, ask, deliver, log
from .wire import Address, Request

if TYPE_CHECKING:
    from . import AsyncClient, Client

P = ParamSpec("P")
T = TypeVar("T")

_OMITTED: Any = object()
_ITEMS_AT_ONCE = 50_000  # per request
_WRONG = (400, 413, 414, 415, 422, 431)  # codes of requests that are wrong in themselves


@dataclass(frozen=True)
class Ranking:
    """A list to show: the server's, or the caller's own if the server gave none."""

    impression: str  # for answering it; empty for a fallback, whose feedback is not sent
    items: tuple[str, ...]
    expires: float  # seconds since 1970; 0 for a fallback
    skipped: int = 0  # candidates left out
    fallback: bool = False  # whether this is the caller's own list
    why: str = ""  # if so, what went wrong
    unkept: tuple[str, ...] = ()  # rules that could not be kept


@dataclass(frozen=True)
class Observed:
    """The result of reporting another ranker's list."""

    outcome: str  # shown (not answered yet), learnt, waiting, late or duplicate
    impression: str  # for answering it
    expires: float  # seconds since 1970
    ours: tuple[str, ...]  # what the board would have shown


class Outcome(str):
    """The outcome of an answer, a word; `says`: the server's explanation of it, empty if there is none."""

    says: str

    def __new__(cls, word: str, says: str = "") -> "Outcome":
        """Make an outcome with an explanation."""
        outcome = super().__new__(cls, word)
        outcome.says = says
        return outcome


class steps(Generic[P, T]):
    """Decorates a method that yields steps: `Client` runs it, `AsyncClient` returns a coroutine."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: "Client", owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: "Api | None", owner: type) -> Callable[Concatenate[Any, P], Steps[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """The method of a client; on the class, the undecorated function."""
        if client is None:
            return self.describe

        @functools.wraps(self.describe)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._run(self.describe(client, *args, **kwargs))

        return call


class Api:
    """What `Client` and `AsyncClient` have in common: everything but I/O and waiting."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        key: str | None = None,
        *,
        timeout: float | None = None,
        tries: int | None = None,
        breaker_failures: int = 5,
        breaker_seconds: float = 5.0,
        queue: int | None = None,
        straight: bool = False,
        sleep: Callable[[float], Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = Address(url, key)
        self._owners = Owners(self._address, key, straight)
        self._patient = Patience(10.0 if timeout is None else timeout, 5 if tries is None else tries, whole=False)
        self._quick = Patience(0.2 if timeout is None else timeout, 1 if tries is None else tries, whole=True)
        self._breaker = Breaker(breaker_failures, breaker_seconds, clock)
        self._refused: dict[str, int] = {}  # by board, until it gives a list: the code already logged
        self._queue = AnswerQueue((10_000 if tries is None else 0) if queue is None else queue)
        self._secure = ssl.create_default_context() if self._address.secure else None
        self._prepare(sleep)

    def _prepare(self, sleep: Callable[[float], Any] | None) -> None:
        """Set up the transport; `sleep(seconds)` replaces its own if given."""
        raise NotImplementedError

    @property
    def queued(self) -> int:
        """The number of answers queued for sending in the background."""
        return len(self._queue)

    @property
    def lost(self) -> int:
        """The number of queued answers that never counted: refused, or dropped from a full queue.

        The log has the reason.
        """
        return self._queue.lost

    def _ask(self, method: str, path: str, body: Any = None, into: BinaryIO | None = None) -> Steps[dict[str, Any]]:
        """Send a request and return the content of the answer; with `into`, its body is written there."""
        return ask(Request(method, path, body, into), self._patient, self._address.name)

    def _deliver(self) -> Steps[None]:
        """Send the queued answers, each request once: what fails stays in the queue."""
        return deliver(self._queue, Patience(self._patient.timeout, 1, whole=True), self._address.name)

    def _start_delivery(self) -> None:
        """Run `_deliver` in the background."""
        raise NotImplementedError

    def _ask_for_a_list(self, path: str, board: str, body: dict[str, Any]) -> Steps[dict[str, Any]]:
        """Request a list with little patience, or fail at once while the breaker is open."""
        if not self._breaker.permits():
            raise ConnectionError(f"no answer from {self._address.name} of late: not asked again yet")
        try:
            request = Request("POST", f"{path}/rank", body, board=board)
            content = yield from ask(request, self._quick, self._address.name)
        except ConnectionError:
            self._breaker.note(worked=False)
            raise
        except Refused as refusal:
            self._breaker.note(worked=refusal.code < 500)
            raise
        self._breaker.note(worked=True)
        return content

    @steps
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
        rules: Mapping[str, Any] | None = None,
        fallback: Sequence[str] | None = None,
    ) -> Steps[Ranking]:
        """Rank items, all or some candidates, and return the list.

        `client`: who looks; `cohort`: what it has in common with others, by kind, such as network or agent.
        `unknown`: what to do with candidates that are not on the board: "refuse", "skip" or "add". `theirs`: a list
        of your own, to be mixed with the board's where it has `interleave`; this needs a `client`. `features`: of the
        visit, by name, where the board has `features`; `segment`: of the visit, one of the board's `segments`.
        `rules`: for this list, in addition to the board's (docs/rules.md). `fallback`: the list to return, marked as
        such, if the server gives none in time, for whatever reason; only requests that are wrong in themselves are
        still refused. Without a fallback, this is an error.
        """
        some = None if candidates is None else _names("candidates", candidates)
        own = None if fallback is None else _names("fallback", fallback)
        body: dict[str, Any] = {"candidates": some, "length": length, "client": client}
        body |= {"cohort": dict(cohort)} if cohort else {}
        body |= {"unknown": unknown} if unknown != "refuse" else {}  # unknown to older servers
        body |= {"theirs": _names("theirs", theirs)} if theirs is not None else {}
        body |= {"features": _finite_features(features)} if features else {}
        body |= {"segment": segment} if segment is not None else {}
        body |= {"rules": dict(rules)} if rules else {}
        return (yield from self._list(_board(board), board, body, own))

    def _list(self, path: str, board: str, body: dict[str, Any], own: list[str] | None) -> Steps[Ranking]:
        """Return the server's list, or the caller's own if there is none."""
        try:
            got = yield from self._ask_for_a_list(path, board, body)
        except (ConnectionError, Refused) as error:
            code = error.code if isinstance(error, Refused) else 0
            if own is None or code in _WRONG:
                raise
            if code in (401, 403, 404) and self._refused.get(board) != code:  # errors that do not pass by themselves
                if len(self._refused) >= MOST_BOARDS:
                    self._refused.clear()
                self._refused[board] = code
                log.warning("the fallback of %r is shown from now on: %d, %s", board, code, error)
            return Ranking("", tuple(own), 0.0, fallback=True, why=str(error))
        self._refused.pop(board, None)
        return Ranking(
            got["impression"],
            tuple(got["items"]),
            got["expires"],
            got.get("skipped", 0),
            unkept=tuple(got.get("unkept", ())),
        )

    @steps
    def rank_query(
        self,
        collection: str,
        query: str,
        candidates: Sequence[str],
        *,
        scores: Sequence[float] | None = None,
        length: int | None = None,
        client: str | None = None,
        cohort: Mapping[str, str] | None = None,
        theirs: Sequence[str] | None = None,
        rules: Mapping[str, Any] | None = None,
        fallback: bool = True,
    ) -> Steps[Ranking]:
        """Re-rank an engine's results for a query by a collection. `feedback` answers the list, with the same name.

        `candidates`: in the engine's order, with its `scores` on any scale. `fallback`: if the server gives no list
        in time, return the candidates unchanged; otherwise that is an error. All else as for `rank`.
        """
        order = _names("candidates", candidates)
        body: dict[str, Any] = {"query": query, "candidates": order, "length": length, "client": client}
        body |= {"scores": [float(score) for score in scores]} if scores is not None else {}
        body |= {"cohort": dict(cohort)} if cohort else {}
        body |= {"theirs": _names("theirs", theirs)} if theirs is not None else {}
        body |= {"rules": dict(rules)} if rules else {}
        return (yield from self._list(_collection(collection), collection, body, order if fallback else None))

    @steps
    def feedback(
        self,
        board: str,
        impression: str,
        *,
        clicked: str | None = _OMITTED,
        clicks: Sequence[bool | int] | None = None,
        examined: int | None = None,
        client: str | None = None,
        value: float | None = None,
        id: str | None = None,
        wait: bool = True,
    ) -> Steps[Outcome]:
        """Answer an impression: the clicked item or None, or one bit per place.

        Returns learnt, waiting, late or duplicate.

        For a waiting answer, `says` of the returned word tells when it will be learnt from. "queued": the server did
        not answer in time, or earlier answers are still to be sent; this one is sent in the background, and counts
        once. `wait=False` queues it without trying. "fallback": the list was the caller's own, and there is nothing
        to answer. `client`: who answers; required where the board has `bind_client`. `value`: of an immediate outcome
        of the click, as reported by `outcome` under this `id`.
        """
        body: dict[str, Any] = {"impression": impression}
        given = {"client": client, "value": None if value is None else float(value), "id": id}
        body |= {name: each for name, each in given.items() if each is not None}
        body |= _answer(clicked, clicks, examined)
        request = Request("POST", f"{_board(board)}/feedback", body, board=board)
        if not impression:
            return Outcome("fallback")
        if not wait and not self._queue.most:
            raise ValueError("wait=False needs a queue: this client has none, because of queue=0 or tries")
        if wait and not self.queued:
            try:
                got = yield from ask(request, self._quick, self._address.name)
                return Outcome(got["outcome"], got.get("says", ""))
            except (ConnectionError, Refused) as error:
                if not self._queue.most or (isinstance(error, Refused) and error.code < 500):
                    raise
                log.info("an answer is queued: %s", error)
        if self._queue.add({"board": board, **body}):
            self._start_delivery()
        return Outcome("queued")

    @steps
    def observe(
        self,
        /,
        board: str,
        id: str,
        items: Sequence[str],
        *,
        clicked: str | None = _OMITTED,
        clicks: Sequence[bool | int] | None = None,
        examined: int | None = None,
        **more: Any,
    ) -> Steps[Observed]:
        """Learn from a list shown by another ranker, with its answer if known; counts once for each `id`.

        `more`: `client`, `cohort`, `features` and `segment` as for `rank`; `time`, `propensities`, `marginals`,
        `candidates`, `value`: docs/shadow.md
        """
        body: dict[str, Any] = {"id": id, "items": _names("items", items), **more}
        body |= {"features": _finite_features(more["features"])} if more.get("features") else {}
        body |= _answer(clicked, clicks, examined)
        request = Request("POST", f"{_board(board)}/observe", body, board=board)
        got = yield from ask(request, self._patient, self._address.name)
        return Observed(got["outcome"], got["impression"], got["expires"], tuple(got["ours"]))

    @steps
    def ubi(
        self, rows: Iterable[Mapping[str, Any]], board: str | None = None, outcomes: str | None = None
    ) -> Steps[dict[str, Any]]:
        """Learn from queries and events of User Behavior Insights.

        Returns what was learnt from, and refusals with reasons.

        `board`: overrides the rows' `application`. `outcomes`: the actions that are outcomes, instead of purchases,
        and the attributes below `event_attributes` with their values, such as `purchase:price,watch:seconds`.
        """
        return (yield from self._ask("POST", f"/v1/ubi{_query(board=board, outcomes=outcomes)}", list(rows)))

    @steps
    def ingest(
        self,
        rows: Iterable[Mapping[str, Any]],
        places: Iterable[tuple[str, int]] | None = None,
        board: str | None = None,
        outcomes: str | None = None,
    ) -> Steps[list[dict[str, Any]]]:
        """Process messages of a stream: answers, outcomes, lists as for `observe`, rows of UBI.

        Returns a row with code for each.

        `places`: for each message its stream partition and offset. `board`: for messages that name none. `outcomes`:
        of rows of UBI, as for `ubi`. Messages whose row has `again` must be sent again.
        """
        body = {"rows": list(rows), "places": None if places is None else list(places)}
        path = f"/v1/ingest{_query(board=board, outcomes=outcomes)}"
        done: list[dict[str, Any]] = (yield from self._ask("POST", path, body))["rows"]
        return done

    @steps
    def feedback_batch(self, answers: Iterable[Mapping[str, Any]]) -> Steps[list[dict[str, Any]]]:
        """Answer many impressions: rows with board, impression and clicked or clicks; a row with code for each."""
        rows: list[dict[str, Any]] = (yield from self._ask("POST", "/v1/feedback", {"feedback": list(answers)}))[
            "feedback"
        ]
        return rows

    @steps
    def outcome(
        self, board: str, impression: str, item: str, value: float, *, id: str, kind: str = "purchase"
    ) -> Steps[str]:
        """Report an outcome of a click.

        Returns learnt, counted (where clicks are the goal), waiting, ignored or duplicate.

        `value`: at least 0, in one unit for the whole board; `id`: deduplicates per click; `kind`: any word; "return"
        subtracts from what was reported before. It needs a key with the scope feedback.
        """
        body = {"impression": impression, "item": item, "value": float(value), "id": id, "kind": kind}
        request = Request("POST", f"{_board(board)}/outcomes", body, board=board)
        got = yield from ask(request, self._patient, self._address.name)
        return str(got["outcome"])

    @steps
    def outcome_batch(self, outcomes: Iterable[Mapping[str, Any]]) -> Steps[list[dict[str, Any]]]:
        """Report outcomes of many clicks: rows with board, impression, item, value and id.

        Returns a row with code for each.
        """
        body = {"outcomes": list(outcomes)}
        rows: list[dict[str, Any]] = (yield from self._ask("POST", "/v1/outcomes", body))["outcomes"]
        return rows

    @steps
    def put_board(self, /, board: str, **settings: Any) -> Steps[dict[str, Any]]:
        """Create a board (which requires `items`), or change its settings.

        `items`: names, or a mapping from names to features, where the board has `features`. A request that changes
        the learner is answered when all events have been replayed: `timeout` must allow for that.
        """
        if "items" not in settings:
            return (yield from self._ask("PUT", _board(board), settings))
        first, *others = _in_parts(_items(settings["items"]))
        answer = yield from self._ask("PUT", _board(board), settings | {"items": first})
        for part in others:
            answer = yield from self._ask("PUT", _board(board), {"items": part})
        return answer

    @steps
    def board(self, board: str) -> Steps[dict[str, Any]]:
        """The settings and counts of a board."""
        return (yield from self._ask("GET", _board(board)))

    @steps
    def boards(self) -> Steps[list[dict[str, Any]]]:
        """All boards, by name, requested in pages of 1,000."""
        return self._every("boards")

    def _every(self, kind: str) -> Steps[list[dict[str, Any]]]:
        """All boards, or collections, page by page."""
        rows: list[dict[str, Any]] = []
        following: str | None = ""
        while following is not None:
            page = yield from self._page(following, kind)
            rows += page[kind]
            following = page.get("next")  # older servers send all at once
        return rows

    def _page(self, after: str, kind: str = "boards") -> Steps[dict[str, Any]]:
        """A page of boards, or collections, after a name."""
        return self._ask("GET", f"/v1/{kind}?after={quote(after, safe='')}")

    @steps
    def delete_board(self, board: str) -> Steps[None]:
        """Delete a board and its log; 404 if there is none, even if an earlier try of this call deleted it."""
        yield from self._ask("DELETE", _board(board))

    @steps
    def add_items(self, board: str, items: Iterable[str]) -> Steps[None]:
        """Add items, or reinstate retired ones: names, or a mapping from names to features."""
        for part in _in_parts(_items(items)):
            yield from self._ask("POST", f"{_board(board)}/items", {"items": part})

    @steps
    def retire_item(self, board: str, item: str) -> Steps[None]:
        """Retire an item: it is no longer shown."""
        yield from self._ask("DELETE", f"{_board(board)}/items/{_part(item)}")

    @steps
    def retire_items(self, board: str, items: Iterable[str]) -> Steps[None]:
        """Retire items: either all, or none if one is unknown; very many are sent 50,000 at a time."""
        for part in _in_parts(_names("items", items)):
            yield from self._ask("POST", f"{_board(board)}/items/retire", {"items": part})

    @steps
    def history(self, board: str, rows: Iterable[Mapping[str, Any]], batch: str = "") -> Steps[int]:
        """Learn from past clicks, rows with items and clicked or clicks. Returns how many were learnt from.

        Rows may have `features` and `segment`, as for `rank`; those of a collection have a `query`. A named batch is
        learnt once, however often it is sent; other rows under the same name are refused with 409. By default the
        name is random.
        """
        checked_rows = [
            {**row, "features": _finite_features(row["features"])} if row.get("features") else row for row in rows
        ]
        body = {"rows": checked_rows, "batch": batch or secrets.token_hex(16)}
        path = _collection(board) if any("query" in row for row in checked_rows) else _board(board)
        return int((yield from self._ask("POST", f"{path}/history", body))["rows"])

    @steps
    def state(
        self, board: str, after: str | None = None, limit: int | None = None, segment: str | None = None
    ) -> Steps[dict[str, Any]]:
        """A page of items with click rates and estimates, and the learner's view of the feedback.

        At most 10,000 items or `limit`; "next" is the value of `after` for the next page, None at the end. `segment`:
        of the silenced clients, only those with visits of it.
        """
        return (
            yield from self._ask("GET", f"{_board(board)}/state{_query(after=after, limit=limit, segment=segment)}")
        )

    @steps
    def label(self, board: str, start: int, end: int, label: str) -> Steps[int]:
        """Label rounds, both ends included, as "fraud" or "honest". Returns the number of the label."""
        body = {"start": start, "end": end, "label": label}
        return int((yield from self._ask("POST", f"{_board(board)}/labels", body))["number"])

    @steps
    def unlabel(self, board: str, number: int) -> Steps[None]:
        """Remove a label."""
        yield from self._ask("DELETE", f"{_board(board)}/labels/{_part(str(number))}")

    @steps
    def labels(self, board: str) -> Steps[list[dict[str, Any]]]:
        """The labels in force, by number."""
        rows: list[dict[str, Any]] = (yield from self._ask("GET", f"{_board(board)}/labels"))["labels"]
        return rows

    @steps
    def client_labels(self, board: str) -> Steps[list[dict[str, Any]]]:
        """The labels of clients and cohorts in force, by number."""
        rows: list[dict[str, Any]] = (yield from self._ask("GET", f"{_board(board)}/labels"))["clients"]
        return rows

    @steps
    def watch(self, board: str, segment: str | None = None) -> Steps[dict[str, Any]]:
        """The data of a board's page: list, regimes, timeline, labels, ...; `segment` as for `state`."""
        return (yield from self._ask("GET", f"{_board(board)}/watch{_query(segment=segment)}"))

    @steps
    def comparison(self, board: str) -> Steps[dict[str, Any]]:
        """Compare with what our lists would have got instead of those reported by `observe`, with 95 % intervals."""
        return (yield from self._ask("GET", f"{_board(board)}/comparison"))

    @steps
    def interleaving(self, board: str) -> Steps[dict[str, Any]]:
        """Whose items were clicked more on mixed lists, and the verdict: ours, theirs or open; valid at any time."""
        return (yield from self._ask("GET", f"{_board(board)}/interleaving"))

    @steps
    def export(self, board: str, path: str | pathlib.Path) -> Steps[int]:
        """Export the board with its log to a file, atomically. Returns its size in bytes.

        The server reads the whole log before it answers: the client's `timeout` must allow for that.
        """
        path = pathlib.Path(path)
        if writable_through(path):
            raise ValueError(f"{path} is no regular file: an interrupted export could not be written again")
        with replacing(path) as file:
            yield from self._ask("GET", f"{_board(board)}/export", into=file)
            return file.tell()

    @steps
    def forget_client(self, board: str, client: str, cohort: str | None = None) -> Steps[int]:
        """Delete what is stored of a client, or of a cohort of a kind. Returns the number of its impressions."""
        which = "" if cohort is None else f"?cohort={quote(cohort, safe='')}"
        return int((yield from self._ask("DELETE", f"{_board(board)}/clients/{_part(client)}{which}"))["impressions"])

    @steps
    def label_client(self, board: str, client: int | str, label: str, kind: str | None = None) -> Steps[int]:
        """Label a client, or a cohort of a `kind`, as "fraud" or "honest". Returns the number of the label.

        `client`: its number in `state`, or the name given to `rank`.
        """
        body = {"client": client, "label": label, "kind": kind}
        return int((yield from self._ask("POST", f"{_board(board)}/client-labels", body))["number"])

    @steps
    def rotate_secret(self, board: str) -> Steps[float]:
        """Sign impression ids with a new secret. Returns until when earlier ids are valid, in seconds since 1970."""
        return float((yield from self._ask("POST", f"{_board(board)}/secret"))["until"])

    @steps
    def put_collection(self, /, collection: str, **settings: Any) -> Steps[dict[str, Any]]:
        """Create a collection, or change its settings; changes to learning are answered after a replay."""
        return (yield from self._ask("PUT", _collection(collection), settings))

    @steps
    def collection(self, collection: str) -> Steps[dict[str, Any]]:
        """The settings and counts of a collection."""
        return (yield from self._ask("GET", _collection(collection)))

    @steps
    def collections(self) -> Steps[list[dict[str, Any]]]:
        """All collections, by name, requested in pages of 1,000."""
        return self._every("collections")

    @steps
    def delete_collection(self, collection: str) -> Steps[None]:
        """Delete a collection and its log; 404 if there is none, even if an earlier try of this call deleted it."""
        yield from self._ask("DELETE", _collection(collection))

    @steps
    def collection_state(self, collection: str, limit: int | None = None) -> Steps[dict[str, Any]]:
        """What is known of the engine's places, and of the queries with the most visits, at most 1,000 or `limit`."""
        return (yield from self._ask("GET", f"{_collection(collection)}/state{_query(limit=limit)}"))

    @steps
    def collection_watch(self, collection: str) -> Steps[dict[str, Any]]:
        """The data of a collection's page: `collection_state` with 50 queries, timeline, labels, ..."""
        return (yield from self._ask("GET", f"{_collection(collection)}/watch"))

    @steps
    def query(self, collection: str, query: str | None = None, *, id: str | None = None) -> Steps[dict[str, Any]]:
        """What is known of a query and its items, by its text, or by the `id` from `collection_state`."""
        return (yield from self._ask("POST", f"{_collection(collection)}/query", _asked(query, id)))

    @steps
    def forget_query(self, collection: str, query: str | None = None, *, id: str | None = None) -> Steps[int]:
        """Forget a query, by its text or `id`, in memory and in the log. Returns how many events mentioned it."""
        body = _asked(query, id)
        return int((yield from self._ask("POST", f"{_collection(collection)}/forget", body))["events"])

    @steps
    def judgments(
        self, collection: str, path: str | pathlib.Path, *, format: str = "csv", looks: int = 1, highest: int = 3
    ) -> Steps[int]:
        """Write relevance judgments of every document with at least `looks` looks to a file.

        Returns its size in bytes.

        `format`: "csv" or "qrels"; `highest`: the top grade.
        """
        with replacing(pathlib.Path(path)) as file:
            parameters = _query(format=format, looks=looks, highest=highest)
            yield from self._ask("GET", f"{_collection(collection)}/judgments{parameters}", into=file)
            return file.tell()

    @steps
    def record(self, after: int | None = None) -> Steps[list[dict[str, Any]]]:
        """The audit record: the latest rows, or those after a number, at most 500; oldest first."""
        path = "/v1/record" if after is None else f"/v1/record/{_part(str(after))}"
        rows: list[dict[str, Any]] = (yield from self._ask("GET", path))["record"]
        return rows


def _answer(clicked: Any, clicks: Sequence[bool | int] | None, examined: int | None) -> dict[str, Any]:
    answer: dict[str, Any] = {} if clicked is _OMITTED else {"clicked": clicked}
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
    """Split items into requests, in order."""
    if isinstance(items, dict):
        pairs = list(items.items())
        return [dict(pairs[k : k + _ITEMS_AT_ONCE]) for k in range(0, len(pairs), _ITEMS_AT_ONCE)] or [{}]
    return [items[k : k + _ITEMS_AT_ONCE] for k in range(0, len(items), _ITEMS_AT_ONCE)] or [[]]


def _finite_features(features: Mapping[str, Any]) -> dict[str, Any]:
    """Raise ValueError unless features are finite: JSON has no NaN, and the server could not name the feature."""
    for name, value in features.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"feature {name!r} must be a finite number, or None if it is not known, not {value!r}")
    return dict(features)


def _query(**parameters: Any) -> str:
    """The query string of the given parameters, with a question mark; empty if there are none."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _part(name: str) -> str:
    """Quote text for a path. Raises ValueError for dots, which would change the path."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} cannot stand in a path")
    return quote(name, safe="")


def _asked(query: str | None, id: str | None) -> dict[str, str]:
    """The body that names a query."""
    if (query is None) == (id is None):
        raise ValueError("give either query, the text of a query, or its id")
    return {"query": query} if query is not None else {"id": str(id)}


def _board(name: str) -> str:
    return f"/v1/boards/{_part(name)}"


def _collection(name: str) -> str:
    return f"/v1/collections/{_part(name)}"
