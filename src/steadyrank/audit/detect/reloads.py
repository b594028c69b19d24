"""Find reloads: lists that a client is shown again soon, which count as one trial.

The tests of whether a client clicks too little, or avoids an item, count lists as trials. A client who loads a page
ten times in a minute without a click has rejected one list, not ten. So a list without a click that repeats the
client's previous one, also without a click, counts only if more than VISIT seconds have passed since the last one
that counted. A client who polls a list all day without a click has one trial per VISIT. Our own rule.
"""

import numpy as np

from ...click_logs.looks import Impressions, ItemNumbers
from ...core.arrays import Bools, Floats, Ints
from ...core.compiling.jit import kernel
from .senders import VISIT

_FACTOR, _PRIME = 1_000_003, 2**42 - 11  # of a list's hash, a polynomial in its items: two collide once in 2**42


@kernel
def mark(item, bits, first, client, board, time, most, last_list, last_time, out):
    """Write to out whether each impression, in order of time, is a reload within `most` units of time.

    `last_list` and `last_time`: for each client, hash and time of its last list that counted and has no click; -1 if
    there is none.
    """
    for i in range(client.size):
        c = client[i]
        out[i] = False
        if c < 0:
            continue
        clicked = False
        name = np.int64(board[i]) + 1
        for q in range(first[i], first[i + 1]):
            clicked = clicked or bits[q]
            name = (name * _FACTOR + item[q] + 1) % _PRIME
        if clicked:
            last_list[c] = -1
        elif name == last_list[c] and time[i] - last_time[c] <= most:
            out[i] = True
        else:
            last_list[c] = name
            last_time[c] = time[i]


def reloads(
    impressions: Impressions, client: ItemNumbers, n_clients: int, board: ItemNumbers, time: Floats, unit: float
) -> Bools:
    """Which impressions are reloads, bool[n]; `unit`: units of time per second. O(looks)."""
    flags: Bools = np.zeros(impressions.n, np.bool_)
    last_list: Ints = np.full(n_clients, -1, np.int64)
    last_time: Floats = np.zeros(n_clients)
    for some, part in impressions.parts():
        of = client[some], np.ascontiguousarray(board[some]), time[some]
        mark(part.item, part.bits, part.first, *of, VISIT * unit, last_list, last_time, flags[some])
    return flags
