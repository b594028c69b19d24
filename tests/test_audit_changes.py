"""What is suspect and what is not: honest changes, known events, overlapping attacks, clients, certainty."""

import math

import audit_baselines
import numpy as np
import polars as pl
import pytest

import real_tables
import steadyrank as sr
from steadyrank.audit.detect import client_tests, clients
from steadyrank.audit.detect.changed_stretches import intervals
from steadyrank.audit.detect.findings import BoardTask, analyse, certainty
from steadyrank.audit.detect.scales import prepare_units
from steadyrank.click_logs.holidays import holiday
from steadyrank.click_logs.looks import Impressions
from steadyrank.comparison.count_tests import beta_binomial

pytestmark = pytest.mark.pure

K, N, DAY = 30, 12_000, 86_400
ATTRACTION = np.random.default_rng(1).uniform(0.03, 0.3, K)


def shown(seed, n=N, length=6, attention=0.5, level=None, plus=None):
    """Lists and bits of users who look at places with falling attention; level: [n], plus: [n, K]."""
    rng = np.random.default_rng(seed)
    lists = rng.random((n, K)).argsort(axis=1)[:, :length]
    rate = ATTRACTION[lists] + (0.0 if plus is None else np.take_along_axis(plus, lists, axis=1))
    rate = rate * (1.0 + np.arange(length)) ** -attention * (1.0 if level is None else level[:, None])
    return lists, rng.random(lists.shape) < rate


