"""The interface of streams, whatever the broker, and their addresses."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

DEAD = ".dead"  # suffix of the dead-letter stream
EXTRAS = {"kafka": "kafka", "redis": "redis", "rediss": "redis"}  # the extra of this package that a scheme needs
_SHAPES = "kafka://BROKER[:PORT][,...]/TOPIC or redis://[USER:PASSWORD@]HOST[:PORT]/STREAM"


class Message(NamedTuple):
    """A message as received."""

    stream: str  # the name of the stream with its partition
    offset: int  # position in it: unique and increasing
    id: str  # its position as text, such as clicks/3/1815
    body: bytes | None  # None: deleted from the stream before it could be read
    origin: Any  # the broker's own message


class Stream(Protocol):
    """A stream read by a consumer group: each message goes to one reader, or to another if that one is gone."""

    def read(self, most: int, wait: float) -> list[Message]:
        """The next messages; empty if none comes within `wait` seconds."""

    def bury(self, message: Message, code: int, why: str) -> None:
        """Put a message into the dead-letter stream. It is safely there when `finish` returns."""

    def finish(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages, so that the next start begins after them."""

    def lag(self) -> dict[str, int]:
        """The number of unacknowledged messages, by partition."""

    def close(self) -> None:
        """Leave the group."""


class Sink(Protocol):
    """A stream to write to."""

    def put(self, key: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Append a message; it is safely there on return."""

    def close(self) -> None:
        """Close the connection."""


class Address(NamedTuple):
    """The address of a stream."""

    scheme: str  # kafka, redis, or rediss for TLS
    servers: str
    name: str


def read_address(url: str) -> Address:
    """Parse an address. Raises ValueError if it names no stream."""
    scheme, _, rest = url.partition("://")
    servers, _, name = rest.partition("/")
    if scheme not in EXTRAS or not servers or not name or "/" in name or "?" in name:
        shown = f"{scheme}://.../{name}" if "@" in servers else url  # it may contain a password
        raise ValueError(f"a stream is {_SHAPES}, not {shown!r:.120}")
    if scheme != "kafka":
        try:
            parts = urlsplit(f"{scheme}://{servers}")
            if not parts.hostname or parts.port == 0:
                raise ValueError
        except ValueError:
            raise ValueError(f"a stream is {_SHAPES}: HOST or PORT cannot be read") from None
    return Address(scheme, servers, unquote(name))


def read_place(text: str) -> tuple[str, int]:
    """Parse HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"a place to listen is HOST:PORT, such as 127.0.0.1:9400, not {text!r:.80}")
    return host.strip("[]"), int(port)
