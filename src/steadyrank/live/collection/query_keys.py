"""Which query is which, and which item: texts become ids that nobody can read who does not know the secret.

Queries that differ in case, width or white space alone are one.
"""

import hashlib
import secrets
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays import Ints
from ...core.refusals import Refused, not_text
from ...core.settings import flag
from .engine_scores import SCORE_BITS
from .id_table import ID_BITS, ITEM_BITS

MOST_CHARACTERS = 2_000
_FEWEST_BYTES = 16  # of a secret
_MOST_KNOWN = 200_000  # names of items whose ids are at hand: some 30 MB
_QUERY, _ITEM, _CLIENT = b"query", b"item", b"client"  # what an id is of


def folded(query: str) -> str:
    """A query in Unicode's form NFKC, without case, one blank for each run of white space, none at the ends."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", query).casefold()).split())


class QueryKeys:
    """Ids of queries, items and clients by their texts: keyed digests (BLAKE2b), whole numbers from 1.

    Among a million queries two are the same with a chance of one in 18,000, among the thousand items of a query of
    one in 70 million. `fold`: as `folded` says; otherwise the caller's texts are the keys as they are. `secret`: of
    the digests; without one, chance makes it.
    """

    def __init__(self, fold: bool, secret: bytes | None) -> None:
        self.fold = flag("fold", fold)
        if secret is not None and (not isinstance(secret, bytes) or not _FEWEST_BYTES <= len(secret) <= 64):
            raise ValueError(f"secret must be {_FEWEST_BYTES} to 64 bytes, not {_said(secret)}")
        self.given = secret is not None
        self.secret = secrets.token_bytes(32) if secret is None else secret
        self._known: dict[str, int] = {}

    def query(self, query: Any) -> tuple[int, str]:
        """The id of a query, and the text that it has it for."""
        if not isinstance(query, str) or not 1 <= len(query) <= MOST_CHARACTERS:
            raise Refused(422, f"a query is text of 1 to {MOST_CHARACTERS:,} characters, {not_text(query)}")
        text = folded(query) if self.fold else query
        return self._digest(text, _QUERY, ID_BITS), text

    def items(self, names: Sequence[str]) -> Ints:
        """The ids of items, in order."""
        ids = list(map(self._known.get, names))
        if None in ids:
            ids = [id or self._learn(name) for id, name in zip(ids, names, strict=True)]
        return np.array(ids, np.int64)

    def names(self, codes: Sequence[int], wanted: Sequence[str]) -> list[str]:
        """Names for the items of a list, by their codes, among those that are `wanted`; empty for all others."""
        names_by_id = dict(zip(self.items(wanted).tolist(), wanted, strict=True))
        return [names_by_id.get(code >> SCORE_BITS, "") for code in codes]

    def _learn(self, name: str) -> int:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name] = self._digest(name, _ITEM, ITEM_BITS)
        return self._known[name]

    def client(self, name: str) -> int:
        """The number of a client that is named by text: nobody can read it back."""
        return self._digest(name, _CLIENT, ID_BITS)

    def _digest(self, text: str, person: bytes, bits: int) -> int:
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(data, key=self.secret, digest_size=8, person=person).digest()
        return int.from_bytes(digest) >> (64 - bits) or 1


def _said(secret: Any) -> str:
    """What is wrong with a secret, without telling it."""
    return f"{len(secret)} bytes" if isinstance(secret, bytes) else type(secret).__name__
