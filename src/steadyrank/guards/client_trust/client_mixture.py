"""Two tastes among clients, fitted to their recent visits: the common one and an odd one. Ours, no paper's.

Each client has one of the two, so that all visits of a client are judged together: expectation-maximization for a
mixture of two, over clients. Evidence is kept in whole units of 1 / UNIT nats: sums are exact, in any order.
Outcomes of clicks have no part in the fit, so that they can judge what it found.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats, Ints
from ...core.compiling.jit import no_refcount
from .client_table import USED, Clients
from .recent_visits import HELD, OUTCOMES, RecentVisits, nth_oldest

UNIT = 256  # units in a nat
NEVER = 1 << 15  # above any score
PRIOR = 4.0  # an item's rate in either taste has a prior of so many looks at its rate among all clients
LEAST = 0.002  # bounds rates away from 0 and 1, so that no bit is proof
CLIP = 4 * UNIT  # most evidence of one visit: nobody is convicted by a single one
FLOOR, CEILING = -8 * UNIT, 24 * UNIT  # of a score: a client that changes loses or regains its record in a few visits
SIDE = 8 * UNIT  # most evidence of one client in `start_agreed`
POWERS = 5  # power iterations in `start_agreed`
FIRST_SHARE = 0.05  # initial share of odd clients
STEPS = 8  # most steps of a fit
STILL = 0.02  # a fit has converged once the share changes by less
RECHECKS = 3  # of a first finding
NEGLIGIBLE = -6 * UNIT  # chances below e^-6 count for nothing
LEAST_SHARE = 0.01  # least share of odd clients in the bar
FEWEST = 5  # clients surely odd: one has a taste of its own, several agree
FEW, HEAVY = (
    32,
    8,
)  # clients surely odd: if they are few, or have more than an eighth of the odd visits, each is judged by the others
SURE_CLIENTS, SURE_VISITS = 0.05, 0.25  # required shares of odd clients or visits surely odd; either suffices
BAR, TURN, PROVEN, DOUBT = range(4)  # places of ClientMixture.rule
EXPECTED, CAME = range(2)  # places of ClientMixture.outcomes
BOTS_BUY = 0.1  # outcomes per click of a bot, as a share of a person's
SPARED = round(-math.log(BOTS_BUY) * UNIT)  # evidence that an outcome gives in favour of its client
ANCHORS, ODD_PART = 20, 0.2  # outcomes needed to start a fit from them; assumed odd share of all other visits
BLOCKS = 8  # groups of the remembered visits, by age: outcomes of new clicks may not be known yet
CLIENTS, VISITS, KNOWN = range(3)  # places of ClientMixture.share
RECENT = 512  # number of visits that count as recent


class ClientMixture(NamedTuple):
    """Looks and clicks of all remembered visits and of the odd ones, and the evidence of each bit. K items."""

    looks: Counts  # [K]
    clicks: Counts  # [K]
    odd_looks: Floats  # [K] each visit weighted by the chance that its client is odd
    odd_clicks: Floats  # [K]
    evidence: Counts  # [2 K] evidence of bit 0 and of bit 1 of each item for the odd taste
    share: Floats  # [3] odd ones among clients and among visits; how many clients
    rule: Ints  # [4] the score at which a client is refused; the start of the next fit; whether
    # outcomes prove that nobody with the odd taste is a person; the doubt subtracted for each visit
    outcomes: Floats  # [2] outcomes of the odd clients' clicks: expected of people, and counted

    @classmethod
    def create(cls, n_items: int) -> "ClientMixture":
        """No visits yet."""
        counts = np.zeros(n_items, np.int32), np.zeros(n_items, np.int32)
        odd = np.zeros(n_items), np.zeros(n_items)
        evidence, rule = np.zeros(2 * n_items, np.int32), np.array([NEVER, 0, 0, 0], np.int64)
        return cls(*counts, *odd, evidence, np.zeros(3), rule, np.zeros(2))


@no_refcount
def count_visit(taste, visits, at, sign):
    """Add a remembered visit to the counts of all of them (sign 1), or take it away (-1)."""
    for p in range(visits.examined[at]):
        bit = visits.bits[at, p]
        taste.looks[bit >> 1] += sign
        taste.clicks[bit >> 1] += sign * (bit & 1)


@no_refcount
def evidence_of_visit(taste, visits, at):
    """The evidence of a visit for the odd taste, within +-CLIP."""
    total = 0
    for p in range(visits.examined[at]):
        total += taste.evidence[visits.bits[at, p]]
    return min(max(total, -CLIP), CLIP)


@no_refcount
def bounded(score):
    """A score within FLOOR and CEILING."""
    return min(max(score, FLOOR), CEILING)


@no_refcount
def log_ratio(above, below):
    """Log of a quotient of rates within [LEAST, 1 - LEAST], in units."""
    above = min(max(above, LEAST), 1.0 - LEAST)
    below = min(max(below, LEAST), 1.0 - LEAST)
    return round(math.log(above / below) * UNIT)


@no_refcount
def pooled_rate(taste, k, mean):
    """The rate of an item among all clients, shrunk towards `mean` by PRIOR looks."""
    return (taste.clicks[k] + PRIOR * mean) / (taste.looks[k] + PRIOR)


@no_refcount
def mean_rate(taste):
    """The mean rate of the items seen, each shrunk towards the rate of all looks."""
    looks = clicks = 0
    for k in range(taste.looks.size):
        looks += taste.looks[k]
        clicks += taste.clicks[k]
    overall = (clicks + 1.0) / (looks + 2.0)
    total = 0.0
    seen = 0
    for k in range(taste.looks.size):
        if taste.looks[k] > 0:
            total += pooled_rate(taste, k, overall)
            seen += 1
    return total / seen if seen > 0 else overall


@no_refcount
def start_flat(taste, mean):
    """Evidence for an odd taste without good and bad items: all at the mean rate."""
    for k in range(taste.looks.size):
        rate = pooled_rate(taste, k, mean)
        taste.evidence[2 * k] = log_ratio(1.0 - mean, 1.0 - rate)
        taste.evidence[2 * k + 1] = log_ratio(mean, rate)


@no_refcount
def weigh_item(taste, k, mean):
    """Evidence of an item from the counts of both tastes, with rates shrunk towards that among all clients."""
    prior = PRIOR * pooled_rate(taste, k, mean)
    odd_looks = min(max(taste.odd_looks[k], 0.0), float(taste.looks[k]))  # sure clients count slightly less than 1
    odd_clicks = min(max(taste.odd_clicks[k], 0.0), float(taste.clicks[k]))
    odd = (odd_clicks + prior) / (odd_looks + PRIOR)
    common = (taste.clicks[k] - odd_clicks + prior) / (taste.looks[k] - odd_looks + PRIOR)
    taste.evidence[2 * k] = log_ratio(1.0 - odd, 1.0 - common)
    taste.evidence[2 * k + 1] = log_ratio(odd, common)


@no_refcount
def weigh_items(taste, mean):
    """Evidence of all items."""
    for k in range(taste.looks.size):
        weigh_item(taste, k, mean)


@no_refcount
def reset_scores(clients, carried):
    """Reset the scores of all clients with remembered visits, to the carried evidence or to zero."""
    for place in range(clients.ends[USED]):
        if clients.held[place] > 0:
            clients.score[place] = clients.carried[place] if carried else 0


@no_refcount
def score_clients(taste, visits, clients, doubt, spared):
    """Add up the evidence of the remembered visits for each client, in order.

    Subtracts `doubt` for each visit, and `spared` for each outcome.
    """
    reset_scores(clients, True)
    for i in range(visits.tally[HELD]):
        at = nth_oldest(visits, i)
        place = visits.place[at]
        against = evidence_of_visit(taste, visits, at) - doubt - spared * visits.outcomes[at]
        clients.score[place] = bounded(clients.score[place] + against)


@no_refcount
def chance_odd(score, odds):
    """The chance that a client with this score is odd; `odds`: prior log odds, in units."""
    x = score + odds
    return 0.0 if x < NEGLIGIBLE else 1.0 / (1.0 + math.exp(-x / UNIT))


@no_refcount
def odds_of(share):
    """Log odds of a share, in units."""
    return log_ratio(share, 1.0 - share)


@no_refcount
def prior_share(taste):
    """Prior share of odd ones: of the clients or of the visits, whichever is smaller.

    Identities are free: with a fresh one for each visit, a few visits are most of the clients, and the share of
    clients alone would convict without evidence.
    """
    return min(taste.share[CLIENTS], taste.share[VISITS])


@no_refcount
def clear_odd(taste):
    """Reset the counts of the odd taste."""
    for k in range(taste.looks.size):
        taste.odd_looks[k] = 0.0
        taste.odd_clicks[k] = 0.0


@no_refcount
def count_odd(taste, visits, at, weight):
    """Count a remembered visit for the odd taste."""
    for p in range(visits.examined[at]):
        bit = visits.bits[at, p]
        taste.odd_looks[bit >> 1] += weight
        if bit & 1:
            taste.odd_clicks[bit >> 1] += weight


@no_refcount
def assign(taste, visits, clients):
    """Count each visit for the odd taste, weighted by the chance that its client is odd; returns new share / old."""
    before = prior_share(taste)
    odds = odds_of(before)
    total = 0.5  # prior: half a client of either taste
    n_clients = 0
    for place in range(clients.ends[USED]):
        if clients.held[place] > 0:
            total += chance_odd(clients.score[place], odds)
            n_clients += 1
    clear_odd(taste)
    part = 0.0
    for at in range(visits.tally[HELD]):
        chance = chance_odd(clients.score[visits.place[at]], odds)
        if chance == 0.0:
            continue
        part += chance
        count_odd(taste, visits, at, chance)
    taste.share[CLIENTS] = total / (n_clients + 1.0)
    taste.share[VISITS] = part / max(visits.tally[HELD], 1)
    taste.share[KNOWN] = n_clients
    return prior_share(taste) / before if before > 0.0 else 1.0  # a share of 0 does not move


@no_refcount
def exchange(taste):
    """Swap the odd taste and the common one."""
    for k in range(taste.looks.size):
        taste.odd_looks[k] = taste.looks[k] - taste.odd_looks[k]
        taste.odd_clicks[k] = taste.clicks[k] - taste.odd_clicks[k]
    for i in range(2):
        taste.share[i] = 1.0 - taste.share[i]


@no_refcount
def rare(taste, visits, most):
    """Whether the odd taste has too few visits to be honest: less than `most`, by two standard errors.

    Visits alone decide: identities are free, so an attacker can choose any share of clients.
    """
    share = taste.share[VISITS]
    return share + 2.0 * math.sqrt(share * (1.0 - share) / max(visits.tally[HELD], 1)) < most


@no_refcount
def refused_lately(taste, visits, clients):
    """The share of the RECENT latest visits whose clients are at or above the bar."""
    held = visits.tally[HELD]
    recent = min(held, RECENT)
    above = 0
    for i in range(held - recent, held):
        if clients.score[visits.place[nth_oldest(visits, i)]] >= taste.rule[BAR]:
            above += 1
    return above / max(recent, 1)


@no_refcount
def start_agreed(taste, visits, clients, mean):
    """Evidence for what some clients do repeatedly and others do not: POWERS steps of a power iteration.

    A visit counts by the evidence of the *other* visits of its client, so that its own noise does not count, and a
    client by no more than SIDE, so that no heavy one decides alone.
    """
    for _ in range(POWERS):
        reset_scores(clients, False)
        for at in range(visits.tally[HELD]):
            place = visits.place[at]
            clients.score[place] = min(max(clients.score[place] + evidence_of_visit(taste, visits, at), -SIDE), SIDE)
        clear_odd(taste)
        for at in range(visits.tally[HELD]):
            count_odd(taste, visits, at, clients.score[visits.place[at]] - evidence_of_visit(taste, visits, at))
        square = 0.0
        for k in range(taste.looks.size):
            rate = pooled_rate(taste, k, mean)
            agreed = taste.odd_clicks[k] - rate * taste.odd_looks[k]
            square += agreed**2 * rate * (1.0 - rate) * taste.looks[k]
        scale = UNIT / math.sqrt(square / max(visits.tally[HELD], 1) + 1e-9)  # scales a visit to about one nat
        for k in range(taste.looks.size):
            rate = pooled_rate(taste, k, mean)
            agreed = taste.odd_clicks[k] - rate * taste.odd_looks[k]
            taste.evidence[2 * k] = round(-rate * agreed * scale)
            taste.evidence[2 * k + 1] = round((1.0 - rate) * agreed * scale)


@no_refcount
def turn_round(taste):
    """Negate the evidence: agreement has no sign."""
    for bit in range(taste.evidence.size):
        taste.evidence[bit] = -taste.evidence[bit]


@no_refcount
def start_anchored(taste, visits, clients, mean):
    """Evidence for what clients without outcomes do and clients with outcomes do not.

    A client with an outcome is a person. The visits of the others are a mixture, a share ODD_PART of it odd:
    subtracting the persons' behaviour from it, down to this share, leaves the odd behaviour.
    """
    reset_scores(clients, False)
    for at in range(visits.tally[HELD]):
        place = visits.place[at]
        clients.score[place] = min(clients.score[place] + visits.outcomes[at], 1)
    bought = 0
    for at in range(visits.tally[HELD]):
        bought += clients.score[visits.place[at]]
    less = (1.0 - ODD_PART) * (visits.tally[HELD] - bought) / max(bought, 1)
    clear_odd(taste)
    for at in range(visits.tally[HELD]):
        count_odd(taste, visits, at, -less if clients.score[visits.place[at]] == 1 else 1.0)
    weigh_items(taste, mean)


@no_refcount
def settle(taste, visits, clients, mean):
    """Fit the two tastes, starting from the current evidence; the one with fewer visits is the odd one."""
    for _ in range(STEPS):
        score_clients(taste, visits, clients, 0, 0)
        moved = assign(taste, visits, clients)
        weigh_items(taste, mean)
        if 1.0 - STILL < moved < 1.0 + STILL:
            break
    if taste.share[VISITS] > 0.5:
        exchange(taste)
        weigh_items(taste, mean)


@no_refcount
def bar_of(taste, certainty):
    """The score at which a client is surely odd."""
    return certainty - odds_of(max(prior_share(taste), LEAST_SHARE))


@no_refcount
def focus(taste, visits, clients, mean, certainty, doubt):
    """Fit again, starting from the clients alone who surely have the odd taste.

    A first fit may put bots and an honest minority into one group, which is too large to be fraud.
    """
    score_clients(taste, visits, clients, doubt, 0)
    bar = bar_of(taste, certainty)
    sure, part = count_sure(visits, clients, bar)
    if sure < FEWEST:
        return
    clear_odd(taste)
    for at in range(visits.tally[HELD]):
        if clients.score[visits.place[at]] >= bar:
            count_odd(taste, visits, at, 1.0)
    taste.share[CLIENTS] = sure / max(taste.share[KNOWN], 1.0)
    taste.share[VISITS] = part / max(visits.tally[HELD], 1)
    weigh_items(taste, mean)
    settle(taste, visits, clients, mean)


@no_refcount
def move_client(taste, visits, place, sign, mean):
    """Count the remembered visits of a client for the odd taste (sign 1), or subtract them (-1).

    Updates only items that it has seen: a board may have a million others.
    """
    for at in range(visits.tally[HELD]):
        if visits.place[at] == place:
            count_odd(taste, visits, at, sign)
    for at in range(visits.tally[HELD]):
        if visits.place[at] == place:
            for p in range(visits.examined[at]):
                weigh_item(taste, visits.bits[at, p] >> 1, mean)


@no_refcount
def score_of_client(taste, visits, clients, place, doubt):
    """The evidence of the remembered visits of one client, as `score_clients` adds it up."""
    score = clients.carried[place]
    for i in range(visits.tally[HELD]):
        at = nth_oldest(visits, i)
        if visits.place[at] == place:
            score = bounded(score + evidence_of_visit(taste, visits, at) - doubt - SPARED * visits.outcomes[at])
    return score


@no_refcount
def count_sure(visits, clients, bar):
    """The number of clients surely odd, and of their remembered visits."""
    sure = visited = 0
    for place in range(clients.ends[USED]):
        if clients.held[place] > 0 and clients.score[place] >= bar:
            sure += 1
            visited += clients.held[place]
    return sure, visited


@no_refcount
def judge_by_others(taste, visits, clients, mean, bar, doubt):
    """Score the clients who are surely odd again, each by an odd taste without its own visits.

    A client's own visits pull the odd taste towards themselves. Among hundreds of clients the effect is small. Among
    a few, or for a heavy client, it can make a person with a taste of their own look like one of several who agree.
    """
    sure, _ = count_sure(visits, clients, bar)
    odd = taste.share[VISITS] * visits.tally[HELD]
    for place in range(clients.ends[USED]):
        if clients.held[place] == 0 or clients.score[place] < bar:
            continue
        if sure <= FEW or clients.held[place] * HEAVY > odd:
            move_client(taste, visits, place, -1.0, mean)
            clients.score[place] = score_of_client(taste, visits, clients, place, doubt)
            move_client(taste, visits, place, 1.0, mean)


@no_refcount
def evidence_of_outcomes(taste, visits, clients):
    """Evidence, in units, from the outcomes of odd clients' clicks that they are bots; below 0: that they are people.

    The log ratio of two Poisson probabilities: a person's clicks lead to outcomes as often as all other clicks of the
    same age, a bot's BOTS_BUY times as often. Uses scores from clicks alone: with outcomes in the scores, clients
    without outcomes would seem odd, and odd clients would lack outcomes for that reason alone.
    """
    odds = odds_of(prior_share(taste))
    held = visits.tally[HELD]
    expected = came = 0.0
    for block in range(BLOCKS):
        odd_clicks = odd_outcomes = 0.0
        clicks = outcomes = 0
        for i in range(block * held // BLOCKS, (block + 1) * held // BLOCKS):
            at = nth_oldest(visits, i)
            chance = chance_odd(clients.score[visits.place[at]], odds)
            for p in range(visits.examined[at]):
                clicks += visits.bits[at, p] & 1
                odd_clicks += chance * (visits.bits[at, p] & 1)
            outcomes += visits.outcomes[at]
            odd_outcomes += chance * visits.outcomes[at]
        if clicks - odd_clicks > 0.5:
            expected += odd_clicks * (outcomes - odd_outcomes) / (clicks - odd_clicks)
        came += odd_outcomes
    taste.outcomes[EXPECTED] = expected
    taste.outcomes[CAME] = came
    return min(max((1.0 - BOTS_BUY) * expected * UNIT - SPARED * came, -float(NEVER)), float(NEVER))


@no_refcount
def convict(taste, visits, clients, mean, most, certainty, doubt):
    """Score all clients and set the bar; return whether the odd taste is rare and enough clients surely have it.

    If outcomes prove them bots, a client is refused as soon as it is more likely odd than not. If outcomes prove them
    people, nobody is refused. A proof lasts until the opposite is proven, or the taste is lost.
    """
    against = 0.0
    if visits.tally[OUTCOMES] > 0:
        score_clients(taste, visits, clients, 0, 0)
        against = evidence_of_outcomes(taste, visits, clients)
    taste.rule[PROVEN] = against > certainty or (taste.rule[PROVEN] == 1 and against >= 0.0)
    if taste.rule[PROVEN]:
        certainty = doubt = 0
    taste.rule[DOUBT] = doubt
    score_clients(taste, visits, clients, doubt, SPARED)
    bar = bar_of(taste, certainty)
    if rare(taste, visits, most):
        judge_by_others(taste, visits, clients, mean, bar, doubt)
    sure, visited = count_sure(visits, clients, bar)
    enough = sure >= SURE_CLIENTS * taste.share[CLIENTS] * taste.share[KNOWN]
    enough = enough or visited >= SURE_VISITS * taste.share[VISITS] * visits.tally[HELD]
    people = against < -certainty
    enough = enough or taste.rule[PROVEN] == 1
    convicted = enough and not people and sure >= FEWEST and rare(taste, visits, most)
    taste.rule[BAR] = bar if convicted else NEVER
    return convicted


def odd_ones(taste: ClientMixture, visits: RecentVisits, clients: Clients) -> Iterator[tuple[Any, ...]]:
    """Clients above the bar, as fields of `views.Suspect`."""
    bar = int(taste.rule[BAR])
    chosen = clients.score[visits.place[: visits.tally[HELD]]] >= bar
    for place, since, clicks, segments in zip(*visits.by_client(chosen), strict=True):
        over, held = (int(clients.score[place]) - bar) / UNIT, int(clients.held[place])
        yield int(clients.number[place]), int(since), held, int(clicks), over, tuple(segments.tolist())


@no_refcount
def fit(taste, visits, clients, most, certainty, doubt):
    """Fit the two tastes, score all clients, and set the bar. O(remembered visits) a step.

    An odd taste, once found, is followed while it lasts. Otherwise each fit starts afresh, in one of three ways in
    turn, the flat one twice as often; if enough outcomes are known, the anchored start replaces the flat one. A new
    finding counts only if it survives further steps of the fit.
    """
    mean = mean_rate(taste)
    if taste.rule[BAR] < NEVER:
        settle(taste, visits, clients, mean)
        if convict(taste, visits, clients, mean, most, certainty, doubt):
            return
    taste.rule[PROVEN] = 0
    turn = taste.rule[TURN]
    taste.rule[TURN] = (turn + 1) % 4
    taste.share[CLIENTS] = taste.share[VISITS] = FIRST_SHARE
    if turn % 2 == 0 and visits.tally[OUTCOMES] >= ANCHORS:
        start_anchored(taste, visits, clients, mean)
    else:
        start_flat(taste, mean)
    if turn % 2 == 1:
        start_agreed(taste, visits, clients, mean)
    if turn == 3:
        turn_round(taste)
    settle(taste, visits, clients, mean)
    if not rare(taste, visits, most):
        focus(taste, visits, clients, mean, certainty, doubt)
    for _ in range(RECHECKS):
        if not convict(taste, visits, clients, mean, most, certainty, doubt):
            return
        settle(taste, visits, clients, mean)
    convict(taste, visits, clients, mean, most, certainty, doubt)
