"""Lists mixed of another ranker's and ours: fair, the same by the log, and a verdict that nobody can buy."""

import collections
import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_tools import ITEMS, logged_events, replayed, serving, until
from steadyrank.comparison.interleaving import ERROR, NEITHER, OURS, THEIRS, credit, draft, margin, standing
from steadyrank.live import snapshot
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.board.interleaving import DAY, Interleaving
from steadyrank.service.board.interleaving_summary import judge, summarize_interleaving
from steadyrank.service.storage import open_store

pytestmark = pytest.mark.pure


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def test_a_draft_by_hand():
    # place 0 is both lists' own; a coin of 1 lets ours pick first in a pair, 0 theirs
    assert draft([0, 1, 2, 3], [0, 2, 4, 5], 4, b"\1") == ([0, 1, 2, 4], [NEITHER, OURS, THEIRS, THEIRS], 1, 4)
    assert draft([0, 1, 2, 3], [0, 2, 4, 5], 4, b"\0") == ([0, 2, 1, 4], [NEITHER, THEIRS, OURS, THEIRS], 1, 4)
    # theirs has one item, so the draft ends after a pair; the rest is nobody's
    assert draft([0, 1, 2], [3], 4, b"\3") == ([0, 3, 1, 2], [OURS, THEIRS, NEITHER, NEITHER], 0, 2)
    assert draft([0, 1], [0, 1], 2, b"\0").teams == [NEITHER, NEITHER]
    assert credit([NEITHER, OURS, THEIRS, THEIRS], [1]) == OURS
    assert credit([NEITHER, OURS, THEIRS, THEIRS], [0]) == credit([NEITHER, OURS, THEIRS], [1, 2]) == NEITHER
    assert credit([NEITHER, OURS, THEIRS, THEIRS], [1, 2, 3, 7]) == THEIRS


_lists = st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True)


