"""ClientTrust: who is remembered, what visits say of their clients, and whose visits are refused and taken back."""

import math
from collections import Counter, OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank.core.contract import ANSWER, KIND, NOTE_EXTRA, SILENCE, Problem, Visit, memory
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_admit, call_outcome, call_retract
from steadyrank.guards.client_trust.client_mixture import (
    BAR,
    BOTS_BUY,
    CAME,
    CLIENTS,
    CLIP,
    EXPECTED,
    FIRST_SHARE,
    NEVER,
    PRIOR,
    PROVEN,
    RECENT,
    UNIT,
    VISITS,
    ClientMixture,
    assign,
    count_visit,
    evidence_of_outcomes,
    evidence_of_visit,
    exchange,
    mean_rate,
    prior_share,
    rare,
    score_clients,
    start_flat,
    weigh_items,
)
from steadyrank.guards.client_trust.client_table import NEWEST, NOBODY, Clients, place_of_client, welcome
from steadyrank.guards.client_trust.recent_visits import (
    HELD,
    OUTCOMES,
    RecentVisits,
    count_outcome,
    nth_oldest,
    write_visit,
)

pytestmark = pytest.mark.pure

TRUST = sr.guards()["ClientTrust"]
D = 3


def in_order(clients):
    """Numbers of the clients, newest first."""
    place, found = clients.ends[NEWEST], []
    while place != NOBODY:
        found.append(int(clients.number[place]))
        place = clients.older[place]
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12) | st.integers(2**40, 2**40 + 3), max_size=80), st.integers(1, 6))
def test_clients_leave_in_the_order_in_which_they_were_last_seen(numbers, size):
    clients, slow = Clients.create(size), OrderedDict()
    for n, number in enumerate(numbers):
        place = welcome(clients, number)
        if number not in slow and len(slow) == size:
            slow.popitem(last=False)
        assert clients.score[place] == slow.get(number, 0)
        clients.score[place] = slow[number] = n
        slow.move_to_end(number)
        assert in_order(clients) == list(slow)[::-1]
        assert all((place_of_client(clients, k) != NOBODY) == (k in slow) for k in {*numbers, 99})


def test_a_client_takes_32_bytes():
    clients = Clients.create(1_000)
    assert sum(a.nbytes for name, a in memory(clients) if name != "ends") == 32_000


def remembered(events, n=64, n_items=4):
    """Tables after visits, each client, items and bits."""
    clients, visits, taste = (
        Clients.create(n),
        RecentVisits.create(n, D, D + NOTE_EXTRA),
        ClientMixture.create(n_items),
    )
    for t, (client, items, bits) in enumerate(events, 1):
        place = welcome(clients, client)
        ranking, clicks = np.array(items, np.int64), np.array(bits, np.bool_)
        at = write_visit(visits, place, t, ranking, np.zeros(D + NOTE_EXTRA), clicks, len(bits))
        clients.held[place] += 1
        count_visit(taste, visits, at, 1)
    return clients, visits, taste


def test_visits_are_kept_from_the_oldest_to_the_newest():
    visits = RecentVisits.create(4, D, D + NOTE_EXTRA)
    for t in range(1, 8):
        write_visit(visits, 0, t, np.arange(D), np.zeros(D + NOTE_EXTRA), np.zeros(D, np.bool_), D)
        rounds = [int(visits.round[nth_oldest(visits, i)]) for i in range(min(t, 4))]
        assert rounds == list(range(max(1, t - 3), t + 1))


