"""Clients remembered by number, the least recently seen leaving first; 32 bytes each."""

from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Counts, Ints, Small
from ...core.compiling.jit import no_refcount

NOBODY = -1
NEWEST, OLDEST, USED = range(3)  # places of Clients.ends


class Clients(NamedTuple):
    """A table of at most C clients: found by a hash with chains, kept in the order in which they were last seen.

    `score` and `carried` are in units of 1 / UNIT nats (`client_mixture`).
    """

    number: Ints  # [C] who stands here
    head: Counts  # [C] the first place of each chain; NOBODY: none
    after: Counts  # [C] the next place of the same chain
    newer: Counts  # [C] who was seen next after this one
    older: Counts  # [C]
    held: Counts  # [C] remembered visits
    score: Small  # [C] evidence against the client
    carried: Small  # [C] the part of it from visits no longer remembered
    ends: Ints  # [3] newest and oldest place, places in use

    @classmethod
    def create(cls, size: int) -> "Clients":
        """Nobody yet, room for `size`."""

        def nobody() -> Counts:
            return np.full(size, NOBODY, np.int32)

        links = nobody(), nobody(), nobody(), nobody()
        counts = np.zeros(size, np.int32), np.zeros(size, np.int16), np.zeros(size, np.int16)
        return cls(np.full(size, NOBODY, np.int64), *links, *counts, np.array([NOBODY, NOBODY, 0], np.int64))

    def enlarged(self, size: int) -> "Clients":
        """These clients with room for `size`, at least as much as there is; chains begin anew. O(size)."""
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
        """How many visits of a client are remembered: as `place_of_client` finds it, for Python to call. O(1)."""
        place = self.head[mixed(number) % self.head.size]
        while place != NOBODY and self.number[place] != number:
            place = self.after[place]
        return 0 if place == NOBODY else int(self.held[place])


def mixed(number: Any) -> Any:
    """A client's number well mixed, at least 0; no product leaves 63 bits, so it is the same interpreted."""
    return (((number >> 31) ^ number) & 0x7FFFFFFF) * 0x9E3779B1 >> 16


spread = no_refcount(mixed)


@no_refcount
def chain_of(clients, number):
    """Where the chain of a client begins."""
    return spread(number) % clients.head.size


@no_refcount
def place_of_client(clients, number):
    """The place of a client; NOBODY if it is not remembered."""
    place = clients.head[chain_of(clients, number)]
    while place != NOBODY and clients.number[place] != number:
        place = clients.after[place]
    return place


@no_refcount
def unlink(clients, place):
    """Take a place out of the order of last sight."""
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
    """Forget the client seen least recently; returns its place."""
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
    """The place of a client who comes now, a new one if it is not remembered; it is the newest afterwards. O(1)."""
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
