"""What a stream gives and takes, whatever it is kept in, and where one is."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

DEAD = ".dead"  # behind a stream's name: where messages go that nothing can be learnt from
EXTRAS = {"kafka": "kafka", "redis": "redis", "rediss": "redis"}  # what of this package a scheme needs
_SHAPES = "kafka://BROKER[:PORT][,...]/TOPIC or redis://[USER:PASSWORD@]HOST[:PORT]/STREAM"


class Message(NamedTuple):
    """A message as it came."""

    stream: str  # the name of the stream and of the partition
    offset: int  # where in it: no other message of the stream has it, and later ones have more
    id: str  # its place in words, such as clicks/3/1815
    body: bytes | None  # None: it was deleted from the stream before it could be read
    origin: Any  # what the stream needs to know it by


class Stream(Protocol):
    """A stream that is read by a group: what one reader has taken no other one gets, until it is gone."""

    def read(self, most: int, wait: float) -> list[Message]:
        """The next messages; none if there are none for so many seconds."""

    def bury(self, message: Message, code: int, why: str) -> None:
        """Put a message into the dead letters. It is there for sure when `finish` returns."""

    def finish(self, messages: Sequence[Message]) -> None:
        """Begin after these at the next start."""

    def lag(self) -> dict[str, int]:
        """How many messages are not finished yet, by partition."""

    def close(self) -> None:
        """Leave the group."""


class Sink(Protocol):
    """A stream that is written to."""

    def put(self, key: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Add a message; it is there for sure when this returns."""

    def close(self) -> None:
        """End the connection."""


class Address(NamedTuple):
    """Where a stream is."""

    scheme: str  # kafka, redis, or rediss for TLS
    servers: str
    name: str


def read_address(url: str) -> Address:
    """The parts of an address; refuses one that names no stream."""
    scheme, _, rest = url.partition("://")
    servers, _, name = rest.partition("/")
    if scheme not in EXTRAS or not servers or not name or "/" in name or "?" in name:
        shown = f"{scheme}://.../{name}" if "@" in servers else url  # there may be a password in it
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
    """Host and port of HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"a place to listen is HOST:PORT, such as 127.0.0.1:9400, not {text!r:.80}")
    return host.strip("[]"), int(port)