def test_evidence_by_hand():
    """Item 0: 8 looks of all, 4 clicks; the odd ones looked twice and never clicked."""
    clients, visits, taste = remembered([(i, [0], [i < 4]) for i in range(8)], n_items=1)
    mean = mean_rate(taste)
    overall = 5 / 10
    assert mean == pytest.approx((4 + 4 * overall) / 12)
    taste.odd_looks[0] = 2.0
    weigh_items(taste, mean)
    odd, common = (0 + PRIOR * 0.5) / (2 + PRIOR), (4 + PRIOR * 0.5) / (6 + PRIOR)  # a third, and 0.6
    assert taste.evidence[1] == round(UNIT * math.log(odd / common)) == round(256 * math.log(5 / 9))
    assert taste.evidence[0] == round(UNIT * math.log((1 - odd) / (1 - common))) == round(256 * math.log(5 / 3))
    score_clients(taste, visits, clients, UNIT // 2, 0)
    assert clients.score[7] == taste.evidence[0] - UNIT // 2
    assert clients.score[0] == taste.evidence[1] - UNIT // 2
    assert evidence_of_visit(taste, visits, 0) == taste.evidence[1]
    taste.evidence[:] = 5 * CLIP
    assert evidence_of_visit(taste, visits, 0) == CLIP
    exchange(taste)
    assert (taste.odd_looks[0], taste.odd_clicks[0]) == (6.0, 4.0)


def test_rare_is_two_errors_below_most_of_the_visits_whatever_the_names():
    taste, visits = ClientMixture.create(1), RecentVisits.create(1, D, D + NOTE_EXTRA)
    for clients, share, held, answer in [
        (0.15, 0.15, 100, False),  # 0.15 + 2 * 0.0357 = 0.221
        (0.15, 0.15, 10_000, True),  # 0.157
        (0.90, 0.15, 10_000, True),  # many identities, few visits
        (0.02, 0.40, 10_000, False),  # few identities, many visits: as a hundred regulars among fresh names
        (0.02, 0.85, 10_000, False),
    ]:
        taste.share[:], visits.tally[HELD] = (clients, share, 1_000.0), held
        assert rare(taste, visits, 0.2) is answer


def test_what_is_believed_beforehand_of_a_client_does_not_depend_on_fresh_names():
    taste = ClientMixture.create(1)
    taste.share[:] = 0.95, 0.1, 2_000.0
    assert prior_share(taste) == 0.1
    taste.share[:] = 0.01, 0.3, 2_000.0
    assert prior_share(taste) == 0.01


VISIT = st.tuples(
    st.integers(0, 5),
    st.permutations(range(4)).map(lambda order: order[:D]),
    st.lists(st.booleans(), min_size=1, max_size=D),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(VISIT, min_size=1, max_size=60))
def test_a_step_of_the_fit_equals_counting_with_chances(events):
    """The slow way: every client's chance of being odd by Bayes' rule, every visit with the chance of its client."""
    clients, visits, taste = remembered(events)
    mean = mean_rate(taste)
    start_flat(taste, mean)
    taste.share[CLIENTS] = taste.share[VISITS] = FIRST_SHARE
    score_clients(taste, visits, clients, 0, 0)
    score = Counter({client: 0 for client, _, _ in events})
    for client, items, bits in events:
        said = sum(int(taste.evidence[2 * k + int(bit)]) for k, bit in zip(items, bits, strict=False))
        score[client] = min(max(score[client] + min(max(said, -CLIP), CLIP), -8 * UNIT), 24 * UNIT)
    assert all(clients.score[place_of_client(clients, c)] == s for c, s in score.items())
    odds = round(UNIT * math.log(FIRST_SHARE / (1 - FIRST_SHARE)))
    chance = {c: 1 / (1 + math.exp(-(s + odds) / UNIT)) if s + odds >= -6 * UNIT else 0.0 for c, s in score.items()}
    looks, clicks = np.zeros(4), np.zeros(4)
    for client, items, bits in events:
        for k, bit in zip(items, bits, strict=False):
            looks[k] += chance[client]
            clicks[k] += chance[client] * bit
    assign(taste, visits, clients)
    np.testing.assert_allclose(taste.odd_looks, looks, rtol=1e-12)
    np.testing.assert_allclose(taste.odd_clicks, clicks, rtol=1e-12)
    assert taste.share[CLIENTS] == pytest.approx((0.5 + sum(chance.values())) / (len(chance) + 1))
    assert taste.share[VISITS] == pytest.approx(sum(chance[c] for c, _, _ in events) / len(events))


FRESH = -1  # bots: a new name for each visit
REVERSED, NOTHING = np.array([0.05, 0.05, 0.5, 0.6]), np.zeros(4)


def bot_name(bots, t, rng):
    """The number under which a bot comes in round t."""
    return 1_000_000 + t if bots == FRESH else 1_000 + int(rng.integers(bots))


def crowd(n, bots, seed=0, own=300, share=0.15, likes=REVERSED):
    """Visits of many clients who click item 0 or 1, and of `bots` who click as they like; (client, items, bits)."""
    rng = np.random.default_rng(seed)
    rates = np.array([0.6, 0.5, 0.05, 0.05])
    for t in range(n):
        bot = bots != 0 and rng.random() < share
        client = bot_name(bots, t, rng) if bot else int(rng.integers(own))
        items = rng.permutation(4)[:D]
        bits = rng.random(D) < (likes if bot else rates)[items]
        reach = int(bits.argmax()) + 1 if bits.any() else D
        yield client, items, bits[:reach]


def attend(guard, events, grown=None, buys=None, delay=0):
    """What the guard says of each visit, and the rounds that it takes back, with their clients.

    `grown`: a list that becomes the guards that it grows to. `buys`: says by client of which share of its clicks
    something comes, `delay` rounds later on average.
    """
    said, back, due, till = [], [], {}, np.random.default_rng(8)
    ranking, note, clicks = np.zeros(D, np.int64), np.zeros(D + NOTE_EXTRA), np.zeros(D, np.bool_)
    for t, (client, items, bits) in enumerate(events, 1):
        if grown is not None:
            if guard.grown() is not guard:
                grown.append(guard := guard.grown())
            assert guard.grown() is guard
        shown = np.zeros(D, np.bool_)
        shown[: len(bits)] = bits
        told = np.full(D + NOTE_EXTRA, float(t))
        told[KIND] = ANSWER
        said.append(bool(call_admit(guard, Visit(t, client), items.astype(np.int64), told, shown, len(bits))))
        while True:
            round_, who, size, _ = call_retract(guard, ranking, note, clicks)
            if size == 0:
                break
            assert note[0] == round_
            back.append((int(round_), int(who)))
        for p in np.flatnonzero(bits) if buys else ():
            if till.random() < buys(client):
                due.setdefault(t + int(till.exponential(delay)), []).append((int(items[p]), t))
        for item, shown_in in due.pop(t, []):
            call_outcome(guard, item, shown_in, t, 0.0, 1.0)
    return said, back


def small(n_items=4, **more):
    return make(TRUST, Problem(n_items, D), settings={"remembered": 2_048, "known": 2_048, **more})


def shop(n, own, share, likes, seed=0):
    """Visits of `own` regulars to a shop of 20 items that shows its best most of the time, and of bots.

    Each bot's visit has a name of its own; it clicks each item with the chance that `likes` gives.
    """
    rng = np.random.default_rng(seed)
    rates = 0.6 * 0.8 ** np.arange(20)
    for t in range(n):
        bot = rng.random() < share
        items = rng.permutation(4 if rng.random() < 0.9 else 20)[:D]
        bits = rng.random(D) < (likes if bot else rates)[items]
        reach = int(bits.argmax()) + 1 if bits.any() else D
        yield 1_000_000 + t if bot else int(rng.integers(own)), items, bits[:reach]


def test_clients_who_agree_against_all_others_are_refused_and_taken_back():
    """8 identities with 15 % of the visits; once convicted, no visit of theirs is left in the learner's memory."""
    guard, events = small(), list(crowd(3_000, 8))
    said, back = attend(guard, events)
    false = [client >= 1_000 for client, _, _ in events]
    assert not any(admitted for admitted, f in list(zip(said, false, strict=True))[1_500:] if f)
    assert all(admitted for admitted, f in zip(said, false, strict=True) if not f)
    assert {who for _, who in back} == set(range(1_000, 1_008))
    learnt = {t for t, admitted in enumerate(said, 1) if admitted} - {t for t, _ in back}
    assert learnt == {t for t, f in enumerate(false, 1) if not f}
    view = guard.view()
    assert (view.refused, view.retracted) == (said.count(False), len(back))
    assert {suspect.client for suspect in view.suspects} == set(range(1_000, 1_008))
    assert all(s.beyond >= 0 and 0 < s.since <= 3_000 and str(s.visits) in s.why for s in view.suspects)


def test_silence_is_neither_judged_nor_remembered_and_counts_unless_its_client_is_refused():
    guard = small()
    attend(guard, list(crowd(3_000, 8)))
    before = [array.copy() for _, array in memory(guard)]
    told = np.zeros(D + NOTE_EXTRA)
    told[KIND] = SILENCE
    silence = np.arange(D), told, np.zeros(D, np.bool_), D
    heard = {client: bool(call_admit(guard, Visit(3_001, client), *silence)) for client in (-1, 7, 1_003, 5_000)}
    assert heard == {-1: True, 7: True, 1_003: False, 5_000: True}  # nobody, honest, convicted, never seen
    assert all(np.array_equal(a, b) for a, (_, b) in zip(before, memory(guard), strict=True))


def test_few_odd_clients_are_left_alone():
    """Four are fewer than five; an honest third of the clients is no fraud either."""
    said, back = attend(small(), list(crowd(3_000, 4)))
    assert all(said)
    assert not back
    rng = np.random.default_rng(3)
    events = list(crowd(3_000, 0))
    rates = np.array([0.05, 0.05, 0.5, 0.6])
    events = [(c, i, rng.random(D) < rates[i]) if c % 3 == 0 else (c, i, b) for c, i, b in events]
    guard = small()
    said, back = attend(guard, events)
    assert sum(not s for s in said) + len(back) < 30
    assert guard.taste.rule[BAR] == NEVER


@pytest.mark.parametrize("own", [40, pytest.param(100, marks=pytest.mark.slow), 300])
@pytest.mark.parametrize("share", [0.02, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.05, 0.15)), 0.4])
@pytest.mark.parametrize("likes", [0.6 * 0.8 ** np.arange(20)[::-1], np.zeros(20)], ids=["reversed", "crawler"])
def test_fresh_names_do_not_turn_the_guard_against_regulars(own, share, likes):
    """Most names are bots', most visits are not. A crawler that never clicks is no attacker, and does the same."""
    guard = small(n_items=20)
    said, back = attend(guard, list(shop(4_000, own, share, likes)))
    assert all(said)
    assert not back
    assert guard.view().stood_down == 0


