"""Ids of queries, items and clients, which nobody can turn back into text without the secret.

Queries that differ only in case, width or white space have the same id.
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
_FEWEST_BYTES = 16  # least length of a secret
_MOST_KNOWN = 200_000  # cached ids of items: about 30 MB
_QUERY, _ITEM, _CLIENT = b"query", b"item", b"client"  # domains of the digests


def folded(query: str) -> str:
    """A query in Unicode's form NFKC, case-folded, with white space stripped and collapsed."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", query).casefold()).split())


class QueryKeys:
    """Ids of queries, items and clients: keyed digests of their texts (BLAKE2b), integers from 1.

    Two of a million queries collide with a chance of one in 18,000, two of the thousand items of a query with one in
    70 million. `fold`: apply `folded`; otherwise texts are used as given. `secret`: key of
    the digests; without one, it is random.
    """

    def __init__(self, fold: bool, secret: bytes | None) -> None:
        self.fold = flag("fold", fold)
        if secret is not None and (not isinstance(secret, bytes) or not _FEWEST_BYTES <= len(secret) <= 64):
            raise ValueError(f"secret must be {_FEWEST_BYTES} to 64 bytes, not {_description(secret)}")
        self.given = secret is not None
        self.secret = secrets.token_bytes(32) if secret is None else secret
        self._known: dict[str, int] = {}

    def query(self, query: Any) -> tuple[int, str]:
        """The id of a query, and the text that it was computed from."""
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
        """The names of a list's items, given by codes, that are among `wanted`; empty for all others."""
        names_by_id = dict(zip(self.items(wanted).tolist(), wanted, strict=True))
        return [names_by_id.get(code >> SCORE_BITS, "") for code in codes]

    def _learn(self, name: str) -> int:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name] = self._digest(name, _ITEM, ITEM_BITS)
        return self._known[name]

    def client(self, name: str) -> int:
        """The number of a client named by text, from which the text cannot be recovered."""
        return self._digest(name, _CLIENT, ID_BITS)

    def _digest(self, text: str, person: bytes, bits: int) -> int:
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(data, key=self.secret, digest_size=8, person=person).digest()
        return int.from_bytes(digest) >> (64 - bits) or 1


def _description(secret: Any) -> str:
    """Describe an invalid secret without revealing it."""
    return f"{len(secret)} bytes" if isinstance(secret, bytes) else type(secret).__name__
