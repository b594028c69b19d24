"""Surges: items of queries that are suddenly clicked far more, by hand, against a slow reference, and as alarms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank.core.compiling.jit import kernel
from steadyrank.core.contract import Visit
from steadyrank.core.dispatch import call_forget, call_update
from steadyrank.live.collection import surges as module
from steadyrank.live.collection.id_table import IdTable, find_or_add_row
from steadyrank.live.collection.pair_table import find
from steadyrank.live.collection.surges import APART, MOST, NATS, SURE, Surges, gain, note_surge, odds_times
from test_collection import DOCS, noted, re_ranker

pytestmark = pytest.mark.pure


def shown(ranker, bits, first=1, item=0, query=0):
    """A list of one item each, clicked or not; the slot of its pair."""
    find_or_add_row(ranker.queries.ids, query + 1)
    for t, bit in enumerate(bits, first):
        clicks = np.array([bit], np.bool_)
        call_update(ranker, Visit(t), np.array([item]), noted(query, [item], 1), clicks, 1)
    return find(ranker.pairs, 0, item + 1)


def test_odds_and_nats_by_hand():
    assert odds_times(0.2, 4.0) == pytest.approx(0.5)  # odds of 1 to 4 become 4 to 4
    assert gain(0.2, 0.5, 3.0, 2.0) == pytest.approx(2 * math.log(2.5) + math.log(0.625))


def test_a_surge_by_hand():
    """100 looks, 10 clicks, then clicks alone. The prior is 0.1, and stands for 10 looks: until then 11 of 110."""
    ranker = re_ranker(1, attention=[1.0])
    ranker.prior.mean[:], ranker.prior.strength[0], ranker.prior.tally[1] = 0.1, 10.0, 10**9
    slot = shown(ranker, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1] * 10)
    assert (ranker.pairs.since[slot], ranker.pairs.hits[slot]) == (1.0, 1.0)  # the latest one was a click
    mean = 0.1 - 0.9 / 109  # that click is not in what came before: 10 of 109
    higher = mean + SURE * math.sqrt(mean * (1 - mean) / 110)
    each = math.log(4 / (1 + 3 * higher))
    needed = int(NATS / each) + 1  # clicks in a row
    assert needed == 13
    shown(ranker, [1] * (needed - 2), 101)
    assert ranker.surges.total[0] == 0
    assert ranker.pairs.since[slot] == needed - 1
    shown(ranker, [1], 200)
    assert ranker.surges.total.tolist() == [1, 1, 200]
    assert ranker.surges.what[0].tolist() == [1, 1, 200, 1]
    assert ranker.surges.counts[0] == pytest.approx([needed, needed, mean])
    assert (ranker.pairs.since[slot], ranker.pairs.hits[slot]) == (0.0, 0.0)
    assert (ranker.pairs.looks[slot], ranker.pairs.clicks[slot]) == (100 + needed - 1, 10 + needed - 1)  # as ever


class SlowPair:
    """The looks of a pair one by one with their weights, and where its stretch begins."""

    def __init__(self, keep):
        self.keep, self.weight, self.bits, self.start, self.found = keep, [], [], 0, []

    def look(self, bit, prior, strength):
        if sum(self.weight) >= self.keep - 1e-6:
            self.weight = [w * (1 - 1 / self.keep) for w in self.weight]
        if self.start == len(self.bits) and not bit:
            self.start += 1
        self.weight.append(1.0)
        self.bits.append(bit)
        n = sum(self.weight[: self.start])
        if self.start == len(self.bits) or n < module.BEFORE:
            self.start = len(self.bits)
            return
        mean = (strength * prior + np.dot(self.weight[: self.start], self.bits[: self.start])) / (strength + n)
        higher = min(mean + SURE * math.sqrt(mean * (1 - mean) / (strength + n + 1)), 0.99)
        odds = 4 * higher / (1 - higher)
        other = odds / (1 + odds)
        nats = sum(
            w * (math.log(other / higher) if bit else math.log((1 - other) / (1 - higher)))
            for w, bit in zip(self.weight[self.start :], self.bits[self.start :], strict=True)
        )
        if nats > NATS:
            self.found.append((len(self.bits), sum(self.weight[self.start :])))
        if not 0 < nats <= NATS:
            self.start = len(self.bits)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 120), st.floats(0, 1)), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_surges_are_those_of_a_slow_reference(phases, seed):
    rng, slow = np.random.default_rng(seed), SlowPair(64.0)
    ranker = re_ranker(1, attention=[1.0], memory=64.0)
    ranker.prior.tally[1] = 10**9  # it is not fitted
    prior, strength = ranker.prior.mean[0], ranker.prior.strength[0]
    bits = [bool(rng.random() < chance) for count, chance in phases for _ in range(count)]
    for bit in bits:
        slow.look(bit, prior, strength)
    slot = shown(ranker, bits)
    noticed = ranker.surges.what[ranker.surges.rows(), module.NOTICED].tolist()
    assert noticed == [t for t, _ in slow.found]
    assert ranker.surges.counts[: len(noticed), 0] == pytest.approx([n for _, n in slow.found], rel=1e-4)
    assert ranker.pairs.since[slot] == pytest.approx(sum(slow.weight[slow.start :]), rel=1e-4)


@pytest.mark.parametrize("taken", [1, 9])
def test_what_is_taken_back_gives_no_surge(taken):
    ranker = re_ranker(1, attention=[1.0])
    slot = shown(ranker, [0] * 60 + [1] * 9)
    assert (ranker.pairs.since[slot], ranker.pairs.hits[slot]) == (9.0, 9.0)
    for t in range(taken):
        call_forget(ranker, Visit(69 - t), np.array([0]), noted(0, [0], 1), np.array([True]), 1)
    assert (ranker.pairs.since[slot], ranker.pairs.hits[slot]) == (9.0 - taken, 9.0 - taken)
    assert (ranker.pairs.looks[slot], ranker.pairs.clicks[slot]) == (69.0 - taken, 9.0 - taken)


@kernel
def note_all(surges, queries, rounds):
    for k in range(queries.size):
        note_surge(surges, queries[k], 7, rounds[k], 3.0, 2.0, 0.1)


def test_surges_soon_after_one_another_are_one_alarm_and_the_latest_are_remembered():
    surges, step = Surges.create(), APART // 2
    late = 2 * step + APART + 1
    note_all(surges, np.array([5, 6, 5, 9]), np.array([step, 2 * step, 1, late]))  # the third came late
    assert surges.what[:4, module.ALARM].tolist() == [1, 1, 1, 2]
    surges.rename(5, 77)
    surges.leave_out(IdTable.of(np.array([77, 9]), 4))
    assert surges.what[surges.rows(), module.QUERY].tolist() == [77, 77, 9]
    assert not surges.what[1].any()
    many = np.arange(1, MOST + 4)
    note_all(surges, many, late + many)
    assert surges.rows().size == MOST
    assert surges.what[surges.rows()[[0, -1]], module.QUERY].tolist() == [4, MOST + 3]
    assert surges.total.tolist() == [MOST + 7, 2, late + MOST + 3]


def ask(collection, query, bots, rounds, rng):
    """Honest visitors click what is good; bots, each under a fresh name, click `d4`."""
    for n in range(rounds):
        shown = collection.rank(query, DOCS[:8], client=f"{query} {bots} {n}")
        hits = [k for k, item in enumerate(shown.items) if rng.random() < (0.4 if item == "d1" else 0.05)]
        if bots:
            hits = [shown.items.index("d4")]
        collection.feedback(shown.id, clicked=shown.items[hits[0]] if hits else None)


def attacked(queries, **own):
    collection, rng = sr.Collection(8, **own), np.random.default_rng(1)
    for n in range(max(queries) + 1):
        ask(collection, f"query {n}", False, 200, rng)
    assert collection.alarms() == []
    for n in queries:
        ask(collection, f"query {n}", True, 40, rng)
    return collection


def test_an_attack_on_one_query_is_found_in_it():
    collection = attacked([3], keep_queries=True)
    (alarm,) = collection.alarms()
    surge, *more = alarm.surges
    assert {(one.query, one.item) for one in alarm.surges} == {("query 3", "d4")}
    assert len(more) <= 1  # what was believed of it by then is far too low as well
    assert (alarm.number, alarm.first) == (1, surge.noticed)
    assert 800 < surge.noticed <= 840
    assert surge.before < 0.12
    assert surge.clicks > 0.8 * surge.looks


def test_an_attack_on_many_queries_is_one_alarm_that_names_them(tmp_path):
    collection = attacked(range(10), secret=b"0123456789abcdef")
    (alarm,) = collection.alarms()
    assert len(alarm.queries) == 10
    assert {surge.item for surge in alarm.surges} == {"d4"}
    assert {surge.query for surge in alarm.surges} == {None}
    collection.save(tmp_path / "it")
    again = sr.Collection.load(tmp_path / "it", secret=b"0123456789abcdef")
    assert again.alarms() == [alarm]
    assert again.forget("query 4")
    (left,) = again.alarms()
    assert len(left.queries) == 9
    assert set(alarm.queries) - set(left.queries) == {f"{again._keys.query('query 4')[0]:014x}"}


def test_queries_that_leave_memory_leave_alarms():
    collection = attacked([0, 1])
    state = collection._state
    assert len(collection.alarms()[0].queries) == 2
    first = int(state.learner.queries.ids.ids[0])
    state.use_tables(state._tables_of(np.array([True, False])))
    assert collection.alarms()[0].queries == [f"{first:014x}"]


def test_all_that_was_learnt_is_saved_an_open_stretch_with_it(tmp_path):
    first, rng = sr.Collection(8), np.random.default_rng(2)
    for n in range(3):
        ask(first, f"query {n}", False, 300, rng)
    ask(first, "query 0", True, 5, rng)
    assert first._state.learner.pairs.since.max() >= 5
    first._state.learner.attention[2:] = 0.7  # as learnt
    first.save(tmp_path / "it")
    second = sr.Collection.load(tmp_path / "it")
    for one in (first, second):
        ask(one, "query 0", True, 30, np.random.default_rng(3))
    assert first.alarms() == second.alarms() != []
    for name, array in first._state.arrays().items():
        assert np.array_equal(array, second._state.arrays()[name]), name