@pytest.mark.parametrize("bots", [FRESH, 12])
def test_a_crawler_that_never_clicks_silences_nobody_else(bots):
    events = list(crowd(4_000, bots, own=100, share=0.1, likes=NOTHING))
    said, back = attend(small(), events)
    assert all(admitted for admitted, (client, _, _) in zip(said, events, strict=True) if client < 1_000)
    assert all(client >= 1_000 for _, client in back)


def test_fresh_names_beside_named_bots_frame_no_honest_client():
    """Two attackers: ten identities who come again and again, and a flood of names that nobody sees twice."""
    rng = np.random.default_rng(5)
    named, fresh = (iter(crowd(4_000, bots, seed=bots + 2, own=100, share=1.0)) for bots in (10, FRESH))
    honest = iter(crowd(4_000, 0, seed=9, own=100))
    events = [next(rng.choice([named, fresh, honest], p=[0.08, 0.1, 0.82])) for _ in range(4_000)]
    guard = small()
    said, back = attend(guard, events)
    refused = {client for admitted, (client, _, _) in zip(said, events, strict=True) if not admitted}
    refused |= {client for _, client in back}
    assert not refused & set(range(100))
    assert refused >= set(range(1_000, 1_010))


def test_an_office_behind_one_address_is_heard():
    """One client with a tenth of the visits, of as many people as it has visits."""
    rng = np.random.default_rng(6)
    events = [(7 if rng.random() < 0.1 else c, i, b) for c, i, b in crowd(4_000, 0, own=100)]
    said, back = attend(small(), events)
    assert all(said)
    assert not back


