"""Which query is which: texts that differ in case, width or white space alone are one, and none is kept readable."""

import hashlib
import secrets
import unicodedata
from typing import Any

from ...core.refusals import Refused
from ...core.settings import flag

MOST_CHARACTERS = 2_000
_DIGEST = 16  # bytes: among a million million queries two are the same with a chance of one in 10^14
_FEWEST_BYTES = 16  # of a secret


def folded(query: str) -> str:
    """A query in Unicode's form NFKC, without case, one blank for each run of white space, none at the ends."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", query).casefold()).split())


class QueryKeys:
    """Queries by number, from 0 in the order in which they came; a number is never given twice.

    `fold`: as `folded` says; otherwise the caller's texts are the keys as they are. `keep`: remember the texts
    themselves, not their keyed digests (BLAKE2b). `secret`: of the digests; without one, chance makes it.
    """

    def __init__(self, fold: bool, keep: bool, secret: bytes | None) -> None:
        self.fold, self.keep = flag("fold", fold), flag("keep_queries", keep)
        if secret is not None and (not isinstance(secret, bytes) or not _FEWEST_BYTES <= len(secret) <= 64):
            raise ValueError(f"secret must be {_FEWEST_BYTES} to 64 bytes, not {_said(secret)}")
        self.given = secret is not None
        self.secret = secrets.token_bytes(32) if secret is None else secret
        self.numbers: dict[str, int] = {}
        self.next = 0

    def key(self, query: Any) -> str:
        """What is remembered of a query: its text, or 32 hexadecimal digits."""
        if not isinstance(query, str) or not 1 <= len(query) <= MOST_CHARACTERS:
            raise Refused(422, f"a query is text of 1 to {MOST_CHARACTERS:,} characters, not {query!r:.80}")
        text = folded(query) if self.fold else query
        return text if self.keep else self.digest(text)

    def digest(self, text: str) -> str:
        """A text that cannot be read, nor guessed by whoever does not know the secret."""
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, key=self.secret, digest_size=_DIGEST).hexdigest()

    def number(self, key: str) -> int:
        """The number of a query, a new one if it is not known."""
        if key not in self.numbers:
            self.numbers[key] = self.next
            self.next += 1
        return self.numbers[key]


def _said(secret: Any) -> str:
    """What is wrong with a secret, without telling it."""
    return f"{len(secret)} bytes" if isinstance(secret, bytes) else type(secret).__name__
