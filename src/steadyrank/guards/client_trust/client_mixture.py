"""Two tastes among clients, fitted to their recent visits: the common one and an odd one. Ours, no paper's.

Each client is of one of the two, so that all visits of a client are judged together: expectation-maximization for a
mixture of two, over clients. Evidence is kept in whole units of 1 / UNIT nats: sums are exact, whatever their order.
What comes of clicks has no part in the fit, so that it can judge what the fit found.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats, Ints
from ...core.compiling.jit import no_refcount
from .client_table import USED, Clients
from .recent_visits import HELD, OUTCOMES, RecentVisits, nth_oldest

UNIT = 256  # of a nat
NEVER = 1 << 15  # no score is as high
PRIOR = 4.0  # looks that count for an item's rate among all clients in its rate in either taste
LEAST = 0.002  # of a rate: no bit is proof
CLIP = 4 * UNIT  # evidence of one visit at most: nobody is convicted by a single one
FLOOR, CEILING = -8 * UNIT, 24 * UNIT  # of a score: whoever turns loses a good name in a few visits, or regains it
SIDE = 8 * UNIT  # evidence of one client at most in `start_agreed`
POWERS = 5  # its steps
FIRST_SHARE = 0.05  # of odd clients, to begin with
STEPS = 8  # of a fit at most
STILL = 0.02  # a share that moves by less has settled
RECHECKS = 3  # of what a fit finds for the first time
NEGLIGIBLE = -6 * UNIT  # chances below e^-6 count for nothing
LEAST_SHARE = 0.01  # of odd clients, in the bar
FEWEST = 5  # clients surely odd: one has a taste of its own, several agree
FEW, HEAVY = (
    32,
    8,
)  # clients surely odd: if they are few, or have more than an eighth of the odd visits, each is judged by the others
SURE_CLIENTS, SURE_VISITS = 0.05, 0.25  # shares of the odd ones that are surely odd; one of the two is enough
BAR, TURN, PROVEN, DOUBT = range(4)  # places of ClientMixture.rule
EXPECTED, CAME = range(2)  # places of ClientMixture.outcomes
BOTS_BUY = 0.1  # outcomes of a click by whoever is no person, as a share of those of a person's
SPARED = round(-math.log(BOTS_BUY) * UNIT)  # evidence of an outcome for its client
ANCHORS, ODD_PART = 20, 0.2  # outcomes from which on they are a beginning; what is odd of the others
BLOCKS = 8  # of the remembered visits, by age: outcomes of new clicks may not be known yet
CLIENTS, VISITS, KNOWN = range(3)  # places of ClientMixture.share
RECENT = 512  # visits that count as recent


class ClientMixture(NamedTuple):
    """Looks and clicks of all remembered visits, and of the odd ones; the evidence of a bit of an item. K items."""

    looks: Counts  # [K]
    clicks: Counts  # [K]
    odd_looks: Floats  # [K] each visit with the chance that its client is odd
    odd_clicks: Floats  # [K]
    evidence: Counts  # [2 K] of a bit 0 and of a bit 1 of each item, for the odd taste
    share: Floats  # [3] odd ones among clients and among visits; how many clients
    rule: Ints  # [4] the score from which on a client is refused, the way in which the next fit begins, whether
    # outcomes prove that nobody with the odd taste is a person, what is taken off the evidence of each visit
    outcomes: Floats  # [2] of the odd ones' clicks: what people's would have led to, and what came of them

    @classmethod
    def create(cls, n_items: int) -> "ClientMixture":
        """Nothing known."""
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
    """The rate of an item among all clients, drawn towards the `mean` by PRIOR looks."""
    return (taste.clicks[k] + PRIOR * mean) / (taste.looks[k] + PRIOR)


@no_refcount
def mean_rate(taste):
    """The mean over seen items of their rates, each drawn towards the rate of all looks."""
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
    """Evidence for an odd taste that knows no good and no bad items: all at the mean rate."""
    for k in range(taste.looks.size):
        rate = pooled_rate(taste, k, mean)
        taste.evidence[2 * k] = log_ratio(1.0 - mean, 1.0 - rate)
        taste.evidence[2 * k + 1] = log_ratio(mean, rate)


@no_refcount
def weigh_item(taste, k, mean):
    """Evidence of an item from the counts of both tastes; its rates are drawn towards that among all clients."""
    prior = PRIOR * pooled_rate(taste, k, mean)
    odd_looks = min(max(taste.odd_looks[k], 0.0), float(taste.looks[k]))  # sure clients count a little less than 1
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
    """Begin the scores of all clients with remembered visits anew, with what is carried or with nothing."""
    for place in range(clients.ends[USED]):
        if clients.held[place] > 0:
            clients.score[place] = clients.carried[place] if carried else 0


@no_refcount
def score_clients(taste, visits, clients, doubt, spared):
    """Add up the evidence of the remembered visits for their clients, in order.

    Each counts `doubt` less, and `spared` less for each outcome.
    """
    reset_scores(clients, True)
    for i in range(visits.tally[HELD]):
        at = nth_oldest(visits, i)
        place = visits.place[at]
        against = evidence_of_visit(taste, visits, at) - doubt - spared * visits.outcomes[at]
        clients.score[place] = bounded(clients.score[place] + against)


@no_refcount
def chance_odd(score, odds):
    """The chance that a client with this score is odd; `odds` are those before its visits, in units."""
    x = score + odds
    return 0.0 if x < NEGLIGIBLE else 1.0 / (1.0 + math.exp(-x / UNIT))


@no_refcount
def odds_of(share):
    """Log odds of a share, in units."""
    return log_ratio(share, 1.0 - share)


@no_refcount
def prior_share(taste):
    """The share of odd ones before anything is known of a client: of the clients or of the visits, the lesser.

    Names cost nothing: with a fresh one for each visit, a few visits are most of the clients, and nobody would need
    evidence to be taken for one of them.
    """
    return min(taste.share[CLIENTS], taste.share[VISITS])


@no_refcount
def clear_odd(taste):
    """Count no visit for the odd taste."""
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
    """Count each visit for the odd taste with the chance that its client is odd; returns how the share moved."""
    before = prior_share(taste)
    odds = odds_of(before)
    total = 0.5  # half a client of either taste is always there
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
    return prior_share(taste) / before if before > 0.0 else 1.0  # from nothing it does not move


@no_refcount
def exchange(taste):
    """Let the odd taste be the common one, and the other way round."""
    for k in range(taste.looks.size):
        taste.odd_looks[k] = taste.looks[k] - taste.odd_looks[k]
        taste.odd_clicks[k] = taste.clicks[k] - taste.odd_clicks[k]
    for i in range(2):
        taste.share[i] = 1.0 - taste.share[i]


@no_refcount
def rare(taste, visits, most):
    """Whether so few visits are of the odd taste that it is no honest one: less than `most`, by two standard errors.

    Visits alone decide: names are free, so that shares of clients are whatever an attacker wants them to be.
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
    """Evidence for what some clients do again and again and others do not: POWERS steps of a power iteration.

    A visit counts by the evidence of the *other* visits of its client, so that chance has no part in it, and a client
    by no more than SIDE, so that no heavy one decides alone.
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
        scale = UNIT / math.sqrt(square / max(visits.tally[HELD], 1) + 1e-9)  # a visit is worth one nat or so
        for k in range(taste.looks.size):
            rate = pooled_rate(taste, k, mean)
            agreed = taste.odd_clicks[k] - rate * taste.odd_looks[k]
            taste.evidence[2 * k] = round(-rate * agreed * scale)
            taste.evidence[2 * k + 1] = round((1.0 - rate) * agreed * scale)


@no_refcount
def turn_round(taste):
    """Evidence for the opposite: agreement has no sign."""
    for bit in range(taste.evidence.size):
        taste.evidence[bit] = -taste.evidence[bit]


@no_refcount
def start_anchored(taste, visits, clients, mean):
    """Evidence for what those of whose clicks nothing came do, and those who bought do not.

    Who bought is a person. The visits of all others are a mixture, ODD_PART of it odd: from what they did, so much is
    taken of what the people did that this part is left.
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
    """Fit the two tastes, beginning with the evidence at hand; the one with fewer visits is the odd one."""
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
    """The score from which on a client is surely odd."""
    return certainty - odds_of(max(prior_share(taste), LEAST_SHARE))