def school_class(n, seed=7):
    """200 visitors, and a class of 25 that was told to click item 3, with a tenth of the visits."""
    rng = np.random.default_rng(seed)
    for client, items, bits in crowd(n, 0, seed=seed, own=200):
        if rng.random() < 0.1:
            yield 500 + int(rng.integers(25)), items, items == 3
        else:
            yield client, items, bits


def test_a_school_class_that_clicks_the_same_is_refused_and_named_at_once():
    """Nothing in its clicks tells it from bots. Everybody else is heard, and the view names the class."""
    guard, events = small(), list(school_class(4_000))
    said, back = attend(guard, events)
    assert all(admitted for admitted, (client, _, _) in zip(said, events, strict=True) if client < 500)
    assert all(client >= 500 for _, client in back)
    assert {suspect.client for suspect in guard.view().suspects} == set(range(500, 525))


def test_a_flash_sale_that_brings_other_people_is_no_attack():
    """For a while most visits are of newcomers with another taste: they are heard, and so is everybody after them."""
    rng = np.random.default_rng(8)
    sale = ((5_000 + int(rng.integers(400)), i, b) for _, i, b in crowd(1_500, 4, seed=3, share=1.0))
    usual = crowd(6_000, 0, own=100)
    events = [next(sale if 2_000 <= t < 3_500 and rng.random() < 0.7 else usual) for t in range(6_000)]
    guard = small()
    said, _ = attend(guard, events)
    regulars = [admitted for admitted, (client, _, _) in zip(said, events, strict=True) if client < 5_000]
    assert all(regulars)
    newcomers = [admitted for admitted, (client, _, _) in zip(said, events, strict=True) if client >= 5_000]
    assert newcomers.count(False) <= 0.3 * RECENT
    assert guard.taste.rule[BAR] == NEVER


