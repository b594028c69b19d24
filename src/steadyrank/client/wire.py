"""HTTP/1.1 without I/O: encode requests, and parse responses incrementally."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import urlsplit

_MOST_HEAD = 65_536  # bytes


class BrokenResponse(ConnectionError):
    """The data received is no complete HTTP response."""


class StaleConnection(ConnectionError):
    """The server closed an idle connection before answering: retry on a new one."""


@dataclass(frozen=True)
class Request:
    """A request of the API; with `into`, the body of a response with status 200 is written there.

    `board`: for sending it directly to the owner; empty if that is not worthwhile.
    """

    method: str
    path: str
    body: Any = None
    into: BinaryIO | None = None
    board: str = ""


class Address:
    """The address of a server, from http://HOST:PORT/PATH or https://..."""

    def __init__(self, url: str, key: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the address of a server is http://HOST:PORT or https://HOST:PORT, not {url!r}")
        self.secure, self.host, self.name = parts.scheme == "https", parts.hostname, parts.netloc.rpartition("@")[2]
        self.port = parts.port or (443 if self.secure else 80)
        self._path = parts.path.rstrip("/")
        self._headers = f"host: {self.name}\r\ncontent-type: application/json\r\n"
        if key is not None:
            if not key.isascii() or not key.isprintable():
                raise ValueError("an API key is printable ASCII text without line ends")
            self._headers += f"authorization: Bearer {key}\r\n"

    def encode(self, request: Request) -> bytes:
        """Encode a request."""
        body = b"" if request.body is None else json.dumps(request.body).encode()
        head = f"{request.method} {self._path}{request.path} HTTP/1.1\r\n{self._headers}content-length: {len(body)}"
        return f"{head}\r\n\r\n".encode() + body


class ResponseReader:
    """Parses one response from chunks of bytes, with content-length, chunked, or ended by the connection's end."""

    def __init__(self, into: BinaryIO | None = None) -> None:
        self.status, self.headers, self.done, self.reusable = 0, dict[str, str](), False, False
        self.started = False  # whether any byte was received
        self._into, self._body = into, bytearray()
        self._buffer, self._left, self._ended = bytearray(), 0, False
        self._part: Callable[[], bool] = self._head

    def feed(self, data: bytes) -> bool:
        """Process received data, b"" at the end of the connection. Returns whether the response is complete."""
        self.started = self.started or bool(data)
        self._ended = not data
        self._buffer += data
        while not self.done and self._part():
            pass
        if self._ended and not self.done:
            raise BrokenResponse("the connection ended within a response" if self.started else "no response came")
        if self.done and self._buffer:  # more than was asked for
            self.reusable = False
        return self.done

    def content(self) -> dict[str, Any]:
        """The body as JSON; any other body as the message."""
        try:
            content = json.loads(self._body or b"{}")
        except ValueError:
            content = None
        return content if isinstance(content, dict) else {"message": self._body[:200].decode(errors="replace")}

    def retry_after(self) -> float:
        """The seconds of the Retry-After header; 1 if there is none."""
        wait = self.headers.get("retry-after", "")
        return float(wait) if wait.isdecimal() else 1.0

    def _line(self, end: bytes) -> bytes | None:
        """Remove and return the data before `end`; None if it is incomplete."""
        at = self._buffer.find(end)
        if at < 0 and len(self._buffer) > _MOST_HEAD:
            raise BrokenResponse(f"a response has at most {_MOST_HEAD} bytes of headers")
        if at < 0:
            return None
        line = bytes(self._buffer[:at])
        del self._buffer[: at + len(end)]
        return line

    def _head(self) -> bool:
        head = self._line(b"\r\n\r\n")
        if head is None:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
            raise BrokenResponse(f"no HTTP response begins with {first[:40]!r}")
        self.status = int(rest[:3])
        if self.status < 200:  # such as 100 Continue: the final response follows
            return True
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self.reusable = version == "HTTP/1.1" and self.headers.get("connection", "").lower() != "close"
        self._choose_body()
        return True

    def _choose_body(self) -> None:
        if self.status == 200 and self._into is not None:
            self._into.seek(0)
            self._into.truncate()  # left by an interrupted response
        length = self.headers.get("content-length")
        if self.status in (204, 304):
            self.done = True
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._part = self._chunk_size
        elif length is None:
            self.reusable, self._part = False, self._until_the_end
        elif length.isdecimal():
            self._left, self._part = int(length), self._counted
        else:
            raise BrokenResponse(f"content-length is a number, not {length[:40]!r}")

    def _take(self, count: int) -> int:
        """Move up to `count` bytes from the buffer to the body. Returns how many."""
        part = bytes(self._buffer[:count])
        del self._buffer[:count]
        if self.status == 200 and self._into is not None:
            self._into.write(part)
        else:
            self._body += part
        return len(part)

    def _counted(self) -> bool:
        self._left -= self._take(self._left)
        self.done = self._left == 0
        return False

    def _until_the_end(self) -> bool:
        self._take(len(self._buffer))
        self.done = self._ended
        return False

    def _chunk_size(self) -> bool:
        line = self._line(b"\r\n")
        if line is None:
            return False
        try:
            self._left = int(line.partition(b";")[0], 16)
        except ValueError:
            raise BrokenResponse(f"the size of a chunk is a hexadecimal number, not {line[:40]!r}") from None
        self._part = self._chunk if self._left else self._trailer
        return True

    def _chunk(self) -> bool:
        self._left -= self._take(self._left)
        if self._left or len(self._buffer) < 2:
            return False
        if self._line(b"\r\n") != b"":
            raise BrokenResponse("a chunk is longer than it says")
        self._part = self._chunk_size
        return True

    def _trailer(self) -> bool:
        line = self._line(b"\r\n")
        self.done = line == b""
        return bool(line)