@no_refcount
def focus(taste, visits, clients, mean, certainty, doubt):
    """Fit again, beginning with those clients alone who surely have the odd taste.

    Bots beside an honest minority may first be found as one group with it, which is too large to be fraud.
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
    """Count the remembered visits of a client for the odd taste (sign 1), or take them away (-1).

    Only items that it has seen are weighed again: a board may have a million others.
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
    """How many clients are surely odd, and how many remembered visits they have."""
    sure = visited = 0
    for place in range(clients.ends[USED]):
        if clients.held[place] > 0 and clients.score[place] >= bar:
            sure += 1
            visited += clients.held[place]
    return sure, visited


@no_refcount
def judge_by_others(taste, visits, clients, mean, bar, doubt):
    """Score those who are surely odd again, each by an odd taste without its own visits.

    A client's own visits bend the odd taste towards what it did. Among hundreds that is little; among a few, or for
    one who comes often, it alone can make a person with a taste of their own look like one of several who agree.
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
    """By how much, in units, what came of the odd ones' clicks says that they are no people; below 0: that they are.

    Of a person's clicks as many lead to something as of all other clicks of the same age, of a bot's BOTS_BUY of
    that: a quotient of two Poisson probabilities. Scores are those of clicks alone: were outcomes in them, whoever
    has none would seem odd, and nothing come of what odd clients click, for no other reason than that.
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
    """Score all clients and set the bar; whether the odd taste is rare and enough clients surely have it.

    Where outcomes prove that they are no people, a client is refused as soon as it is more likely odd than not. Where
    they prove that they are, nobody is. A proof lasts until there is one of the opposite, or the taste is lost.
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
    """Clients above the bar, by the fields of `views.Suspect`."""
    bar = int(taste.rule[BAR])
    chosen = clients.score[visits.place[: visits.tally[HELD]]] >= bar
    for place, since, clicks, segments in zip(*visits.by_client(chosen), strict=True):
        over, held = (int(clients.score[place]) - bar) / UNIT, int(clients.held[place])
        yield int(clients.number[place]), int(since), held, int(clicks), over, tuple(segments.tolist())


@no_refcount
def fit(taste, visits, clients, most, certainty, doubt):
    """Fit the two tastes, score all clients, and set the bar. O(remembered visits) a step.

    An odd taste is followed as long as it is there. Else each fit begins anew, in one of three ways in turn, the
    flat one twice as often, and with those who bought in its place where outcomes are known; what it finds must last
    when the fit goes on.
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
