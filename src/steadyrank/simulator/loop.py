"""The compiled loop of a simulation: rounds of a learner, users, an adversary and a guard.

Separate from `simulate`, so that its compiled code depends neither on learners nor on how runs are requested.
"""

import numpy as np

from ..core.compiling.intrinsics import borrowed
from ..core.compiling.jit import kernel
from ..core.dispatch import Dispatcher
from ..core.rounds import answer_list, play_round

BITS, ON_BEST = range(2)  # indices in `lies`: false bits, and those about items of the best list


@kernel
def count_lies(truth, clicks, examined, ranking, best, lies):
    """Add to `lies` the number of false reported bits, and of those about items of the best list."""
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

    With `omniscient` the learner is not told of corrupted rounds. Setting `halt[0]` from another thread stops it
    within a thousand rounds. `lies` receives the number of false reported bits, and how many of them were about items
    of the round's best list; `extremes` the smallest loss of a round, and the total value of the best lists.
    `ledger`: of outcomes of clicks, if users have them; else None.
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
    """The part of a round after a list is shown, compiled."""
    records = borrowed(learner), borrowed(users), borrowed(adversary), borrowed(guard), borrowed(ledger)
    mind, crowd, foe, gate, book = records
    world, foes, _, _, till = borrowed(streams)
    return answer_list(mind, crowd, foe, gate, book, visit, ranking, borrowed(buffers), omniscient, world, foes, till)