def test_a_guard_that_refuses_many_of_the_recent_visits_stands_down_and_comes_back():
    """Eight identities, found at 10 % of the visits, flood the board: they are heard until the flood is over."""
    guard = small(remembered=2_048)
    before, flood, after = (
        list(crowd(n, 8, seed=seed, share=share))
        for n, seed, share in ((2_000, 0, 0.1), (600, 1, 0.8), (6_000, 2, 0.05))
    )
    attend(guard, before)
    assert {suspect.client for suspect in guard.view().suspects} == set(range(1_000, 1_008))
    assert (guard.view().stands_down, guard.view().stood_down) == (0, 0)
    said, _ = attend(guard, flood)
    refused = said.count(False)
    assert 0 < refused <= RECENT
    assert guard.view().stood_down == 1
    assert guard.view().suspects == ()
    assert all(said[-200:])
    said, _ = attend(guard, after)
    assert guard.view().stands_down == 0
    assert guard.view().stood_down == 1
    assert not any(a for a, (client, _, _) in list(zip(said, after, strict=True))[3_000:] if client >= 1_000)
    assert all(a for a, (client, _, _) in zip(said, after, strict=True) if client < 1_000)


@pytest.mark.parametrize("delay", [0, 400])
def test_names_with_few_visits_are_found_where_people_buy(delay):
    """100 names with nine visits each, of which three quarters were found without: nearly all, and nobody else."""
    events = list(crowd(6_000, 100))
    false = {t for t, (client, _, _) in enumerate(events, 1) if client >= 1_000}
    found = {}
    for buys in (None, lambda client: 0.05 if client < 1_000 else 0.0):
        guard = small()
        said, back = attend(guard, events, buys=buys, delay=delay)
        refused = {t for t, admitted in enumerate(said, 1) if not admitted} | {t for t, _ in back}
        found[buys is not None] = len(refused & false) / len(false)
        assert len(refused - false) < 0.005 * 5_000
    assert found[True] > 0.95
    assert found[False] < 0.85
    assert guard.taste.rule[PROVEN]
    view = guard.view()
    assert view.expected > 5.0
    assert view.came < 0.5


