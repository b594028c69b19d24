"""The loop of a simulation, compiled: rounds of a learner, users, an adversary and a guard, one after another.

Apart from `simulate`, so that its compiled code depends on no learner, and on nothing of how runs are asked for.
"""

import numpy as np

from ..core.compiling.intrinsics import borrowed
from ..core.compiling.jit import kernel
from ..core.dispatch import Dispatcher
from ..core.rounds import answer_list, play_round

BITS, ON_BEST = range(2)  # places of `lies`: false bits, and those about items of the best list


@kernel
def count_lies(truth, clicks, examined, ranking, best, lies):
    """Add to `lies` the shown bits that are not what the user would have done, and those on the best items."""
    for p in range(examined):
        if clicks[p] != truth[p]:
            lies[BITS] += 1
            for q in range(best.size):
                lies[ON_BEST] += 1 if ranking[p] == best[q] else 0


@Dispatcher
def play(
    learner,
    users,
    adversary,
    guard,
    ledger,
    buffers,
    best,
    marks,
    omniscient,
    halt,
    streams,
    regret,
    spent,
    lies,
    extremes,
):
    """Play rounds 1 to marks[-1]; write cumulative regret and spending at each mark.

    With `omniscient` the learner is not told of corrupted rounds. Setting `halt[0]` from outside stops it within a
    thousand rounds. `lies` receives the number of false bits that were shown, and how many of them were about items
    of the round's best list; `extremes` the smallest loss of a round, and what the best lists were worth together.
    `ledger`: of what comes of clicks, where users buy; else None.
    """
    learner, users, adversary, guard = borrowed(learner), borrowed(users), borrowed(adversary), borrowed(guard)
    world, foe, mind, door, till = borrowed(streams)
    buffers, best, ledger = borrowed(buffers), borrowed(best), borrowed(ledger)
    _, ranking, clicks, truth, _, _, _, _ = buffers
    loss = cost = most = 0.0
    smallest = np.inf
    m = 0
    for t in range(1, marks[-1] + 1):
        visit, paid, examined = play_round(
            learner, users, adversary, guard, ledger, t, buffers, omniscient, world, foe, mind, door, till
        )
        users.best(visit, best)
        worth = users.value(visit, best)
        lost = worth - users.value(visit, ranking)
        most += worth
        smallest = min(smallest, lost)
        loss += lost
        cost += paid
        if paid > 0.0:
            count_lies(truth, clicks, examined, ranking, best, lies)
        if t == marks[m]:
            regret[m] = loss
            spent[m] = cost
            m += 1
        if t % 1024 == 0 and halt[0]:
            break
    extremes[0] = smallest
    extremes[1] = most


@Dispatcher
def answer(learner, users, adversary, guard, ledger, visit, ranking, buffers, omniscient, streams):
    """What comes after a list is shown, compiled."""
    records = borrowed(learner), borrowed(users), borrowed(adversary), borrowed(guard), borrowed(ledger)
    mind, crowd, foe, gate, book = records
    world, foes, _, _, till = borrowed(streams)
    return answer_list(mind, crowd, foe, gate, book, visit, ranking, borrowed(buffers), omniscient, world, foes, till)
