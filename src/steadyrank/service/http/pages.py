"""The pages of the dashboard: the same for everyone and without data, which they request with a key."""

import hashlib
import re
from importlib import resources

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


class Page:
    """A file of the dashboard, read once."""

    def __init__(self, name: str, content: bytes) -> None:
        self._content = content
        self._headers = _HEADERS | {
            "content-type": _TYPES[name.rpartition(".")[2]],
            "content-length": str(len(content)),
            "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        }

    def answer(self, request: Request) -> Response:
        """Return the file, or 304 if the browser has the current version."""
        marks = [mark.strip().removeprefix("W/") for mark in request.headers.get("if-none-match", "").split(",")]
        if self._headers["etag"] in marks:
            kept = {name: value for name, value in self._headers.items() if not name.startswith("content-")}
            return Response(status_code=304, headers=kept)
        return Response(b"" if request.method == "HEAD" else self._content, headers=self._headers)


def paths() -> list[Route]:
    """The routes of the pages: all boards, one board or collection, and static files.

    No other file is ever opened.
    """
    folder = resources.files(__package__) / "static"
    served = [file for file in folder.iterdir() if re.fullmatch(rf"[^.].*\.({'|'.join(_TYPES)})", file.name)]
    files = {file.name: Page(file.name, file.read_bytes()) for file in served}

    async def one_file(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in files:
            raise HTTPException(404, "no such file")
        return files[name].answer(request)

    return [Route(path, one_file) for path in ("/", "/boards/{board}", "/collections/{board}", "/static/{name}")]
