"""A table of clients by number, evicted by least recent use; 32 bytes each."""

from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Counts, Ints, Small
from ...core.compiling.jit import no_refcount

NOBODY = -1
NEWEST, OLDEST, USED = range(3)  # indices of Clients.ends


class Clients(NamedTuple):
    """A table of at most C clients: a hash table with chaining, and a linked list in order of last use.

    `score` and `carried` are in units of 1 / UNIT nats (`client_mixture`).
    """

    number: Ints  # [C] client in this entry
    head: Counts  # [C] first entry of each chain; NOBODY: none
    after: Counts  # [C] next entry of the same chain
    newer: Counts  # [C] entry seen next after this one
    older: Counts  # [C] entry seen last before this one
    held: Counts  # [C] remembered visits
    score: Small  # [C] evidence against the client
    carried: Small  # [C] part of the score from visits no longer remembered
    ends: Ints  # [3] newest and oldest entry, entries in use

    @classmethod
    def create(cls, size: int) -> "Clients":
        """Empty, with room for `size` clients."""

        def nobody() -> Counts:
            return np.full(size, NOBODY, np.int32)

        links = nobody(), nobody(), nobody(), nobody()
        counts = np.zeros(size, np.int32), np.zeros(size, np.int16), np.zeros(size, np.int16)
        return cls(np.full(size, NOBODY, np.int64), *links, *counts, np.array([NOBODY, NOBODY, 0], np.int64))

    def enlarged(self, size: int) -> "Clients":
        """A copy with room for `size` clients, at least as many as now; chains are rebuilt. O(size)."""
        more = Clients.create(size)
        arrays: list[tuple[str, Any, Any]] = list(zip(self._fields, self, more, strict=True))
        for name, old, new in arrays:
            if name not in ("head", "after"):
                new[: old.size] = old
        used = int(self.ends[USED])
        chain = mixed(self.number[:used]) % size
        order = np.argsort(chain, kind="stable").astype(np.int32)
        begins = np.append(chain[order][1:] != chain[order][:-1], True)[:used]  # the last of each chain is its head
        more.head[chain[order][begins]] = order[begins]
        more.after[order[1:]] = np.where(begins[:-1], NOBODY, order[:-1])
        return more

    def visits_of(self, number: int) -> int:
        """How many visits of a client are remembered; like `place_of_client`, but callable from Python. O(1)."""
        place = self.head[mixed(number) % self.head.size]
        while place != NOBODY and self.number[place] != number:
            place = self.after[place]
        return 0 if place == NOBODY else int(self.held[place])


def mixed(number: Any) -> Any:
    """Hash of a client's number, at least 0; no product exceeds 63 bits, so interpreted code gives the same value."""
    return (((number >> 31) ^ number) & 0x7FFFFFFF) * 0x9E3779B1 >> 16


spread = no_refcount(mixed)


@no_refcount
def chain_of(clients, number):
    """The chain of a client."""
    return spread(number) % clients.head.size


@no_refcount
def place_of_client(clients, number):
    """Index of a client's entry; NOBODY if it is not in the table."""
    place = clients.head[chain_of(clients, number)]
    while place != NOBODY and clients.number[place] != number:
        place = clients.after[place]
    return place


@no_refcount
def unlink(clients, place):
    """Remove an entry from the list in order of last use."""
    newer, older = clients.newer[place], clients.older[place]
    if newer == NOBODY:
        clients.ends[NEWEST] = older
    else:
        clients.older[newer] = older
    if older == NOBODY:
        clients.ends[OLDEST] = newer
    else:
        clients.newer[older] = newer


@no_refcount
def vacate(clients):
    """Evict the least recently seen client; returns the index of its entry."""
    place = clients.ends[OLDEST]
    unlink(clients, place)
    chain = chain_of(clients, clients.number[place])
    if clients.head[chain] == place:
        clients.head[chain] = clients.after[place]
    else:
        before = clients.head[chain]
        while clients.after[before] != place:
            before = clients.after[before]
        clients.after[before] = clients.after[place]
    return place


@no_refcount
def welcome(clients, number):
    """Index of the entry of a client who comes now, added if it is new; it is the newest afterwards. O(1)."""
    place = place_of_client(clients, number)
    if place != NOBODY:
        unlink(clients, place)
    else:
        if clients.ends[USED] < clients.number.size:
            place = clients.ends[USED]
            clients.ends[USED] += 1
        else:
            place = vacate(clients)
        chain = chain_of(clients, number)
        clients.number[place] = number
        clients.after[place] = clients.head[chain]
        clients.head[chain] = place
        clients.held[place] = 0
        clients.score[place] = 0
        clients.carried[place] = 0
    newest = clients.ends[NEWEST]
    clients.newer[place] = NOBODY
    clients.older[place] = newest
    if newest == NOBODY:
        clients.ends[OLDEST] = place
    else:
        clients.newer[newest] = place
    clients.ends[NEWEST] = place
    return place
