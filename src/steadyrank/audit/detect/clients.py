"""Clients whose clicks are not those of the others, or come when clicks are suspect."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._jit import kernel
from ...arrays import Bools, Floats
from ..impressions import Impressions, Slots

TILTS = (0.25, 0.5, 0.75)  # of the Chernoff bound: the best of a few is nearly as good as the best of all
SURE = 0.01  # chance that any of the clients named is named by accident
LISTED = 100  # clients

# columns of a table of clients; from TILTED on one for each of the TILTS
IMPRESSIONS, CLICKS, EXPECTED, SUSPECT, SURPRISE, TILTED = range(6)
CLIENT_COLUMNS = TILTED + len(TILTS)


@dataclass(frozen=True)
class SuspectClient:
    """A client that stands out."""

    client: Any
    impressions: int
    clicks: int
    expected_clicks: float  # of someone with the usual taste who looked at the same items
    suspect_impressions: int  # those in suspect intervals
    certainty: float
    why: str  # clicks: not those of the others; time: comes when clicks are suspect


@kernel
def tally(item, bits, first, client, rates, suspect, out):
    """Add to out, float64[client, CLIENT_COLUMNS], what each client did.

    The surprise is minus the log chance of what was seen; tilted, the log of the mean of e^(tilt surprise):
    log(p^(1 - tilt) + (1 - p)^(1 - tilt)) a look.
    """
    for t in range(client.size):
        c = client[t]
        if c < 0:
            continue
        out[c, IMPRESSIONS] += 1.0
        out[c, SUSPECT] += 1.0 if suspect[t] else 0.0
        for q in range(first[t], first[t + 1]):
            p = rates[item[q]]
            out[c, CLICKS] += 1.0 if bits[q] else 0.0
            out[c, EXPECTED] += p
            out[c, SURPRISE] -= math.log(p) if bits[q] else math.log(1.0 - p)
            for i in range(len(TILTS)):
                tilt = TILTS[i]
                out[c, TILTED + i] += math.log(p ** (1.0 - tilt) + (1.0 - p) ** (1.0 - tilt))


def stand_out(
    impressions: Impressions, client: Slots, names: list[Any], rates: Floats, suspect: Bools
) -> tuple[int, list[SuspectClient]]:
    """How many clients stand out, and the clearest of them.

    By their clicks: the chance that someone with the usual taste surprises that much, bounded after Chernoff 1952
    with three tilts. By their time: the chance that so many of their impressions fall into suspect intervals,
    bounded after Hoeffding 1963, theorem 1. Both times the number of clients, so that none is named by accident.
    """
    out = np.zeros((len(names), CLIENT_COLUMNS))
    tally(impressions.item, impressions.bits, impressions.first, client, rates, suspect, out)
    shown, surprise = out[:, IMPRESSIONS], out[:, SURPRISE]
    tilted = [out[:, TILTED + i] - tilt * surprise for i, tilt in enumerate(TILTS)]
    odd = np.min(tilted, axis=0) + math.log(len(TILTS))
    share = float(np.clip(suspect.mean() if suspect.size else 0.0, 1e-9, 1.0 - 1e-9))
    part = np.clip(out[:, SUSPECT] / np.maximum(shown, 1.0), 1e-12, 1.0 - 1e-12)
    gap = part * np.log(part / share) + (1.0 - part) * np.log((1.0 - part) / (1.0 - share))
    timed = np.where((part > 2.0 * share) & suspect.any(), -shown * gap, 0.0)
    chance = np.minimum(odd, timed) + math.log(2.0 * max(int(np.count_nonzero(shown)), 1))
    found = np.flatnonzero(chance < math.log(SURE))
    order = found[np.argsort(chance[found], kind="stable")]
    return found.size, [
        SuspectClient(
            client=names[c],
            impressions=int(shown[c]),
            clicks=int(out[c, CLICKS]),
            expected_clicks=round(float(out[c, EXPECTED]), 2),
            suspect_impressions=int(out[c, SUSPECT]),
            certainty=float(-np.expm1(chance[c])),
            why="clicks" if odd[c] <= timed[c] else "time",
        )
        for c in order[:LISTED].tolist()
    ]
