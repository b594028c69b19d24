"""G-COBE: model selection over an unknown amount of corruption, with its published tests and constants.

Wei, Dann, Zimmert 2022, Algorithms 1 to 4 (BASIC, COBE, TwoModelSelect, G-COBE), checked against a transcription in
public code of the paper's first author, not against their text. Ours: TwoModelSelect's challenger assumes corruption
p sqrt(beta1 L) / beta2 (the transcription has p sqrt(beta1 L / beta2), whose dimension is wrong), its tests run after
each round, L is rounded up to a whole round, beta3 = K, and if instance k has not acted in phase 1 its list is
the last one shown. One state machine, because the simulator calls a learner round by round:

- BASIC(k) draws instance i = k..k_max with chance alpha_i; each learns from its own rounds and assumes
  corruption theta_i. It fails when a slower instance earns surely more, which proves C > 2^k.
- COBE runs BASIC(k), BASIC(k + 1), ... as they fail.
- G-COBE, for each k: phase 1 runs BASIC(k) for L_k rounds and records instance k's most frequent list; phase 2
  (TwoModelSelect) plays that list against COBE restricted to other lists, to learn the gap between them. Once
  L_k exceeds the horizon, phase 3 is COBE for the remaining rounds.

At the paper's size (beta1 = K log T, beta2 = beta3 = K, K = 500, T = 40,000) it is inert: beta4 is 2.8e9 (2.3e9
by the paper's proof of Theorem 2, which has log T for log(T / delta) and no beta3), BASIC's test needs a reward gap
that takes longer than the horizon, and phase 2 gives half of its rounds to the challenger.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.compiling.jit import no_refcount
from ...core.philox import philox
from ...core.settings import known_horizon, whole

K, PHASE, GONE, INSTANCE, ENGINE, TAU, EPOCH, GENERATION, LEADER = range(9)  # indices in `counts`
DHAT, M, R0, R1 = range(4)  # indices in `numbers`
_C_MAX = 1.0  # most corruption of one round


class GCOBE(NamedTuple):
    """State of G-COBE, and its constants."""

    counts: Ints  # [9] k; phase; rounds in it; k of the running BASIC; its rounds; rounds of the epoch; epoch; ...
    numbers: Floats  # [4] estimated gap; epoch length; reward of the list and of its challenger
    plays: Ints  # [instances] rounds of the running BASIC
    gains: Ints  # [instances] clicks in them
    favourite: Ints  # [length] the list that phase 2 plays
    keys: Ints  # [table] fingerprints of the lists that instance k played in phase 1
    votes: Ints  # [table] how often each was played
    horizon: float
    log: float  # log(T / delta)
    beta1: float
    beta2: float
    beta3: float
    beta4: float

    @classmethod
    def create(cls, horizon: int, length: int, betas: tuple[float, float, float], delta: float) -> "GCOBE":
        """The initial state of G-COBE; horizon 0 makes an empty placeholder."""
        beta1, beta2, beta3 = betas
        log = math.log(max(horizon, 1) / delta)
        # Wei, Dann, Zimmert 2022, Theorem 4, as the transcription has it
        beta4 = 1e4 * (2.0 * beta1 + 42.0 * beta2 * _C_MAX * log + 2.0 * beta3)
        n = slowest(horizon) + 1 if horizon else 1
        table = 2 ** math.ceil(math.log2(2 * horizon + 2)) if horizon else 1  # at most half full
        state = cls(
            np.zeros(9, np.int64),
            np.zeros(4),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.arange(length, dtype=np.int64),
            np.zeros(table, np.int64),
            np.zeros(table, np.int64),
            float(horizon),
            log,
            float(beta1),
            float(beta2),
            float(beta3),
            beta4,
        )
        if horizon:
            first = math.ceil(math.log2((math.sqrt(beta1) + beta2 * _C_MAX + beta3) / beta2))
            start(state, max(first, 0))
        return state


def checked_horizon(learner: str, horizon: int) -> int:
    """The horizon, at most ten million rounds: each may bring a new list to store."""
    return whole(f"horizon of {learner}", known_horizon(learner, horizon), 1, 10_000_000)


def slowest(horizon: int) -> int:
    """k_max = ceil(log2(c_max T))."""
    return max(0, math.ceil(math.log2(max(_C_MAX * horizon, 1.0))))


@no_refcount
def alpha(k, last, i):
    """Chance of instance i in BASIC(k): 2^(k - i - 1) for i > k, the rest for k."""
    return 2.0 ** (k - i - 1) if i > k else 0.5 + 2.0 ** (k - last - 1)


@no_refcount
def theta(state, i):
    """Corruption that instance i of the running BASIC assumes."""
    share = alpha(state.counts[INSTANCE], state.plays.size - 1, i)
    return 1.25 * share * 2.0**i + 21.0 * _C_MAX * state.log


@no_refcount
def regret_bound(state, n, corruption):
    """R_B(n, C) = sqrt(beta1 n) + beta2 C + beta3, claimed for the base learner."""
    return math.sqrt(state.beta1 * n) + state.beta2 * corruption + state.beta3


@no_refcount
def phase_length(state, k):
    """L_k = (beta2 2^k)^2 / beta4, at least one round."""
    return max(1.0, math.ceil((state.beta2 * 2.0**k) ** 2 / state.beta4))


@no_refcount
def fails(state):
    """BASIC's test: whether some instance j earns surely more than a faster one i, so that C > 2^k."""
    k, last, t = state.counts[INSTANCE], state.plays.size - 1, state.counts[ENGINE]
    for i in range(k, last):
        a = alpha(k, last, i)
        mine = (state.gains[i] + regret_bound(state, state.plays[i], theta(state, i))) / a
        for j in range(i + 1, last + 1):
            b = alpha(k, last, j)
            slack = math.sqrt(t * state.log / b) + (_C_MAX * state.log + theta(state, j)) / b
            if mine < state.gains[j] / b - 8.0 * slack:
                return True
    return False


