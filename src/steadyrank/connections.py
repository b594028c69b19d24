"""Requests to a server, sent again while it cannot be reached: the standard library alone."""

import http.client
import json
import shutil
import threading
from collections.abc import Callable
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from .refusals import Refused


class Connections:
    """Connections to one server, one for each thread. Refusals are `Refused` with the server's code."""

    def __init__(self, url: str, key: str | None, timeout: float, tries: int, sleep: Callable[[float], None]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the address of a server is http://HOST:PORT or https://HOST:PORT, not {url!r}")
        if tries < 1:
            raise ValueError(f"tries must be at least 1, not {tries!r}")
        self._parts, self._key, self._timeout, self._tries, self._sleep = parts, key, timeout, tries, sleep
        self._local = threading.local()

    def close(self) -> None:
        """End this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def ask(self, method: str, path: str, body: Any = None, into: BinaryIO | None = None) -> dict[str, Any]:
        """What the server answers; with `into`, what it sends is written there."""
        for attempt in range(1, self._tries + 1):
            reused = getattr(self._local, "connection", None) is not None
            try:
                status, wait, content = self._once(method, path, body, into)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if attempt == self._tries:
                    raise ConnectionError(f"no answer from {self._parts.netloc}: {error}") from error
                if attempt > 1 or not reused:  # a connection that lay idle may have been closed meanwhile: no wait
                    self._sleep(min(0.1 * 2**attempt, 2.0))
                continue
            if status == 503 and attempt < self._tries:
                self._sleep(wait)
                continue
            if status != 200:
                raise Refused(status, str(content.get("message", "")))
            return content
        raise AssertionError("unreachable")

    def _once(
        self, method: str, path: str, body: Any, into: BinaryIO | None = None
    ) -> tuple[int, float, dict[str, Any]]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            connection = kind(self._parts.hostname or "", self._parts.port, timeout=self._timeout)
            self._local.connection = connection
        headers = {"content-type": "application/json"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        sent = None if body is None else json.dumps(body).encode()
        connection.request(method, self._parts.path.rstrip("/") + path, sent, headers)
        answer = connection.getresponse()
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