def test_a_class_that_buys_as_others_do_is_heard():
    """The same class as above; what comes of its clicks tells it from bots, once enough has come."""
    events = list(school_class(4_000))
    said, back = attend(small(), events, buys=lambda client: 0.2)
    assert sum(not admitted for admitted in said) + len(back) < 0.2 * 400
    assert all(said[-2_000:])


def test_what_came_of_odd_clicks_is_measured_against_clicks_of_the_same_age():
    """16 visits with a click each in eight blocks of two: a person and somebody odd in each, who are surely that.

    Of the people's clicks something came in the two oldest blocks; of newer ones nothing is known yet. So two of the
    odd ones' clicks should have led to something; if one did, that counts as log 10 against 0.9 for each of the two.
    """
    clients, visits, taste = remembered([(1 + i % 2, [i % 2], [True]) for i in range(16)])
    taste.share[:] = 0.5, 0.5, 2.0
    clients.score[place_of_client(clients, 1)], clients.score[place_of_client(clients, 2)] = -8 * UNIT, 24 * UNIT
    for at in (0, 2):
        count_outcome(visits, at, 1)
    against = evidence_of_outcomes(taste, visits, clients)
    assert taste.outcomes[[EXPECTED, CAME]] == pytest.approx([2.0, 0.0], abs=0.01)
    assert against == pytest.approx((1 - BOTS_BUY) * 2 * UNIT, abs=0.02 * UNIT)
    count_outcome(visits, 1, 1)
    assert evidence_of_outcomes(taste, visits, clients) == pytest.approx(
        against - math.log(10) * UNIT, abs=0.02 * UNIT
    )


def test_outcomes_of_clicks_that_are_remembered_count_once_each():
    guard = small(n_items=4, remembered=4)
    attend(guard, [(client, np.arange(3), [False, True]) for client in (7, 8, 7, 9, 9)])  # the first one has left
    told = [
        (1, 5, 0.0, 2.0),
        (1, 5, 2.0, 3.0),
        (0, 5, 0.0, 1.0),
        (1, 1, 0.0, 1.0),
        (1, 3, 0.0, 9.0),
        (3, 9, 0.0, 1.0),
    ]
    for item, shown, before, after in told:
        call_outcome(guard, item, shown, 6, before, after)
    assert guard.visits.outcomes.tolist() == [1, 0, 1, 0]  # rounds 5, 2, 3 and 4
    assert guard.visits.tally[OUTCOMES] == 2
    call_outcome(guard, 1, 5, 7, 3.0, 0.0)  # sent back
    assert guard.visits.outcomes.tolist() == [0, 0, 1, 0]
    attend(guard, [(7, np.arange(3), [False, True])] * 4)
    assert guard.visits.tally[OUTCOMES] == guard.visits.outcomes.sum() == 0


def test_a_guard_that_would_refuse_too_many_refuses_and_takes_back_nothing_and_says_so():
    guard = small(stand_down=0.05)
    said, back = attend(guard, list(crowd(3_000, 8)))
    assert all(said)
    assert not back
    view = guard.view()
    assert (view.refused, view.retracted, view.suspects) == (0, 0, ())
    assert 0 < view.stands_down <= 3_000
    assert view.stood_down >= 1