def frame(lists, bits, **columns):
    times = 1_772_323_200 + np.arange(len(lists)) * (10 * DAY // len(lists))
    rows = {"items": [list(map(int, one)) for one in lists], "clicked": [one.astype(int).tolist() for one in bits]}
    when = pl.from_epoch(pl.Series(times), time_unit="s")
    return pl.DataFrame({**rows, "time": when, **columns})


def days(first, last):
    return slice(first * N // 10, last * N // 10)


def test_clicks_that_all_items_lose_alike_are_not_suspect():
    level = np.ones(N)
    level[days(5, 7)] = 0.4
    found = sr.audit(frame(*shown(1, level=level)))
    assert found.intervals == []
    assert found.suspect_share[0] == 0.0
    (change,) = found.changes
    assert change.kind == "level"
    assert abs(change.start_row - N // 2) < 100 > abs(change.end_row - 7 * N // 10)
    assert 0.3 < change.level < 0.5
    assert "Nothing suspect found" in found.summary


def test_other_lists_and_other_places_are_not_suspect():
    lists, bits = shown(2)
    short, few = shown(3, length=3)
    steep, top = shown(4, attention=1.6)
    for other, clicks in ((short, few), (steep, top)):
        rows = [*lists[: N // 2], *other[N // 2 :]]
        found = sr.audit(frame(rows, [*bits[: N // 2], *clicks[N // 2 :]]))
        assert found.intervals == []
        assert {change.kind for change in found.changes} <= {"places", "level", "items"}


def test_a_promotion_is_no_attack_and_an_attack_on_the_same_items_is():
    plus = np.zeros((N, K))
    plus[days(5, 6), :2] = 0.15
    assert sr.audit(frame(*shown(5, plus=plus))).intervals == []
    lists, bits = shown(5)
    bits[days(5, 6)] |= lists[days(5, 6)] < 2
    (part,) = sr.audit(frame(lists, bits)).intervals
    assert {item["item"] for item in part.items[:2]} == {0, 1}
    assert all(item["rank"] < item["clean_rank"] for item in part.items[:2])


def test_a_known_event_is_left_out():
    lists, bits = shown(6)
    bits[days(4, 5)] = lists[days(4, 5)] < 3
    log = frame(lists, bits)
    assert len(sr.audit(log).intervals) == 1
    found = sr.audit(log, events=[("2026-03-05", "a sale")])
    assert found.intervals == []
    assert found.impressions == N - N // 10
    assert found.notes == ["1,200 impressions of the event a sale were left out."]
    assert holiday("2026-03-05..2026-03-06", "x")[:2] == (1772668800.0, 1772841600.0)
    for days_told, words in (("5 March", "must be a day such as"), ("2026-03-06..2026-03-05", "ends before")):
        with pytest.raises(ValueError, match=words):
            sr.audit(log, events=[(days_told, "x")])
    with pytest.raises(ValueError, match="the log has no column of times"):
        sr.audit(log.drop("time"), events=[("2026-03-05", "x")])


def cascade(lists, bits):
    """Impressions down to the first click."""
    places = np.where(bits.any(axis=1), bits.argmax(axis=1), lists.shape[1] - 1)
    there = np.arange(lists.shape[1]) <= places[:, None]
    first = np.concatenate([[0], np.cumsum(places + 1)]).astype(np.int64)
    return Impressions(lists[there].astype(np.int32), bits[there], first, K)


def test_attacks_that_overlap_are_told_apart():
    lists, bits = shown(7, 8_000)
    one, two = np.argsort(ATTRACTION)[12:15], np.argsort(ATTRACTION)[-3:]
    bits[2_000:4_000] |= np.isin(lists[2_000:4_000], one)
    bits[3_200:5_500] &= ~np.isin(lists[3_200:5_500], two)
    found = intervals(prepare_units(cascade(lists, bits)))
    edges = sorted({edge for part in found for edge in (part.start, part.end)})
    assert [round(edge, -2) for edge in edges] == [2000, 3200, 4000, 5500]


def bots(lists, bits, rows, n_bots, act):
    """Give some rows to bots, who act on their lists."""
    client = np.random.default_rng(8).integers(0, 400, len(lists))
    client[rows] = 1_000 + np.arange(len(rows)) % n_bots
    bits[rows] = act(lists[rows])
    return client


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda lists: lists < 0, "never clicks: none of"),
        (
            lambda lists: np.arange(lists.shape[1]) == np.zeros((len(lists), 1)),
            "on the first place, where others have",
        ),
        (lambda lists: lists == 4, "looks at item 4, where others have"),
        (lambda lists: ATTRACTION[lists] < 0.1, "clicks what others rarely click"),
    ],
)
def test_bots_that_come_all_the_time_are_named_and_nobody_else(act, words):
    lists, bits = shown(9)
    rows = np.sort(np.random.default_rng(9).choice(N, N // 20, replace=False))
    client = bots(lists, bits, rows, 6, act)
    found = sr.audit(frame(lists, bits, client=client))
    assert {one.client for one in found.clients} == set(range(1_000, 1_006))
    assert found.n_clients == 6
    assert sum(words in one.reason for one in found.clients) >= 5
    low, high = found.suspect_share
    assert low == pytest.approx(0.05, abs=0.002)
    assert high > low
    if "item 4" in words:
        assert found.boards[0].client_items[0]["item"] == 4


def test_honest_clients_who_differ_are_not_named():
    """Of 1,600 clients whose clicks differ by a gamma factor, in four logs, at most one is named."""
    named = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        client = rng.choice(400, N, p=rng.dirichlet(np.ones(400)))
        lists, bits = shown(100 + seed, level=rng.gamma(3.0, 1.0 / 3.0, 400)[client])
        named += sr.audit(frame(lists, bits, client=client)).n_clients
    assert named <= 1


def test_silent_bots_are_named_among_clients_who_differ():
    """Ten bots with 60 lists each and no click, where the clicks of 400 honest ones differ by a gamma factor."""
    rng = np.random.default_rng(13)
    client = rng.choice(400, N, p=rng.dirichlet(np.full(400, 0.7)))
    lists, bits = shown(113, level=rng.gamma(3.0, 1.0 / 3.0, 400)[client])
    rows = np.sort(rng.choice(N, N // 20, replace=False))
    client[rows] = 1_000 + np.arange(rows.size) % 10
    bits[rows] = False
    found = sr.audit(frame(lists, bits, client=client))
    named = {one.client for one in found.clients}
    assert {c for c in named if c >= 1_000} == set(range(1_000, 1_010))
    assert len(named) <= 11
    assert sum("never clicks: none of" in one.reason for one in found.clients) >= 10


def test_few_who_click_everything_are_no_measure_of_what_is_usual():
    """Of 100 clients with 30 lists each, 97 click in one of them, three in all: 88 % of the clicks are theirs."""
    lists, seen = np.ones(100), np.full(100, 30.0)
    lists[:3] = 30.0
    assert client_tests.too_active(lists, seen, 10.0).tolist() == [0, 1, 2]
    assert client_tests.too_active(np.ones(100), seen, 1.0).tolist() == []
    assert client_tests.too_active(np.zeros(3), np.ones(3), 1.0).tolist() == []


def test_scores_are_held_to_their_promise_by_hand():
    """A tenth may be above log 10; where most have no score, half of the others above log 2."""
    scores, everybody = np.zeros(100), np.ones(100, np.bool_)
    scores[:60] = 1.0
    scores[:20] = 3.0 * math.log(10.0)
    assert client_tests.calibration_divisor(scores, everybody) == pytest.approx(3.0)
    scores[:40] = 1.0
    scores[40:] = 0.0
    scores[:19] = -100.0
    assert client_tests.calibration_divisor(scores, everybody) == pytest.approx(1.0 / math.log(2.0))
    assert client_tests.calibration_divisor(scores, np.arange(100) < 19) == 1.0  # too few


def test_rows_drawn_again_name_nobody():
    """One click in 250, rows drawn four times each: some clients' only click becomes ten."""
    named = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        item, client = rng.integers(0, 80, 10_000), rng.integers(0, 300, 10_000)
        bits, rows = rng.random(10_000) < 0.004, np.sort(rng.integers(0, 10_000, 40_000))
        again = Impressions(item[rows].astype(np.int32), bits[rows], np.arange(40_001), 80)
        named += clients.stand_out(again, client[rows].astype(np.int32), list(range(300))).named.size
    assert named == 0


def test_many_items_that_are_seen_rarely_are_not_blamed():
    """8,000 items in 30,000 looks, their attractions very unlike: no interval, and at most one client of 300."""
    rng = np.random.default_rng(17)
    lists = rng.integers(0, 8_000, (6_000, 5))
    bits = rng.random(lists.shape) < rng.beta(0.3, 4.0, 8_000)[lists]
    found = sr.audit(frame(lists, bits, client=rng.integers(0, 300, 6_000)))
    assert found.intervals == []
    assert found.n_clients <= 1


def test_one_board_of_twenty_is_found_with_its_bots():
    """30 bots with five lists each, on one board, for a tenth of its time; 600 others come to all boards."""
    rng = np.random.default_rng(16)
    boards = []
    for b in range(20):
        lists, bits = shown(1_600 + b, 1_200)
        client = rng.integers(0, 600, 1_200)
        if b == 7:
            bits[600:750] = lists[600:750] < 3
            client[600:750] = 10_000 + np.arange(150) % 30
        turn = pl.int_range(1_200) * 20 + b
        boards.append(frame(lists, bits, client=client, board=np.full(1_200, b)).with_columns(turn=turn))
    found = sr.audit(pl.concat(boards).sort("turn").drop("turn"), board="board")
    assert [board.board for board in found.boards if board.intervals] == [7]
    named = {one.client for one in found.clients}
    assert min(named) >= 10_000
    assert found.n_clients == len(named) >= 20


def test_hundreds_of_bots_are_listed_each_with_its_reason():
    lists, bits = shown(23)
    client = bots(lists, bits, np.arange(2_000, 3_200), 150, lambda lists: lists < 3)
    told = sr.audit(frame(lists, bits, client=client))
    assert told.n_clients == len(told.clients)
    assert len({one.client for one in told.clients} & set(range(1_000, 1_150))) > 100


def test_clients_who_could_not_be_told_to_be_silent_are_not_counted():
    """Those of whom one in 200 honest ones, or more, would be silent as well."""
    people = clients._Clients(cascade(*shown(14, 100)), np.zeros(100, np.int32), 6, np.zeros(100, np.bool_), (), 1)
    least = np.array([0.001, 0.0049, 0.0051, 0.01, 0.3, 0.5])
    people.tests = client_tests.Scores(*[np.zeros(6)] * 5, np.zeros(6, np.int64), 0.1, 1.0, -np.log(2.0 * least))
    assert people._could_be_quiet().tolist() == [True, True, False, False, False, False]


def test_clients_are_counted_once_and_an_attack_on_two_boards_is_one():
    lists, bits = shown(10)
    client = bots(lists, bits, np.arange(6_000, 6_600), 6, lambda some: some < 3)
    found = sr.audit(frame(lists, bits, client=client, board=["x", "y"] * (N // 2)))
    assert [len(board.intervals) for board in found.boards] == [1, 1]
    (attack,) = found.attacks
    assert sorted(attack.boards) == ["x", "y"]
    assert attack.impressions == sum(part.impressions for part in found.intervals)
    assert found.n_clients == len(found.clients) == 6
    told = found.as_dict()
    assert [one["client"] for one in told["clients"]] == [one.client for one in found.clients]
    assert " on 2 boards: more clicks than usual on " in found.summary
    assert "2026-03-06" in found.summary
    assert told["summary"] == found.summary


def test_what_a_log_cannot_say_is_said():
    lists, _ = shown(11, 400)
    only = pl.DataFrame({"item": lists[:, 0], "clicked": 1})
    assert "Every row is a click, and nothing says what else was shown" in sr.audit(only).notes[0]
    each = frame(lists, np.arange(6) == np.ones((400, 1)))
    assert "Every list has a click: lists without one seem to be missing" in sr.audit(each).notes[0]
    silent = sr.audit(frame(lists, lists < 0))
    assert "The log has 0 clicks" in silent.notes[0]
    assert silent.suspect_share == (0.0, 1.0)
    assert "Too few clicks to tell" in silent.summary
    many = sr.audit(frame(lists, lists < 3, board=list(range(400))), board="board")
    assert "Half of the 400 boards have fewer than 2 impressions" in many.notes[0]
    assert many.as_dict()["summary"].startswith("Too few clicks to tell")


def test_simple_detectors_by_hand():
    """A CUSUM in steps of 50, a limit at the busiest hour of all but the busiest, a forest where there is one."""
    clicks = np.tile([0, 1], 1_000)
    clicks[1_000:1_200] = 1  # four blocks with twice the clicks, of 40
    uneven = (np.arange(2_000) // 50 % 2 == 0) * (np.arange(2_000) % 50 == 0)
    found = np.flatnonzero(audit_baselines.excursions(clicks + uneven))
    assert (found.min(), found.max()) == (1_000, 1_999)
    assert not audit_baselines.excursions(np.zeros(10, np.int64)).any()
    client = np.concatenate([np.repeat(np.arange(100), 3), np.full(9, 100)])
    time = np.concatenate([np.tile([0.0, 3_600.0, 7_200.0], 100), np.full(9, 10.0)])
    assert audit_baselines.over_limit(client, time).tolist() == [100]
    odd = audit_baselines.odd_in_forest(client, np.zeros(client.size, np.int64), np.zeros(client.size, np.bool_))
    assert odd is None or 100 in odd


def test_certainty_by_hand():
    assert certainty(10.0, 1.0, 5.0) == pytest.approx(1.0 - 5.0 * math.exp(-10.0))
    assert certainty(10.0, 5.0, 5.0) == pytest.approx(1.0 - 5.0 * math.exp(-2.0))
    assert certainty(1.0, 1.0, 100.0) == 0.0


def slow_tail(k, n, mean, spread):
    """Twice the chance of k or more of n, or of k or fewer: the mean of binomials over a Beta, by its moments."""
    strength = (1 - spread) / spread
    a, b = mean * strength, (1 - mean) * strength

    def pmf(i):
        up = math.prod((a + j) / (a + b + j) for j in range(i))
        return math.comb(n, i) * up * math.prod((b + j) / (a + b + i + j) for j in range(n - i))

    side = range(k, n + 1) if k >= mean * n else range(k + 1)
    return min(1.0, 2 * sum(map(pmf, side)))


@pytest.mark.parametrize(
    ("k", "n", "mean"),
    [(0, 30, 0.4), (30, 30, 0.4), (20, 30, 0.3), (3, 40, 0.5), (1, 1, 0.2), (4, 9, 0.3), (2, 16, 0.4)],
)
def test_the_tails_of_a_client_equal_their_slow_version(k, n, mean):
    out = np.zeros(1)
    client_tests.signed_scores(np.array([float(k)]), np.array([float(n)]), np.array([n * mean]), 0.07, out)
    assert math.exp(-abs(out[0])) == pytest.approx(slow_tail(k, n, mean, 0.07))
    assert out[0] == 0.0 or (out[0] > 0) == (k >= n * mean)


def test_attacks_of_the_size_that_is_said_are_found():
    """Of five of each kind, planted where the log had none, at least three: four are promised, less chance."""
    lists, bits = shown(12)
    said = analyse(BoardTask(0, cascade(lists, bits), None, []), lambda: None).detectable
    order = np.argsort(ATTRACTION)
    acts = {
        "promote": lambda some, true: np.isin(some, order[: K // 2][:3]),
        "silent": lambda some, true: np.zeros(some.shape, bool),
    }
    for kind, act in acts.items():
        size = getattr(said, kind)
        assert 16 <= size < N // 10
        hits = 0
        for draw in range(5):
            start = 2_000 * (draw + 1)
            false = bits.copy()
            false[start : start + size] = act(lists[start : start + size], bits[start : start + size])
            found = analyse(BoardTask(0, cascade(lists, false), None, []), lambda: None).intervals
            hits += any(abs(part.start - start) < size / 4 > abs(part.end - start - size) for part in found)
        assert hits >= 3


@pytest.mark.always
@pytest.mark.skipif(not real_tables.OBD.is_dir(), reason=real_tables.MISSING)
@pytest.mark.parametrize("name", ["random_all", "bts_all"])
def test_a_real_log_is_not_blamed_and_a_burst_in_it_is_found(name):
    """A burst of 1 %: rows of one item, all clicked. The log has 0.4 % of clicks: silence could not be seen in it."""
    log = pl.read_csv(real_tables.OBD / f"{name}.csv", try_parse_dates=True)
    found = sr.audit(log)
    assert found.intervals == []
    assert found.suspect_share[1] == 1.0
    item = log["item_id"].mode().sort()[0]
    rows = log.filter(pl.col("item_id") == item).sample(100, with_replacement=True, seed=1)
    when = log["timestamp"][4_000]
    false = pl.concat(
        [log[:4_001], rows.with_columns(timestamp=pl.lit(when), click=pl.lit(1, pl.Int64)), log[4_001:]]
    )
    (part,) = sr.audit(false).intervals
    assert abs(part.start_row - 4_001) <= 40 >= abs(part.end_row - 4_101)  # hardly anything is clicked around it
    assert part.items[0]["item"] == item


@pytest.mark.always
@pytest.mark.skipif(not real_tables.OBD.is_dir(), reason=real_tables.MISSING)
@pytest.mark.parametrize("name", ["random_all", "bts_all"])
def test_bots_that_come_all_the_time_in_a_real_log_are_named_with_their_items(name):
    """Ten bots, 5 % of the log, click three items wherever they stand: most clicks of the log are theirs."""
    rng = np.random.default_rng(15)
    log = pl.read_csv(real_tables.OBD / f"{name}.csv", try_parse_dates=True).select(
        "timestamp", "item_id", "position", "click"
    )
    log = log.with_columns(user_id=pl.Series(rng.integers(0, 300, log.height)))
    aims = log["item_id"].value_counts(sort=True)["item_id"][10:13].to_list()
    wanted = log.filter(pl.col("item_id").is_in(aims)).sample(log.height // 20, with_replacement=True, seed=1)
    times = log["timestamp"].sample(wanted.height, seed=2)
    false = wanted.with_columns(
        timestamp=times, click=pl.lit(1, pl.Int64), user_id=pl.Series(1_000 + np.arange(wanted.height) % 10)
    )
    found = sr.audit(pl.concat([log, false]).sort("timestamp"))
    assert {one.client for one in found.clients} == set(range(1_000, 1_010))
    assert {item["item"] for item in found.boards[0].client_items[:3]} == set(aims)


def test_counts_that_are_not_judged_have_scores_and_no_say_in_the_spread():
    rng = np.random.default_rng(5)
    n = rng.integers(1, 30, 400).astype(float)
    got, due = rng.binomial(n.astype(int), rng.beta(1.0, 9.0, 400)).astype(float), 0.1 * n
    judged = n >= 5
    scores, *told = beta_binomial(got, n, due, judged)
    alone, *same = beta_binomial(got[judged], n[judged], due[judged], np.ones(judged.sum(), bool))
    assert told == same
    assert (scores[judged] == alone).all()
    assert (scores[~judged & (got > 1)] > 0.0).all()