@no_refcount
def restart(state, k):
    """Start BASIC(k), or the slowest one; the caller must clear the instances' memory too."""
    state.counts[INSTANCE] = min(k, state.plays.size - 1)
    state.counts[ENGINE] = 0
    state.counts[GENERATION] += 1
    state.plays[:] = 0
    state.gains[:] = 0


@no_refcount
def start(state, k):
    """Start phase 1 of G-COBE's k, or phase 3 if that would outlast the horizon."""
    state.counts[K] = k
    state.counts[PHASE] = 3 if phase_length(state, k) > state.horizon else 1
    state.counts[GONE] = 0
    state.keys[:] = 0
    state.votes[:] = 0
    state.counts[LEADER] = 0
    restart(state, k)


@no_refcount
def begin_challenge(state):
    """Start phase 2: the list against a new COBE."""
    length = phase_length(state, state.counts[K])
    state.counts[PHASE] = 2
    state.counts[GONE] = state.counts[EPOCH] = 0
    state.numbers[DHAT] = min(math.sqrt(state.beta4 / length), 1.0)
    begin_epoch(state, state.beta4 / state.numbers[DHAT] ** 2)


@no_refcount
def begin_epoch(state, length):
    """Start an epoch of phase 2 with a new challenger."""
    state.numbers[M] = length
    state.numbers[R0] = state.numbers[R1] = 0.0
    state.counts[TAU] = 0
    state.counts[EPOCH] += 1
    first = (math.sqrt(state.beta1 * state.horizon) + state.beta2 * _C_MAX + state.beta3) / state.beta2
    restart(state, max(0, math.ceil(math.log2(first))))


@no_refcount
def share_of_challenger(state):
    """p = beta4 / (2 M Dhat^2)."""
    return state.beta4 / (2.0 * state.numbers[M] * state.numbers[DHAT] ** 2)


@no_refcount
def choose(state, u, v):
    """The instance that acts, or -1 for the list; u and v are uniform."""
    if state.counts[PHASE] == 2 and u >= share_of_challenger(state):
        return -1
    k, last = state.counts[INSTANCE], state.plays.size - 1
    for i in range(k, last):
        v -= alpha(k, last, i)
        if v < 0.0:
            return i
    return last


@no_refcount
def vote(state, ranking):
    """Count a list of instance k; the most frequent so far becomes the favourite. Order does not matter."""
    key = 0
    for item in ranking:
        low, high = philox(item, 0, 0)
        key ^= low << 30 ^ high
    slot = key % state.keys.size
    for _ in range(state.keys.size):
        if state.keys[slot] == key or state.votes[slot] == 0:
            state.keys[slot] = key
            state.votes[slot] += 1
            if state.votes[slot] > state.counts[LEADER]:
                state.counts[LEADER] = state.votes[slot]
                for p in range(ranking.size):
                    state.favourite[p] = ranking[p]
            return
        slot = (slot + 1) % state.keys.size


@no_refcount
def settle_challenge(state):
    """Apply TwoModelSelect's tests after a round of phase 2; move on to the next epoch or the next k."""
    dhat, m, tau, p = state.numbers[DHAT], state.numbers[M], state.counts[TAU], share_of_challenger(state)
    length = phase_length(state, state.counts[K])
    mine, theirs = state.numbers[R0] / (1.0 - p), state.numbers[R1] / p
    least = min(math.sqrt(state.beta4 / length), 1.0)
    slack = 5.0 / p * regret_bound(state, p * tau, p * math.sqrt(state.beta1 * length) / state.beta2)
    smaller = mine <= theirs + 0.5 * tau * dhat - slack
    larger = not smaller and mine >= theirs + 3.0 * m * dhat + 8.0 * math.sqrt(state.beta1 * length)
    last = state.counts[EPOCH] >= 3.0 * math.log2(state.horizon)
    ends = smaller or larger or tau >= m
    if state.counts[GONE] >= length or (smaller and dhat / 1.25 < least) or (ends and last):
        start(state, state.counts[K] + 1)
    elif smaller or larger:
        state.numbers[DHAT] = dhat / 1.25 if smaller else dhat * 1.25
        begin_epoch(state, state.beta4 / state.numbers[DHAT] ** 2)
    elif ends:
        begin_epoch(state, 2.0 * m + state.beta4 / dhat**2)


@no_refcount
def advance(state, i, ranking, reward):
    """Count a round of instance i (or of the list, -1), apply the tests, and change phase if they say so."""
    phase = state.counts[PHASE]
    state.counts[GONE] += 1
    if i >= 0:
        state.plays[i] += 1
        state.gains[i] += reward
        state.counts[ENGINE] += 1
    if phase == 1 and i == state.counts[INSTANCE]:
        vote(state, ranking)
    elif phase == 1 and state.counts[LEADER] == 0:  # until instance k acts, use the last list (ours)
        for p in range(ranking.size):
            state.favourite[p] = ranking[p]
    failed = i >= 0 and fails(state)
    if phase == 1 and failed:
        start(state, state.counts[K] + 1)
    elif phase == 1 and state.counts[GONE] >= phase_length(state, state.counts[K]):
        begin_challenge(state)
    elif failed:
        restart(state, state.counts[INSTANCE] + 1)
    if phase == 2:
        state.counts[TAU] += 1
        state.numbers[R0 if i < 0 else R1] += reward
        settle_challenge(state)