@given(_lists, _lists, st.integers(1, 8), st.integers(0, 15))
def test_a_draft_treats_both_alike(ours, theirs, size, coins):
    mix = draft(ours, theirs, size, bytes([coins]))
    assert len(set(mix.ranking)) == len(mix.ranking) == min(size, len({*ours, *theirs}))
    # with the lists exchanged and the coins turned, the same list is shown, and each place is the other's
    other = draft(theirs, ours, size, bytes([~coins & 15]))
    assert (other.ranking, other.teams) == (mix.ranking, [-team for team in mix.teams])
    drafted = mix.teams[mix.first : mix.end]
    assert abs(sum(drafted[: len(drafted) // 2 * 2])) == 0
    for team, items in ((OURS, ours), (THEIRS, theirs)):  # in the order of its own list
        places = [items.index(item) for item, whose in zip(mix.ranking, mix.teams, strict=True) if whose == team]
        assert places == sorted(places)


def test_looking_all_the_time_does_not_mislead():
    """2,000 experiments of 3,000 credits, looked at after each one; a plain interval misses in most of them."""
    rng, n = np.random.default_rng(7), 3_000
    count = np.arange(1, n + 1)
    wide = np.array([margin(k) for k in count])
    # no difference at all, and a preference that comes and goes
    for chance in (np.full(n, 0.5), 0.5 + 0.3 * np.sin(count / 200.0)):
        credits = np.where(rng.random((2_000, n)) < chance, 1, -1)
        off = np.abs(np.cumsum(credits - (2 * chance - 1), axis=1))
        missed = (off >= wide).any(axis=1).mean()
        assert missed <= ERROR
        plain = (off[:, 30:] >= 1.96 * np.sqrt(count[30:])).any(axis=1).mean()
        assert plain > 5 * ERROR


def test_a_standing_by_hand():
    assert margin(0) == pytest.approx(24.477, abs=1e-3)  # sqrt(100 log 400)
    found = standing(1_000, 500, 200)
    assert found.lead == pytest.approx(0.3)
    assert found.high - found.lead == pytest.approx(0.08035, abs=1e-5)  # sqrt(800 log 3200) / 1000
    assert found.withstands == pytest.approx(0.21965, abs=1e-5)
    assert standing(1_000, 200, 500).withstands == found.withstands
    # the interval is that of the 700 credits, whoever else came
    assert [x * 0.7 for x in standing(700, 500, 200)[3:]] == pytest.approx(found[3:])
    assert standing(1_000, 330, 270).withstands == 0.0
    assert standing(0, 0, 0)[3:] == (0.0, -1.0, 1.0)


def shown(key, client, time, teams, **more):
    mixed = events.Mixed(teams, [], [])
    return events.ListShown(key, key, key - 1, 0, [0, 1], [], time, client, mixed=mixed, **more)


def answer(key, client, time, clicks, teams):
    return events.Answered(key, key, key - 1, 0, [0, 1], [], clicks, 2, time, client, teams=teams)


def test_a_client_has_one_credit_a_day_and_few_in_all():
    found, teams = Interleaving(), [OURS, THEIRS]
    found.shown(shown(1, 7, 10.0, teams, cohorts={"network": 3}))
    found.shown(shown(2, 7, 20.0, teams))  # the same visitor
    found.answered(answer(1, 7, 10.0, [], teams))
    assert (found.client, found.credit) == ([7], [NEITHER])
    found.answered(answer(2, 7, 20.0, [1], teams))
    found.answered(answer(3, 7, 30.0, [0], teams))
    found.answered(answer(4, 7, 40.0, [0], teams))
    assert found.credit == [THEIRS]
    found.shown(shown(4, 7, 11.0 + DAY, teams))  # another day: its lists count, but one is not to be half of all
    found.shown(shown(5, -1, 12.0, teams))  # nobody
    found.answered(answer(5, -1, 12.0, [0], teams))
    found.shown(events.ListShown(6, 6, 5, 0, [0, 1], [], 12.0, 8))  # not mixed
    assert (found.client, found.visitor, found.unnamed) == ([7, 7], [True, False], 1)
    for n in range(90):
        found.shown(answer(10 + n, 100 + n, 15.0, [0], teams))  # an answer stands for a list that was never logged
        found.answered(answer(10 + n, 100 + n, 15.0, [0], teams))
    found.shown(shown(200, 7, 12.0 + 2 * DAY, teams))
    found.answered(answer(200, 7, 11.9999 + 2 * DAY, [0], teams))
    found.shown(shown(201, 7, 13.0 + 3 * DAY, teams))
    assert found.client == [7, 7, *range(100, 190), 7, 7]
    assert found.visitor == [True, False, *[True] * 91, False]
    assert found.credit == [THEIRS, NEITHER] + [OURS] * 91 + [NEITHER]
    again = Interleaving.restore(found.arrays())
    for one in (again, found):
        one.shown(shown(202, 7, 20.0 + 3 * DAY, teams))
        one.shown(shown(203, 100, 20.0 + 3 * DAY, teams))
    assert {name: array.tolist() for name, array in again.arrays().items()} == {
        name: array.tolist() for name, array in found.arrays().items()
    }
    assert again.tallies().senders[0].tolist() == [7, 3] + [-1] * 7
    assert again.lists[:3] == [[2, 1, 1], [1, 0, 0], [1, 1, 0]]  # the third answer is to a list that was not shown
    assert (again.lists[-2:], again.visitor[-2:]) == ([[2, 0, 0], [1, 0, 0]], [False, True])
    assert Interleaving().arrays() == {}


async def mixed(local, client, theirs=ITEMS[4:8], code=200, **body):
    return await local.ask("POST", "boards/b/rank", {"theirs": theirs, "client": client, **body}, code)


def logged(url):
    with contextlib.closing(open_store(url)) as store:
        found = logged_events(store)
    return [event for event in found if isinstance(event, events.ListShown) and event.mixed]


async def test_mixed_lists_are_logged_and_credited_by_any_worker(url):
    async with serving(url) as local, serving(url, seed=5) as other:
        await local.board(settle=0)
        assert "a board with interleave" in (await mixed(local, "ann", code=422))["message"]
        await local.ask("PUT", "boards/b", {"interleave": True})
        for body, words in [
            ({"client": None}, "needs a client"), ({"theirs": []}, "at least one"),
            ({"theirs": [ITEMS[0]] * 2}, "different items"), ({"theirs": ["?"]}, "is not on the board"),
        ]:  # fmt: skip
            assert words in (await mixed(local, **{"client": "ann", **body}, code=422))["message"]
        assert (await local.ask("GET", "boards/b/interleaving"))["whole"]["total"] == 0
        await other.quiet()
        sides = []
        for n in range(30):
            whose, teams = OURS if n % 3 else THEIRS, []
            while whose not in teams:  # both lists may agree on all places but one
                got = await mixed(local if n % 2 else other, f"c{n}", cohort={"network": str(n % 3)})
                assert len(got["items"]) == 4
                await local.quiet()
                await other.quiet()
                event = logged(url)[-1]
                assert [ITEMS[slot] for slot in event.mixed.theirs] == ITEMS[4:8]
                assert [ITEMS[slot] for slot in event.ranking] == got["items"]
                teams = event.mixed.teams
                assert abs(sum(teams)) == teams.count(NEITHER) % 2
            place = teams.index(whose)
            sides.append(event.mixed.teams[0])
            await (other if n % 4 < 2 else local).ask(
                "POST", "boards/b/feedback", {"impression": got["impression"], "clicked": got["items"][place]}
            )
        assert {OURS, THEIRS} <= set(sides)
        assert (await mixed(local, "c0", ["new", ITEMS[5]], unknown="skip"))["skipped"] == 1
        assert (await mixed(local, "c0", ["new"], unknown="skip"))["skipped"] == 1  # a list of ours
        assert "new" in (await mixed(local, "c0", ["new", ITEMS[5]], unknown="add", length=2))["items"]
        await local.quiet()
        await other.quiet()
        found = await local.ask("GET", "boards/b/interleaving")
        assert found == await other.ask("GET", "boards/b/interleaving")
        assert [found["whole"][name] for name in ("total", "ours", "theirs")] == [30, 20, 10]
        assert (found["verdict"], found["withstands"], found["says"]) == ("open", 0.0, [])
        assert local.digest() == other.digest() == replayed(url)
        digest = local.digest()
    async with serving(url, seed=3) as local:  # after a restart, with what a person says
        assert local.digest() == digest
        assert await local.ask("GET", "boards/b/interleaving") == found
        await local.ask("POST", "boards/b/labels", {"start": 1, "end": 3, "label": "fraud"})
        await local.ask("POST", "boards/b/client-labels", {"client": "0", "kind": "network", "label": "fraud"})
        await until(lambda: local.worker.boards["b"].refolding is None)
        found = await local.ask("GET", "boards/b/interleaving")
        assert [found["by_visitor"][name] for name in ("total", "ours", "theirs")] == [18, 18, 0]
        assert found["says"] == ["12 of 30 visitors are suspect and left out of the verdict."]
        await local.ask("PUT", "boards/b", {"interleave": False})
        assert (await local.ask("GET", "boards/b/interleaving"))["whole"]["total"] == 30
        await local.ask("PUT", "boards/b", {"interleave": True})  # another experiment
        assert (await local.ask("GET", "boards/b/interleaving"))["whole"]["total"] == 0
        digest = local.digest()
    assert replayed(url) == digest


def visits(prefers, bots, lasting, lists=3_000, clients=400, seconds=100.0, **settings):
    """A board after each of so many mixed lists; `prefers`: how often honest people click ours rather than theirs.

    A share of the visits are of bots that click theirs; `lasting`: of 40 identities, else of a new one each time.
    """
    rng = np.random.default_rng(3)
    board = Board.create(Config(length=2, settle=0.0, interleave=True, **settings), ["ours", "theirs", "x", "y"])
    for key in range(1, lists + 1):
        teams = [OURS, THEIRS] if rng.random() < 0.5 else [THEIRS, OURS]
        ranking = [0 if team == OURS else 1 for team in teams]
        wants, time = OURS if rng.random() < prefers else THEIRS, seconds * key
        client = int(rng.integers(clients))
        if rng.random() < bots:
            wants, client = THEIRS, 1_000 + (int(rng.integers(40)) if lasting else key)
        clicks = [teams.index(wants)]
        board.apply(
            events.ListShown(key, key, key - 1, 0, ranking, [], time, client, {}, events.Mixed(teams, [], []))
        )
        board.apply(
            events.Answered(key, key, key - 1, 0, ranking, [], clicks, clicks[0] + 1, time, client, {}, teams)
        )
        yield board


def experiment(*world, **settings):
    """The board at the end."""
    return collections.deque(visits(*world, **settings), 1).pop()


def verdicts(*world, **settings):
    """The verdict after every 100 lists."""
    boards = itertools.islice(visits(*world, **settings), 99, None, 100)
    return [summarize_interleaving(board).verdict for board in boards]


def test_bots_cannot_buy_the_verdict():
    """15 % of the visits are bots': those of lasting identities are found, or few visitors; others are few lists."""
    tied = summarize_interleaving(experiment(0.5, 0.15, lasting=True))
    assert (tied.verdict, tied.whole.lead.high < 0.0) == ("open", True)
    many = summarize_interleaving(experiment(0.5, 0.15, lasting=False))
    assert many.by_visitor.lead.high < -0.2  # a third of the visitors, by one visit each
    assert many.by_list.lead.high > -0.15
    assert (many.verdict, many.says[0][:12]) == ("open", "Theirs leads")
    found = experiment(0.8, 0.15, lasting=True)
    better = summarize_interleaving(found)
    assert better.verdict == "ours"
    assert better.whole.total - better.by_visitor.total > 50  # of bots that the guard has found
    assert Board.restore(snapshot.pack(*found.keep()), "a test").digest() == found.digest()
    shadow = summarize_interleaving(experiment(0.8, 0.15, lasting=True, shadow=True))
    assert (shadow.verdict, shadow.by_visitor.total < shadow.whole.total) == ("ours", True)


FEW = {"lists": 3_950, "clients": 80}  # 42 of each honest client, if 15 % are bots'


@pytest.mark.parametrize("seconds", [20.0, pytest.param(43.0, marks=pytest.mark.slow), 600.0])  # in 1, 2, 30 days
@pytest.mark.parametrize("shadow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_bots_with_new_names_are_measured_against_all_lists(seconds, shadow):
    """Few honest clients who come often: 15 % of the lists are most of the visitors, and that buys nothing."""
    assert set(verdicts(0.5, 0.15, False, **FEW, seconds=seconds, shadow=shadow)) == {"open"}
    assert "theirs" not in verdicts(0.8, 0.15, False, **FEW, seconds=seconds, shadow=shadow)


@pytest.mark.parametrize("seconds", [60.0, 600.0])  # in three days, in a month
def test_few_clients_who_come_often_reach_a_verdict(seconds):
    found = verdicts(0.8, 0.0, False, **FEW, seconds=seconds)
    assert set(found) == {"open", "ours"}
    assert found.index("ours") < 20, found  # after 2,000 lists, 25 of each client
    assert set(found[found.index("ours") :]) == {"ours"}


def test_what_is_said_where_lists_and_visitors_differ():
    def says(by_visitor, by_list, lists):
        found = judge(by_visitor, by_list, by_visitor, lists, 0.15, [0.0, 1.0])
        return found.verdict, found.withstands, found.says

    many = standing(4_000, 600, 2_600)  # theirs leads by 0.5 a list, 0.456 if chance has helped it
    verdict, share, said = says(standing(80, 40, 40), many, 4_000)
    assert (verdict, share) == ("open", 0.0)
    assert said == ["Theirs leads by lists, but by visitors it is not decided: a verdict needs both."]
    assert "it is the other way round" in says(standing(800, 600, 200), many, 4_000)[2][0]
    assert says(standing(800, 200, 600), many, 4_000) == ("theirs", pytest.approx(0.3927, abs=1e-4), [])
    verdict, share, said = says(standing(800, 200, 600), many, 16_000)  # most lists are suspect, or of nobody known
    assert (verdict, share) == ("open", pytest.approx(many.withstands / 4))
    assert said[0].startswith("Theirs leads, but if 11.4% of all 16,000 lists, or of the visitors, were")
