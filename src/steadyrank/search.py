"""Re-rank the responses of OpenSearch and Elasticsearch, unmodified, by a collection.

Call `re_rank` in your code after the engine's answer and before rendering the page. It needs no library of an engine:
a response is a mapping with `hits.hits`, each of which has an `_id`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .client import AsyncClient, Client, Ranking

WINDOW = 100  # hits re-ranked by default


def hit_id(hit: Mapping[str, Any]) -> str:
    """The name of a document: its `_id`, the same in every index in which it is found."""
    return str(hit["_id"])


class Found(NamedTuple):
    """A response with its hits in our order, and the list that they come from.

    `response`: as the engine gave it, or a copy if the order differs. `shown`: its `impression` answers the list;
    `fallback` is set if the service gave none in time, and the hits are in the engine's order.
    """

    response: dict[str, Any]
    shown: Ranking


class Hits:
    """The hits of a response: names and scores of the first ones, in the engine's order."""

    def __init__(
        self,
        response: Mapping[str, Any],
        window: int = WINDOW,
        name: Callable[[Mapping[str, Any]], str] = hit_id,
    ) -> None:
        """`window`: how many are re-ranked; `name`: names a hit. Of hits with the same name the first counts."""
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise ValueError(f"window must be a whole number of at least 1, not {window!r}")
        try:
            self._all = list(response["hits"]["hits"])
            named = {name(hit): hit for hit in reversed(self._all)}
        except (KeyError, TypeError) as error:
            raise ValueError(f"a response has hits.hits, each with an _id: {type(error).__name__} {error}") from None
        self._response, self._named = response, dict(reversed(named.items()))
        self.names = list(self._named)[:window]
        given = [self._named[one].get("_score") for one in self.names]
        # no scores where the engine sorts by a field: then its order is all there is
        self.scores = None if any(score is None for score in given) else [float(score) for score in given]

    def in_order(self, items: tuple[str, ...]) -> dict[str, Any]:
        """The response with these items first, in this order, followed by all other hits in their original order."""
        first = [self._named[item] for item in items]
        chosen = set(map(id, first))
        hits = [*first, *(hit for hit in self._all if id(hit) not in chosen)]
        return {**self._response, "hits": {**self._response["hits"], "hits": hits}}


def re_rank(
    client: Client,
    collection: str,
    query: str,
    response: Mapping[str, Any],
    /,
    *,
    window: int = WINDOW,
    name: Callable[[Mapping[str, Any]], str] = hit_id,
    **more: Any,
) -> Found:
    """Re-rank the hits of a response by a collection; without an answer in time, they stay as they are.

    `more`: `length`, `client`, `cohort`, `theirs` and `rules` of `Client.rank_query`. Hits beyond the length of the
    list stay in the engine's order, including those that rules exclude. For a response without hits no request is
    sent.
    """
    hits = Hits(response, window, name)
    if not hits.names:
        return Found(dict(response), _NO_RANKING)
    shown = client.rank_query(collection, query, hits.names, scores=hits.scores, **more)
    return Found(hits.in_order(shown.items), shown)


async def re_rank_async(
    client: AsyncClient,
    collection: str,
    query: str,
    response: Mapping[str, Any],
    /,
    *,
    window: int = WINDOW,
    name: Callable[[Mapping[str, Any]], str] = hit_id,
    **more: Any,
) -> Found:
    """`re_rank` with an `AsyncClient`."""
    hits = Hits(response, window, name)
    if not hits.names:
        return Found(dict(response), _NO_RANKING)
    shown = await client.rank_query(collection, query, hits.names, scores=hits.scores, **more)
    return Found(hits.in_order(shown.items), shown)


_NO_RANKING = Ranking("", (), 0.0, fallback=True, why="the engine found nothing")


def ubi_query(
    found: Found, query: str, application: str, client: str | None = None, timestamp: str | None = None
) -> dict[str, Any]:
    """The row of a list for an index of User Behavior Insights; its `query_id` is the impression.

    Events of the page with this `query_id` answer the list: send them to `/v1/ubi` as well. Raises ValueError for a
    fallback, which has no impression: generate an id of your own for that.
    """
    if not found.shown.impression:
        raise ValueError("the list has no impression: the service did not give it")
    row = {
        "application": application,
        "query_id": found.shown.impression,
        "user_query": query,
        "query_response_hit_ids": list(found.shown.items),
    }
    return row | {key: value for key, value in (("client_id", client), ("timestamp", timestamp)) if value is not None}