def test_a_guard_that_was_turned_round_heals():
    """A flood of fresh names is most of what is remembered; when it ends, everybody who stays is heard."""
    guard = small()
    attend(guard, list(crowd(2_000, 0, own=60)))
    attend(guard, list(crowd(3_000, FRESH, own=60, share=0.9, seed=1)))
    said, _ = attend(guard, list(crowd(3_000, 0, own=60, seed=2)))
    assert said.count(False) <= 0.3 * RECENT
    assert all(said[RECENT:])


def test_the_same_visits_give_the_same_memory_of_the_same_size():
    events = list(crowd(2_500, 300, seed=4, own=900))
    guards = [small(remembered=512, known=600) for _ in range(2)]
    sizes = [a.nbytes for _, a in memory(guards[0])]
    assert attend(guards[0], events) == attend(guards[1], events)
    for (name, a), (_, b) in zip(memory(guards[0]), memory(guards[1]), strict=True):
        assert np.array_equal(a, b), name
    assert [a.nbytes for _, a in memory(guards[0])] == sizes
    held = guards[0].clients.held
    assert held.sum() == 512
    assert (held >= 0).all()


@pytest.mark.parametrize(("bots", "own"), [(8, 300), (300, 900)])
def test_a_guard_that_grows_is_the_one_at_full_size(bots, own):
    """All but the order inside chains, which nothing depends on; 512 visits and 600 clients are exceeded."""
    settings, events = {"remembered": 512, "known": 600}, list(crowd(2_500, bots, seed=4, own=own))
    full, little, grown = small(**settings), make(TRUST, Problem(4, D, horizon=16), settings=settings), []
    assert attend(full, events) == attend(little, events, grown)
    assert [guard.visits.round.size for guard in grown][:2] == [32, 64]
    last = grown[-1]
    for (name, a), (_, b) in zip(memory(full), memory(last), strict=True):
        if name not in ("clients.head", "clients.after"):
            size = min(len(a), len(b))  # of 308 clients at most, a table of 512 has room
            assert np.array_equal(a[:size], b[:size]), name
    numbers = {client for client, _, _ in events}
    assert {n: place_of_client(full.clients, n) for n in numbers} == {
        n: place_of_client(last.clients, n) for n in numbers
    }
    assert full.view().suspects == last.view().suspects


def test_a_guard_needs_no_more_room_than_the_horizon():
    guard = make(TRUST, Problem(4, D, horizon=100), settings={})
    assert (guard.visits.round.size, guard.clients.number.size) == (100, 100)
    assert (guard.remembered, guard.known) == (16_384, 65_536)


def test_what_the_learner_does_not_know_is_not_taken_back():
    """Round 1 was refused by another guard; of two alike in round 2 the newer one was: either is as good."""
    visits = RecentVisits.create(4, 2, 6)
    shown, note, clicks = np.array([1, 0]), np.zeros(6), np.array([False, True])
    for t, place in ((1, 0), (2, 0), (2, 1)):
        at = write_visit(visits, place, t, shown, note, clicks, 2)
        visits.learnt[at] = True
    visits.disown(1, shown, np.array([True, False]))
    visits.disown(1, shown[:1], clicks[:1])
    visits.disown(3, shown, clicks)
    assert visits.learnt.tolist() == [True, True, True, False]
    visits.disown(1, shown, clicks)
    visits.disown(2, shown, clicks)
    assert visits.learnt.tolist() == [False, True, False, False]


def test_visits_without_a_sender_pass_and_are_not_remembered():
    guard = small()
    said, back = attend(guard, [(-1, i, b) for _, i, b in crowd(400, 8)])
    assert all(said)
    assert not back
    assert guard.visits.tally[1] == 0


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("most", 0.6),
        ("certainty", -1.0),
        ("doubt", 5.0),
        ("stand_down", 1.5),
        ("remembered", 0),
        ("known", 2_047),
    ],
)
def test_what_cannot_be_set_is_refused(setting, value):
    with pytest.raises(ValueError, match=setting):
        small(**{setting: value})
