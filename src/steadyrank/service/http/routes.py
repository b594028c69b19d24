"""All routes with their scopes. The annotations of their functions define the schemas, also for OpenAPI."""

from .board_routes import (
    BOARDS,
    add_items,
    delete_board,
    detail_items,
    detail_part,
    detail_rounds,
    detail_rows,
    detail_sender,
    detail_settings,
    forget_client,
    get_board,
    list_boards,
    put_board,
    record,
    record_after,
    retire_item,
    retire_items,
    rotate_secret,
)
from .collection_routes import (
    detail_collection,
    forget_query,
    get_collection,
    judgments,
    list_collections,
    put_collection,
    rank_query,
    read_query,
    read_state,
    take_past,
    watch_collection,
)
from .ingest_routes import ingest
from .observe_routes import comparison, interleaving, observe
from .rank_routes import OUTCOMES, feedback, feedback_batch, history, outcome, outcome_batch, rank
from .request import COLLECTIONS, Change, Route
from .state_route import state
from .ubi_routes import ubi
from .watch_routes import export, label, label_client, labels, unlabel, watch

# for several boards: a key for any one of them is enough, as for the lists of boards and collections
UBI, INGEST = "/v1/ubi", "/v1/ingest"
_BOARD = f"{BOARDS}/{{board}}"
_ITEMS, _LABELS, _SENDERS = (f"{_BOARD}/{part}" for part in ("items", "labels", "client-labels"))
_PUT = Change("board made or changed", detail_settings)
_RESEALED = Change("signing secret rotated")
_DELETED = Change("board deleted")
_ADDED = Change("items added or reinstated", detail_items)
_RETIRED = Change("item retired", detail_part)
_SEVERAL = Change("items retired", detail_items)
_PAST = Change("past clicks added", detail_rows)
_GONE = Change("client forgotten")
_LABELLED = Change("rounds labelled", detail_rounds)
_JUDGED = Change("client or cohort labelled", detail_sender)
_UNLABELLED = Change("label taken back", detail_part)
_LOST = Change("query forgotten")
_CLIENT = f"{_BOARD}/clients/{{client}}"
_QUERIES = f"{COLLECTIONS}/{{collection}}"
_STATE_QUERY, _PAGE, _LIMIT = ("limit", "after", "segment"), ("limit", "after"), ("limit",)
_OF_UBI = "board", "outcomes"
_JUDGMENTS = ("format", "looks", "highest")
_MADE = Change("collection made or changed", detail_collection)


def _shared() -> list[Route]:
    """Routes of boards that collections share under their own path."""
    parts = [
        "feedback",
        "outcomes",
        "observe",
        "clients/{client}",
        "labels",
        "client-labels",
        "labels/{number}",
        "secret",
    ]
    parts += ["comparison", "interleaving", "export"]
    paths = {f"{_BOARD}/{part}": f"{_QUERIES}/{part}" for part in parts}
    return [route._replace(path=paths[route.path]) for route in _BOARD_ROUTES if route.path in paths]


_BOARD_ROUTES = [
    Route("POST", f"{_BOARD}/rank", "rank", "A list of items", rank),
    Route("POST", f"{_BOARD}/feedback", "public", "Answer a list", feedback),
    Route("POST", "/v1/feedback", "public", "Answer many lists", feedback_batch, True),
    Route("POST", f"{_BOARD}/outcomes", "feedback", "What came of a click", outcome),
    Route("POST", OUTCOMES, "feedback", "What came of many clicks", outcome_batch, True),
    Route("POST", f"{_BOARD}/observe", "observe", "A list of another ranker", observe),
    Route("POST", UBI, "observe", "User Behavior Insights", ubi, True, query=_OF_UBI),
    Route("POST", INGEST, "observe", "Messages of a stream", ingest, True, query=_OF_UBI),
    Route("GET", BOARDS, "rank", "Boards by name", list_boards, query=("limit", "after")),
    Route("PUT", _BOARD, "admin", "Make or change a board", put_board, True, _PUT),
    Route("GET", _BOARD, "rank", "A board", get_board),
    Route("DELETE", _BOARD, "admin", "Delete a board and its log", delete_board, change=_DELETED),
    Route("POST", _ITEMS, "admin", "Add or reinstate items", add_items, True, _ADDED),
    Route("DELETE", f"{_ITEMS}/{{item}}", "admin", "Retire an item", retire_item, change=_RETIRED),
    Route("POST", f"{_ITEMS}/retire", "admin", "Retire items", retire_items, True, _SEVERAL),
    Route("POST", f"{_BOARD}/history", "admin", "Past clicks", history, True, _PAST),
    Route("GET", f"{_BOARD}/state", "admin", "The state of a board", state, query=_STATE_QUERY),
    Route("DELETE", _CLIENT, "admin", "Forget a client", forget_client, False, _GONE, ("cohort",)),
    Route("GET", _LABELS, "admin", "All labels", labels),
    Route("POST", _LABELS, "admin", "Label rounds", label, change=_LABELLED),
    Route("POST", _SENDERS, "admin", "Label a client or a cohort", label_client, change=_JUDGED),
    Route("DELETE", f"{_LABELS}/{{number}}", "admin", "Remove a label", unlabel, change=_UNLABELLED),
    Route("POST", f"{_BOARD}/secret", "admin", "Rotate the secret", rotate_secret, change=_RESEALED),
    Route("GET", f"{_BOARD}/comparison", "admin", "Compare another ranker with ours", comparison),
    Route("GET", f"{_BOARD}/interleaving", "admin", "Clicks on mixed lists", interleaving),
    Route("GET", f"{_BOARD}/watch", "admin", "A summary of a board", watch, query=("segment",)),
    Route("GET", f"{_BOARD}/export", "admin", "Export a board to a file", export),
]
ROUTES = [
    *_BOARD_ROUTES,
    Route("POST", f"{_QUERIES}/rank", "rank", "A list for a query", rank_query),
    Route("GET", COLLECTIONS, "rank", "Collections", list_collections, query=_PAGE),
    Route("PUT", _QUERIES, "admin", "Make or change a collection", put_collection, change=_MADE),
    Route("GET", _QUERIES, "rank", "A collection", get_collection),
    Route("DELETE", _QUERIES, "admin", "Delete a collection", delete_board, change=_DELETED),
    Route("POST", f"{_QUERIES}/history", "admin", "Past clicks", take_past, True, _PAST),
    Route("GET", f"{_QUERIES}/state", "admin", "The state of a collection", read_state, query=_LIMIT),
    Route("POST", f"{_QUERIES}/query", "admin", "The state of a query", read_query),
    Route("POST", f"{_QUERIES}/forget", "admin", "Forget a query", forget_query, change=_LOST),
    Route("GET", f"{_QUERIES}/judgments", "admin", "Judgments as a file", judgments, query=_JUDGMENTS),
    Route("GET", f"{_QUERIES}/watch", "admin", "A summary of a collection", watch_collection),
    *_shared(),
    Route("GET", "/v1/record", "admin", "Who changed what", record),
    Route("GET", "/v1/record/{number}", "admin", "Who changed what since", record_after),
]
