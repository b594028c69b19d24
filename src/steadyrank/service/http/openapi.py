"""The API's description in OpenAPI 3.1, made from the routes."""

from typing import Any

import msgspec

from ...core.version import __version__
from ...live.collection.judgments import FORMATS
from ..board.checks import BOARD_NAME
from ..board.events import KIND_NAME
from . import collection_routes
from .board_routes import MOST_BOARDS
from .collection_routes import MOST_QUERIES
from .request import ErrorOut, Route
from .routes import ROUTES
from .state_route import MOST_ITEMS

_REFUSALS = {
    "401": "no API key, or an unknown one",
    "403": "not allowed, or a forged or foreign impression id",
    "404": "unknown board, item or label",
    "405": "not a method of this path",
    "409": "already answered otherwise, or of rounds whose log is no longer kept",
    "410": "expired",
    "408": "the request took too long to arrive",
    "413": "too large a body",
    "414": "too long an address",
    "415": "a content type that is not JSON",
    "422": "malformed, or an item that was not shown",
    "429": "too many answers or lists of a client, or answers without a client",
    "431": "too many or too long headers",
    "503": "the store is away: try again after Retry-After seconds",
}
FILE_TYPE = "application/x-ndjson"
_NO_BODY_NEEDED = ("rank", "put_board", "put_collection")
_QUERY: dict[str, dict[str, Any]] = {
    "board": {"type": "string", "pattern": f"^{BOARD_NAME}$"},
    "limit": {"type": "integer", "minimum": 1},
    "after": {"type": "string"},
    "cohort": {"type": "string", "pattern": f"^{KIND_NAME}$"},
    "segment": {"type": "string"},
    "outcomes": {"type": "string", "examples": ["purchase:price,watch:seconds"]},
    "format": {"type": "string", "enum": list(FORMATS), "default": FORMATS[0]},
    "looks": {"type": "integer", "minimum": 1, "default": 1},
    "highest": {"type": "integer", "minimum": 1, "maximum": 100, "default": 3},
}
_MOST = {  # maximal `limit`, by operation
    "list_boards": MOST_BOARDS,
    "list_collections": MOST_BOARDS,
    "state": MOST_ITEMS,
    "read_state": MOST_QUERIES,
}
_PARTS = {
    "board": {"type": "string", "pattern": f"^{BOARD_NAME}$"},
    "collection": {"type": "string", "pattern": f"^{BOARD_NAME}$"},
    "item": {"type": "string", "minLength": 1},
    "client": {"type": "string", "minLength": 1, "maxLength": 200},
    "number": {"type": "integer", "minimum": 0},
}


def describe() -> dict[str, Any]:
    """Build the whole description."""
    used = [
        schema for route in ROUTES for schema in (route.request_schema, route.response_schema) if schema is not None
    ]
    _, components = msgspec.json.schema_components([*used, ErrorOut], ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "steadyrank",
            "version": __version__,
            "description": "Learn good rankings from clicks, even when bots send some of them.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    shared = "collection" in names and route.run.__module__ != collection_routes.__name__
    error = {"application/json": {"schema": _reference(ErrorOut)}}
    given: dict[str, Any] = {FILE_TYPE: {"schema": {"type": "string"}}}
    if route.response_schema is not None:
        given = {"application/json": {"schema": _reference(route.response_schema)}}
    query: list[dict[str, Any]] = [{"name": name, "in": "query", "schema": _QUERY[name]} for name in route.query]
    if most := _MOST.get(route.run.__name__):
        query[0] = query[0] | {"schema": _QUERY["limit"] | {"maximum": most, "default": most}}
    operation: dict[str, Any] = {
        "operationId": f"{route.run.__name__}_of_collection" if shared else route.run.__name__,
        "summary": route.summary,
        "description": (route.run.__doc__ or "").strip(),
        "parameters": [{"name": name, "in": "path", "required": True, "schema": _PARTS[name]} for name in names]
        + query,
        "responses": {
            "200": {"description": "done", "content": given},
            **{code: {"description": words, "content": error} for code, words in _REFUSALS.items()},
        },
    }
    if route.request_schema is not None:
        body = {"application/json": {"schema": _reference(route.request_schema)}}
        operation["requestBody"] = {"required": route.run.__name__ not in _NO_BODY_NEEDED, "content": body}
    operation["security"] = [{}, {"key": []}]
    return operation


def _reference(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, type):  # several schemas
        return msgspec.json.schema(schema)
    return {"$ref": f"#/components/schemas/{schema.__name__}"}
