"""Lists that a client is shown again at once, as when a page is loaded anew: one look at them, not many.

Whether a client clicks too little, or avoids an item, is told by lists as trials. Who loads a page ten times in a
minute and clicks nothing has looked at one list that did not please, not at ten. So a list without a click that is
the one its client was shown before, without a click then, is a trial only if more than VISIT seconds have passed
since the last one. Whoever polls a list all day without a click is judged by one list in each VISIT. Ours, no
paper's.
"""

import numpy as np

from ...click_logs.looks import Impressions, ItemNumbers
from ...core.arrays import Bools, Floats, Ints
from ...core.compiling.jit import kernel
from .senders import VISIT

_FACTOR, _PRIME = 1_000_003, 2**42 - 11  # of a list's name, a polynomial in its items: two are alike once in 2**42


@kernel
def mark(item, bits, first, client, board, time, most, last_list, last_time, out):
    """Mark impressions, in order of time, that show a client the list that it saw last; `most`: between the two.

    `last_list` and `last_time`: by client, the list without a click that was counted last, -1 for none, and when.
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
    """Which impressions are the same look as the one before, bool[n]; `unit`: of times, in a second. O(looks)."""
    flags: Bools = np.zeros(impressions.n, np.bool_)
    last_list: Ints = np.full(n_clients, -1, np.int64)
    last_time: Floats = np.zeros(n_clients)
    for some, part in impressions.parts():
        of = client[some], np.ascontiguousarray(board[some]), time[some]
        mark(part.item, part.bits, part.first, *of, VISIT * unit, last_list, last_time, flags[some])
    return flags
