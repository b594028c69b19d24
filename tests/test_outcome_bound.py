"""How many clicks without an outcome convict, and the guard of the benchmark that acts as soon as they do."""

import math

import false_purchases as bench
import numpy as np
import pytest

from steadyrank.core.contract import ANSWER, KIND, NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.rounds import FIRST_BOT
from steadyrank.guards.client_trust.client_mixture import BOTS_BUY

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("chance", [0.3, 0.02, 0.001])
def test_fewer_clicks_convict_more_people_than_may_be(chance):
    clicks = bench.clicks_for_proof(chance)
    assert (1.0 - chance) ** clicks <= bench.ERROR < (1.0 - chance) ** (clicks - 1)


def test_the_guard_asks_for_little_more_than_any_test_has_to():
    """`ClientTrust` counts 0.9 nats for each outcome that did not come, since it takes bots to buy a little."""
    asked = -math.log(bench.ERROR) / ((1.0 - BOTS_BUY) * 0.02)
    assert bench.clicks_for_proof(0.02) == 198
    assert round(asked) == 222


def test_the_guard_that_knows_all_waits_for_the_proof_and_takes_all_back():
    """Every third visit is a bot's, with two clicks: the fifth makes ten. People are heard all the time."""
    guard = make(bench.Proof, Problem(4, 3, horizon=60), settings={"clicks": 10})
    ranking, clicks = np.arange(3), np.array([True, False, True])
    said, back = {}, []
    for t in range(1, 31):
        note = np.full(3 + NOTE_EXTRA, float(t))
        note[KIND] = ANSWER
        said[t] = guard.admit(Visit(t, FIRST_BOT + t if t % 3 == 0 else t), ranking, note, clicks, 3)
        shown, told, bits = np.zeros(3, np.int64), np.zeros(3 + NOTE_EXTRA), np.zeros(3, np.bool_)
        while (taken := guard.retract(shown, told, bits))[2]:
            assert (told[0], shown.tolist(), bits.tolist()) == (taken[0], [0, 1, 2], [True, False, True])
            back.append((t, int(taken[0])))
    assert [t for t, admitted in said.items() if not admitted] == [18, 21, 24, 27, 30]
    assert back == [(15, t) for t in (3, 6, 9, 12, 15)]
