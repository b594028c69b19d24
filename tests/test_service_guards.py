"""Guards of boards: who is heard, who is told of it, and that the fold is the same however it comes about."""

import asyncio
import collections
import json
import pathlib

import msgspec
import numpy as np
import pytest

from service_tools import ITEMS, Clocks, logged_events, replayed, serving, sql, until
from steadyrank.core.contract import ANSWER, ANYONE, NOTE_EXTRA, Visit, memory
from steadyrank.core.philox import philox
from steadyrank.live import snapshot
from steadyrank.live.gate import COHORTS_SPARE, OWN_RECORD
from steadyrank.live.learner_state import LearnerState
from steadyrank.service.alerts.watcher import Watcher
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import NEW_BOARD, Config, GuardChoice
from steadyrank.service.board.guard_summary import count_guarded, summarize_guard
from steadyrank.service.storage import open_store
from steadyrank.service.worker.impression_ids import ImpressionId, open_sealed, seal
from steadyrank.service.worker.recovery import rebuild
from steadyrank.service.worker.transfer import compact

pytestmark = pytest.mark.pure

LENGTH = 4
LIKED = np.array([0.5] * 4 + [0.04] * 8)  # of each item, by honest users; bots like it the other way round
FIRST_BOT = 900


def crowd(n, bots=8, own=300, seed=0, share=0.15):
    """Visits in order: client, slots shown, slot clicked or None."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        bot = rng.random() < share
        client = FIRST_BOT + int(rng.integers(bots)) if bot else int(rng.integers(own))
        ranking = rng.permutation(len(ITEMS))[:LENGTH].tolist()
        yield client, ranking, choose(ranking, LIKED[::-1] if bot else LIKED, rng)


def choose(ranking, liked, rng):
    return next((k for k in ranking if rng.random() < liked[k]), None)


def told(visits, cohorts=lambda client: {}):
    """Events of visits; each answers its list."""
    for t, (client, ranking, clicked) in enumerate(visits, 1):
        place = LENGTH if clicked is None else ranking.index(clicked)
        said = ([], LENGTH) if clicked is None else ([place], place + 1)
        yield events.Answered(t, t, t - 1, 0, ranking, [], *said, 1e9 + t, client, cohorts(client))


def fold(rows, **settings):
    board = Board.create(Config(length=LENGTH, settle=0.0, **settings), ITEMS)
    for event in rows:
        board.apply(event)
    return board


def senders(board):
    """The guards of each kind of sender: of the guard that is asked last."""
    return board.learner_state.gate.posts[-1].guards


def learnt(board):
    return {name: array.tolist() for name, array in memory(board.learner_state.learner)}


def test_a_board_without_clients_has_no_guard_in_memory():
    rows = [events.Answered(t, t, t - 1, 0, [1, 2], [], [0], 1) for t in range(1, 50)]
    board = fold(rows)
    assert not [name for name in board.keep()[1] if name.startswith(("guard", "cohort"))]
    assert (board.config.guard, senders(board)) == ("ClientTrust", {})
    board.apply(events.Answered(99, 99, 98, 0, [1, 2], [], [0], 1, 0.0, 7))
    sizes = [array.nbytes for name, array in board.keep()[1].items() if name.startswith("guard")]
    assert 0 < sum(sizes) < 20_000


def test_a_ring_of_bots_is_not_learnt_from_whatever_it_sent():
    """Eight identities with 15 % of the visits: the learner is as if they had never come, and says why."""
    visits = list(crowd(3_000))
    board = fold(told(visits), learner="CascadeTS")
    honest = fold((e for e in told(visits) if e.client < FIRST_BOT), learner="CascadeTS")
    assert learnt(board) == learnt(honest)
    found = summarize_guard(board)
    bots = {client for client, _, _ in visits if client >= FIRST_BOT}
    assert {one.client for one in found.silenced} == bots
    assert count_guarded(board)[0] == len(bots) == 8
    assert found.refused + found.retracted == sum(client in bots for client, _, _ in visits)
    assert found.refused == board.learner_state.refused[0] > 0
    for one in found.silenced:
        own = [(t, clicked) for t, (client, _, clicked) in enumerate(visits, 1) if client == one.client]
        assert (one.since, one.visits) == (own[0][0], len(own))
        assert one.clicks == sum(clicked is not None for _, clicked in own)
        assert one.time == pytest.approx(1e9 + one.since, abs=2 * board.feedback.timeline.size)
        assert f"its {len(own)} latest visits fit a taste that a few others share" in one.why
        assert (one.kind, one.label) == (None, None)


async def test_who_is_not_heard_is_told_with_the_segments_of_its_visits(url):
    """Eight bots, of which four come by phone alone, and the others by phone, by desktop and without a segment."""
    board = {"items": ITEMS, "length": LENGTH, "settle": 0, "learner": "SteadyRankSegments"}
    rng, sent, rows = np.random.default_rng(1), collections.Counter(), []
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", {**board, "segments": ["phone", "desktop", "tablet"]})
        await local.ask("PUT", "boards/plain", {"items": ITEMS})
        for client, ranking, clicked in crowd(2_400, seed=1):
            alone = FIRST_BOT <= client < FIRST_BOT + 4
            segment = "phone" if alone else [None, "phone", "desktop"][rng.integers(3)]
            items = [ITEMS[k] for k in ranking]
            said = {"items": items, "clicked": None if clicked is None else ITEMS[clicked], "segment": segment}
            rows.append({**said, "id": f"{len(rows)}", "client": f"{client}"})
            sent[client, segment] += 1
        for one in range(0, len(rows), 100):
            together = (local.ask("POST", "boards/b/observe", row) for row in rows[one : one + 100])
            await asyncio.gather(*together)  # one commit for all
        session, found = local.worker.boards["b"], {}
        numbers = {session.client_number(session.hash_client(str(k))): k for k, _ in sent}
        state = await local.ask("GET", "boards/b/state")
        for one in state["guard"]["silenced"]:
            assert sum(part["visits"] for part in one["segments"]) == one["visits"]
            by_visits = [part["visits"] for part in one["segments"]]
            assert by_visits == sorted(by_visits, reverse=True)
            client = numbers[one["client"]]
            found[client] = {part["segment"]: part["visits"] for part in one["segments"]}
            assert found[client] == {segment: n for (who, segment), n in sent.items() if who == client}
        assert set(found) == set(range(FIRST_BOT, FIRST_BOT + 8))
        assert [list(found[FIRST_BOT + k]) for k in range(4)] == [["phone"]] * 4
        for part in ("state", "watch"):
            guard = (await local.ask("GET", f"boards/b/{part}?segment=desktop"))["guard"]
            assert (guard["count"], guard["of_segment"], len(guard["silenced"])) == (8, 4, 4)
            came = [one["segments"] for one in guard["silenced"]]
            visits = [next(part["visits"] for part in each if part["segment"] == "desktop") for each in came]
            assert visits == sorted(visits, reverse=True)
            guard = (await local.ask("GET", f"boards/b/{part}?segment=tablet"))["guard"]
            assert (guard["count"], guard["of_segment"], guard["silenced"]) == (8, 0, [])
            wrong = await local.ask("GET", f"boards/b/{part}?segment=fax", code=422)
            assert wrong["message"] == "segment must be one of phone, desktop, tablet, not 'fax'"
            wrong = await local.ask("GET", f"boards/plain/{part}?segment=phone", code=422)
            assert wrong["message"] == "segment 'phone' cannot be given: this board declares no segments"
        assert state["guard"]["of_segment"] is None
        labelled = {"client": str(FIRST_BOT), "label": "fraud"}
        await local.ask("POST", "boards/b/client-labels", labelled)
        await until(lambda: not local.worker.boards["b"].board.stale)
        guard = (await local.ask("GET", "boards/b/state"))["guard"]
        assert [one["segments"] for one in guard["silenced"] if one["label"]] == [None]  # nobody counted it
    async with serving(url, seed=1) as local:  # from a snapshot
        assert (await local.ask("GET", "boards/b/state"))["guard"] == guard


def test_a_board_goes_on_from_a_snapshot_as_if_there_had_been_none():
    rows = list(told(crowd(1_500)))
    whole = fold(rows)
    for k in (1, 63, 64, 65, 700):
        part = fold(rows[:k])
        again = Board.restore(snapshot.pack(*part.keep()), "it")
        assert again.digest() == part.digest()
        for event in rows[k:]:
            again.apply(event)
        assert again.digest() == whole.digest()
    assert senders(whole)[""].visits.round.size == 2_048
    assert summarize_guard(whole).silenced


def test_an_item_that_is_added_keeps_what_the_guard_knows():
    rows = list(told(crowd(1_500)))
    board = fold(rows)
    before = summarize_guard(board).silenced
    for k in range(30):
        board.apply(events.Added([f"new {k}"]))
    assert summarize_guard(board).silenced == before
    assert Board.restore(snapshot.pack(*board.keep()), "it").digest() == board.digest()


def test_in_shadow_the_guard_judges_and_changes_nothing():
    rows = list(told(crowd(1_500)))
    watching, without = fold(rows, shadow=True), fold(rows, guard="Anyone")
    acting = fold(rows)
    assert learnt(watching) == learnt(without) != learnt(acting)
    assert watching.impressions.silence.keep() == without.impressions.silence.keep()
    rng = [np.random.default_rng(5) for _ in range(2)]
    for _ in range(20):
        one, other = (
            board.learner_state.rank(visit_of(board), None, LENGTH, r)
            for board, r in zip((watching, without), rng, strict=True)
        )
        assert one[0].tobytes() == other[0].tobytes()
    seen, done = summarize_guard(watching), summarize_guard(acting)
    assert seen.shadow
    assert (seen.refused, seen.retracted) == (done.refused, done.retracted)
    assert seen.silenced == done.silenced != []
    assert watching.learner_state.refused[0] == 0


def visit_of(board):
    from steadyrank.core.contract import Visit

    return Visit(board.impressions.rounds + 1)


def test_refused_answers_vouch_for_no_silence():
    """Two answers of one client, of which Quota admits one: one vouches for lists without an answer."""
    settings = {"guard": "Quota", "guard_settings": {"visits": 1}}
    rows = [events.Answered(t, t, t - 1, 0, [1, 2], [], [0], 1, 0.0, 7) for t in (1, 2)]
    both, heard = fold(rows, **settings).impressions.silence, fold(rows[:1], **settings).impressions.silence
    assert both.keep() == heard.keep()
    assert both.answers == 1


def labelled(word, client, rows, number=1, kind=""):
    return [*rows, events.Labelled(10**6 + number, 0, 0, word, client, kind)]


def refold(rows, **settings):
    """As the log leads to: folded with the labels that it ends with."""
    end = fold(rows, **settings)
    board = Board.create(Config(length=LENGTH, settle=0.0, **settings), ITEMS)
    board.feedback.follow(end.labels.spans, end.labels.words, anyway=True)
    for event in rows:
        board.apply(event)
    assert not board.stale
    return board


def test_a_client_labelled_as_fraud_was_never_there():
    rows = list(told(crowd(600, share=0.0)))
    board = refold(labelled("fraud", 5, rows))
    without = refold([e for e in rows if e.client != 5])
    assert learnt(board) == learnt(without)
    assert board.learner_state.looks.tolist() == without.learner_state.looks.tolist()
    (one,) = summarize_guard(board).silenced
    own = [e for e in rows if e.client == 5]
    assert (one.client, one.since, one.visits, one.label) == (5, own[0].round, len(own), 1)
    assert one.clicks == sum(len(e.clicks) for e in own)
    assert one.why == "a person labelled it as fraud (label 1)"
    taken_back = refold([*labelled("fraud", 5, rows), events.Unlabelled(1)])
    assert learnt(taken_back) == learnt(refold(rows))
    assert summarize_guard(taken_back).silenced == []


def test_a_client_labelled_as_honest_is_heard():
    rows = list(told(crowd(3_000)))
    board = refold(labelled("honest", FIRST_BOT, rows))
    silenced = {one.client for one in summarize_guard(board).silenced}
    assert silenced == {FIRST_BOT + k for k in range(1, 8)}
    assert sum(e.client == FIRST_BOT for e in rows) > 0
    heard = [e for e in rows if e.client <= FIRST_BOT]
    assert learnt(refold(labelled("honest", FIRST_BOT, rows), learner="CascadeTS")) == learnt(
        fold(heard, learner="CascadeTS")
    )


def networks(client):
    """Bots share eight networks, others have some of their own."""
    return {"network": 5_000 + client % 8 if client >= FIRST_BOT else 2_000 + client % 250}


def spared(t):
    """Whether the visit of a round is one of those that are not refused for cohorts."""
    return philox(t, 0, 0xC0407)[0] % COHORTS_SPARE == 0


def framing(visits, victims):
    """Bots with a name for each visit say that they are in the networks of honest clients, who have one each."""
    for event in told(visits):
        bot = event.client >= FIRST_BOT
        client = FIRST_BOT + 10**6 + event.round if bot else event.client
        network = event.client % victims if bot else event.client
        yield msgspec.structs.replace(event, client=client, cohorts={"network": 10_000 + network})


def kept(rows):
    """The rounds that a learner behind ClientTrust has learnt from in the end."""
    state = LearnerState(ITEMS, LENGTH, "CascadeTS", {}, 0, 0.2, guards=[("ClientTrust", {})])
    rounds, (post,) = set(), state.gate.posts
    forget = post.forget

    def taken_back(learner, visit, *rest):
        rounds.remove(visit.t)
        forget(learner, visit, *rest)

    post.forget = taken_back
    for e in rows:
        clicks = np.isin(np.arange(LENGTH), e.clicks)
        visit, note = Visit(e.round, e.client), np.zeros(LENGTH + NOTE_EXTRA)
        if state.learn(visit, np.array(e.ranking), note, clicks, e.examined, ANSWER, list(e.cohorts.items())):
            rounds.add(e.round)
    return rounds


@pytest.mark.parametrize("victims", [20, 40, 60])
def test_bots_in_the_cohorts_of_honest_clients_do_not_silence_them(victims):
    """Whoever has come ten times is heard whatever others in its network do; nobody else's visits are all refused."""
    rows = list(framing(crowd(6_000, bots=100_000, share=0.06), victims))
    learnt_from, came = kept(rows), collections.Counter()
    lost = collections.Counter()
    for e in rows:
        came[e.client] += 1
        if e.round not in learnt_from:
            lost[e.client] += 1
            assert e.client >= FIRST_BOT or came[e.client] <= OWN_RECORD
            assert not spared(e.round)
    assert all(lost[client] < came[client] for client in range(300))
    assert not any(lost[client] for client in range(victims, 300))


@pytest.mark.parametrize("bots", [8, 100_000])
def test_what_clients_and_cohorts_take_back_is_forgotten_once(bots):
    """Eight identities in eight networks, or a fresh one for each visit: whoever convicts, or both, the learner is as
    if no bot had come, but for the fourth of fresh ones that no network convicts; and it goes on from a snapshot."""
    visits = list(crowd(2_500, bots))
    rows = list(told(visits, networks))
    board = fold(rows, learner="CascadeTS")
    heard = [e for e in rows if e.client < FIRST_BOT or (bots > 8 and spared(e.round))]
    assert learnt(board) == learnt(fold(heard, learner="CascadeTS", guard="Anyone"))
    assert sum(e.client >= FIRST_BOT for e in heard) == (0 if bots == 8 else 102)
    found = summarize_guard(board).silenced
    assert {one.client for one in found if one.kind == "network"} == {5_000 + k for k in range(8)}
    assert {one.client for one in found if one.kind is None} == set(
        range(FIRST_BOT, FIRST_BOT + 8) if bots == 8 else ()
    )
    for k in (500, 1_200):
        again = Board.restore(snapshot.pack(*fold(rows[:k], learner="CascadeTS").keep()), "it")
        for event in rows[k:]:
            again.apply(event)
        assert again.digest() == board.digest()


def test_words_on_clients_go_before_words_on_cohorts():
    """Network 5,000 is fraud, but one of its clients is honest; network 5,001 is honest, so nobody judges it."""
    rows = list(told(crowd(1_500), networks))
    one = FIRST_BOT + (-FIRST_BOT) % 8
    words = [("fraud", 5_000, "network"), ("honest", one, ""), ("honest", 5_001, "network")]
    labels = [events.Labelled(10**6 + k, 0, 0, word, who, kind) for k, (word, who, kind) in enumerate(words)]
    board = refold([*rows, *labels])
    assert networks(one)["network"] == 5_000
    found = {(one.kind, one.client): one for one in summarize_guard(board).silenced}
    assert (None, one) not in found
    assert ("network", 5_001) not in found
    assert found["network", 5_000].label == 1
    left = [e for e in rows if e.cohorts["network"] == 5_000 and e.client != one]
    assert found["network", 5_000].visits == len(left)


def test_a_ninth_kind_of_cohort_is_not_taken():
    kinds = [f"kind-{k}" for k in range(10)]
    head = [(t, t, t - 1, 0, [1], [], [], 1, 0.0, 0) for t in range(1, 11)]
    rows = [events.Answered(*row, {kinds[row[0] - 1]: row[0], "kind-0": 50}) for row in head]
    board = fold(rows)
    assert board.impressions.kinds == kinds[:8]
    assert set(senders(board)) == {"", *kinds[:8]}
    assert Board.restore(snapshot.pack(*board.keep()), "it").digest() == board.digest()


async def attack(local, visits, name="b", **more):
    """Send visits through HTTP: honest users and bots click what they like of what they are shown. The lists."""
    rng, lists = np.random.default_rng(1), []
    for client, _, _ in visits:
        shown = await local.rank(name, client=f"client {client}", **more)
        slots = [ITEMS.index(item) for item in shown["items"]]
        clicked = choose(slots, LIKED[::-1] if client >= FIRST_BOT else LIKED, rng)
        await local.answer(shown, name, clicked=None if clicked is None else ITEMS[clicked])
        lists.append(shown["items"])
    return lists


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def test_lists_in_shadow_are_those_without_a_guard(tmp_path):
    visits, lists = list(crowd(800)), []
    for name, settings in (("shadow", {"shadow": True}), ("none", {"guard": "Anyone"})):
        async with serving(f"sqlite:///{tmp_path}/{name}.db", seed=4) as local:
            await local.board(settle=0, **settings)
            lists.append(await attack(local, visits))
            guard = (await local.ask("GET", "boards/b/state"))["guard"]
            assert (guard["shadow"], guard["count"] > 0) == (name == "shadow", name == "shadow")
    assert lists[0] == lists[1]


async def test_a_guard_that_stands_down_says_so_everywhere(url):
    """It would refuse 15 % of the visits and may refuse 5 %: everybody is heard, and somebody is told."""
    async with serving(url, seed=4) as local:
        await local.board(settle=0, guard_settings={"stand_down": 0.05})
        told = []
        watcher = Watcher(local.worker, told.append, "one")
        await watcher.look()
        await attack(local, list(crowd(800)))
        guard = (await local.ask("GET", "boards/b/state"))["guard"]
        (counts,) = [one for one in guard["guards"] if one["guard"] == "ClientTrust"]
        assert (counts["refused"], counts["retracted"], guard["count"]) == (0, 0, 0)
        times = counts["stood_down"]
        assert times >= 1
        await watcher.look()
        (alert,) = [one for one in told if one.kind == "guard"]
        assert alert.text == (
            "Board b: ClientTrust would refuse too many of the recent visits and stands down: nobody is refused "
            "meanwhile."
        )
        assert alert.detail == {"times": times, "more": times, "since": counts["stands_down"]}
        metrics = (await local.http.get("/metrics")).text
        assert f'steadyrank_board_stood_down{{board="b",guard="ClientTrust"}} {times}.0' in metrics
        await watcher.look()
        assert sum(one.kind == "guard" for one in told) == 1


async def test_a_group_is_refused_and_told_of_a_guard_is_changed_labels_are_given_and_all_of_it_survives(url):
    """Whether it is bots or a school class: nothing tells them apart, so somebody is told within a look."""
    clocks, told = Clocks(), []
    async with serving(url, clocks, seed=4) as local:
        made = await local.board(settle=0)
        assert (made["guard"], made["guard_settings"], made["shadow"]) == ("ClientTrust", {}, False)
        await local.ask("PUT", "boards/b", {"guard": "Nobody"}, 422)
        await local.ask("PUT", "boards/b", {"guard_settings": {"most": 0.7}}, 422)
        await local.ask("PUT", "boards/b", {"guard_settings": {"visits": 3}}, 422)
        visits, watcher = list(crowd(800)), Watcher(local.worker, told.append, "one")
        await watcher.look()
        await attack(local, visits)
        guard = (await local.ask("GET", "boards/b/state"))["guard"]
        await watcher.look()
        (alert,) = [one for one in told if one.kind == "silenced"]
        assert alert.detail["count"] == guard["count"]
        came = list(dict.fromkeys(client for client, _, _ in visits))
        found = guard["count"]
        assert found == len(guard["silenced"]) >= 5
        assert all(came[one["client"]] >= FIRST_BOT for one in guard["silenced"])
        assert guard["refused"] > 0
        first = guard["silenced"][0]
        assert first["time"] == pytest.approx(clocks.wall, abs=5)
        watched = await local.ask("GET", "boards/b/watch")
        assert watched["guard"] == guard
        assert b'steadyrank_board_silenced{board="b"} %d.0' % found in (await local.http.get("/metrics")).content
        assert replayed(url) == local.digest()

        body = {"client": first["client"], "label": "honest"}
        label = await local.ask("POST", "boards/b/client-labels", body)
        assert label == {"number": 1, "client": first["client"], "kind": None, "label": "honest"}
        assert await local.ask("POST", "boards/b/client-labels", body) == label  # there already
        await until(lambda: not local.worker.boards["b"].board.stale)
        now = (await local.ask("GET", "boards/b/state"))["guard"]
        assert first["client"] not in [one["client"] for one in now["silenced"]]
        assert (await local.ask("GET", "boards/b/labels"))["clients"] == [label]
        record = (await local.ask("GET", "record"))["record"]
        assert [row["detail"] for row in record if row["what"] == "client or cohort labelled"] == [
            f"client {first['client']}: 'honest'"
        ] * 2
        await local.ask("POST", "boards/b/client-labels", {"client": 10**6, "label": "fraud"}, 422)
        await local.ask("POST", "boards/b/client-labels", {"client": 1, "label": "odd"}, 422)
        await local.ask("POST", "boards/b/client-labels", {"client": "who?", "label": "fraud"}, 422)
        name = f"client {came[first['client']]}"
        assert await local.ask("POST", "boards/b/client-labels", {"client": name, "label": "honest"}) == label
        await local.ask("POST", "boards/b/client-labels", {"client": name, "kind": "agent", "label": "honest"}, 422)
        assert name not in json.dumps(await local.ask("GET", "record"))
        assert replayed(url) == local.digest()
        digest = local.digest()
    async with serving(url, clocks, seed=5) as local:
        assert local.digest() == digest
        assert (await local.ask("GET", "boards/b/labels"))["clients"] == [label]
        await local.ask("DELETE", "boards/b/labels/1")
        await until(lambda: not local.worker.boards["b"].board.stale)
        assert (await local.ask("GET", "boards/b/state"))["guard"]["silenced"] == guard["silenced"]
        await local.ask("PUT", "boards/b", {"guard": "Anyone"})
        state = await local.ask("GET", "boards/b/state")
        assert (state["guard"]["guard"], state["guard"]["count"], state["guard"]["refused"]) == ("Anyone", 0, 0)
        await local.ask("PUT", "boards/b", {"guard": "ClientTrust", "shadow": True})
        assert (await local.ask("GET", "boards/b/state"))["guard"]["count"] >= found
        assert replayed(url) == local.digest()


async def test_where_the_log_was_shortened_a_guard_begins_at_its_edge(url):
    """What is before the edge stays as it was judged; a word on a client, and another guard, hold from there on."""
    async with serving(url, seed=4) as local:
        await local.board(settle=0)
        await attack(local, crowd(240, share=0.0))
    store = open_store(url)
    assert compact(store, 0.0, 200) == {"b": 281}
    store.close()
    async with serving(url, seed=5) as local:
        await local.ask("PUT", "boards/b", {"learner": "CascadeTS"}, 409)
        looks = sum(item["looks"] for item in (await local.ask("GET", "boards/b/state"))["items"])
        label = await local.ask("POST", "boards/b/client-labels", {"client": 3, "label": "fraud"})
        await until(lambda: not local.worker.boards["b"].board.stale)
        state = await local.ask("GET", "boards/b/state")
        assert sum(item["looks"] for item in state["items"]) <= looks
        assert [one["label"] for one in state["guard"]["silenced"]] == [label["number"]]
        await local.ask("PUT", "boards/b", {"guard": "Quota", "guard_settings": {"visits": 1}})
        state = await local.ask("GET", "boards/b/state")
        assert state["guard"]["guard"] == "Quota"
        assert state["guard"]["refused"] > 0
        await local.ask("DELETE", "boards/b/labels/1")
        await until(lambda: not local.worker.boards["b"].board.stale)
        digest = local.digest()
    store = open_store(url)
    with store.reading():
        number = next(iter(store.boards()))
        assert rebuild(store, number, "b", store.head()).digest() == digest
    store.close()


def events_of(url):
    store = open_store(url)
    found = logged_events(store)
    store.close()
    return found


async def test_cohorts_are_numbers_in_the_log_and_can_be_deleted(url):
    cohort = {"network": "10.1.0.0/16", "agent": "Mozilla/5.0 (X11)"}
    async with serving(url) as local:
        await local.board(settle=0)
        for client, some in (("ann", cohort), ("bob", {"network": cohort["network"]}), (None, cohort)):
            shown = await local.rank(client=client, cohort=some)
            await local.answer(shown, clicked=None)
        lists = [event for event in events_of(url) if isinstance(event, events.ListShown)]
        assert [event.client for event in lists] == [0, 3, ANYONE]
        both = {"network": 1, "agent": 2}
        assert [event.cohorts for event in lists] == [both, {"network": 1}, both]
        assert sorted(row[0] for row in sql(url, "SELECT number FROM clients")) == [0, 1, 2, 3]
        assert not [text for text in cohort.values() if text.encode() in pathlib_bytes(url)]
        path = "boards/b/clients/10.1.0.0%2F16"
        assert (await local.ask("DELETE", path))["impressions"] == 0  # no client of this name
        assert (await local.ask("DELETE", f"{path}?cohort=network"))["impressions"] == 3
        await local.ask("DELETE", f"{path}?cohort=net+work", code=422)
        await local.rank(client="ann", cohort=cohort)
        await local.quiet()
        assert events_of(url)[-1].cohorts == {"network": 4, "agent": 2}
        assert replayed(url) == local.digest()


def pathlib_bytes(url):
    return pathlib.Path(url.removeprefix("sqlite:///")).read_bytes()


async def test_an_answer_says_the_cohorts_of_a_list_that_never_came_into_the_log(url):
    async with serving(url) as local:
        await local.board(settle=0)
        session = local.worker.boards["b"]
        hashes = {"network": session.hash_cohort("network", "x"), "agent": session.hash_cohort("agent", "x")}
        assert len({*hashes.values(), session.hash_client("x"), session.hash_cohort("agent", "y")}) == 4
        lost = ImpressionId(77, 1, 0, session.board.generation, local.clocks.wall + 10, 0, [3, 1], [(0, 0.5)], hashes)
        text = seal(lost, session.signer)
        assert open_sealed(text, session.signer) == lost
        await local.answer({"impression": text}, clicked=ITEMS[3])
        (event,) = [event for event in events_of(url) if isinstance(event, events.Answered)]
        assert (event.client, event.cohorts) == (ANYONE, {"network": 0, "agent": 1})
        assert set(senders(session.board)) == {"network", "agent"}
        assert replayed(url) == local.digest()


async def test_cohorts_that_cannot_be_are_refused(url):
    async with serving(url) as local:
        await local.board(settle=0)
        for wrong in ({"net work": "x"}, {"": "x"}, {"k" * 33: "x"}, {"network": ""}, {"network": "a\x00"}, {"a": 1}):
            await local.ask("POST", "boards/b/rank", {"cohort": wrong}, 422)
        many = {f"kind-{k}": "x" for k in range(9)}
        said = await local.ask("POST", "boards/b/rank", {"cohort": many}, 422)
        assert said["message"] == "a board has at most 8 kinds of cohorts: not 9"
        await local.rank(cohort={f"kind-{k}": "x" for k in range(8)})
        await local.quiet()
        said = await local.ask("POST", "boards/b/rank", {"cohort": {"network": "x"}}, 422)
        assert "this board has kind-0, kind-1" in said["message"]
        assert (await local.ask("GET", "boards/b"))["impressions"] == 1


PLAUSIBLE_AND_TRUST = [{"guard": "Plausible", "settings": {"model": "cascade"}}, {"guard": "ClientTrust"}]


def several(*guards):
    return [GuardChoice(**one) for one in guards or PLAUSIBLE_AND_TRUST]


def forging(rows, every=7):
    """The same visits, of which some claim clicks on all that was shown."""
    for k, event in enumerate(rows):
        whole = {"clicks": list(range(LENGTH)), "examined": LENGTH}
        yield msgspec.structs.replace(event, **whole) if k % every == 0 else event


def test_a_board_with_two_guards_learns_what_both_admit():
    """What Plausible refuses is nothing to ClientTrust, which is as if those visits had never come."""
    rows = list(forging(told(crowd(3_000))))
    possible = [event for event in rows if len(event.clicks) <= 1]
    both = fold(rows, learner="CascadeTS", guards=several())
    trusting = fold(possible, learner="CascadeTS")
    assert learnt(both) == learnt(trusting) != learnt(fold(rows, learner="CascadeTS"))
    one, other = summarize_guard(both), summarize_guard(trusting)
    forged = len(rows) - len(possible)
    assert [counts.guard for counts in one.guards] == ["Plausible", "ClientTrust"]
    assert msgspec.structs.astuple(one.guards[0]) == ("Plausible", forged, 0, None, 0)
    assert one.guards[1] == other.guards[0]
    assert one.refused == forged + other.refused
    assert {who.client for who in one.silenced} == {who.client for who in other.silenced} != set()


def test_guards_are_asked_in_the_same_order_however_they_are_listed():
    rows = list(forging(told(crowd(600))))
    one = fold(rows, guards=several())
    other = fold(rows, guards=several(*PLAUSIBLE_AND_TRUST[::-1]))
    assert learnt(one) == learnt(other)
    assert [counts.guard for counts in summarize_guard(other).guards] == ["Plausible", "ClientTrust"]


def test_a_board_with_several_guards_goes_on_from_a_snapshot():
    three = [*PLAUSIBLE_AND_TRUST, {"guard": "Quota", "settings": {"visits": 40}}]
    rows = list(forging(told(crowd(1_500), networks)))
    whole = fold(rows, guards=several(*three), most_clicks="usual")
    for k in (1, 64, 700):
        part = fold(rows[:k], guards=several(*three), most_clicks="usual")
        again = Board.restore(snapshot.pack(*part.keep()), "it")
        assert again.digest() == part.digest()
        for event in rows[k:]:
            again.apply(event)
        assert again.digest() == whole.digest()
    found = summarize_guard(whole)
    assert [counts.guard for counts in found.guards] == ["ClickLimit", "Plausible", "Quota", "ClientTrust"]
    assert set(senders(whole)) == {"", "network"}
    for k in range(30):
        whole.apply(events.Added([f"new {k}"]))
    assert summarize_guard(whole).guards == found.guards


def test_snapshots_of_one_guard_are_as_they_were():
    """Nothing is said of lists of guards, limits or declared kinds on a board that has none."""
    header, _ = fold(told(crowd(100))).keep()
    assert not {"guards", "most_clicks", "cohorts"} & (header["config"].keys() | {*header} - {"cohorts"})
    assert (header["guard"], header["kinds"]) == ("ClientTrust", [""])


async def test_guards_are_a_list_and_one_is_its_short_form(url):
    async with serving(url, seed=4) as local:
        made = await local.board(settle=0, guards=PLAUSIBLE_AND_TRUST)
        plausible, trust = (*PLAUSIBLE_AND_TRUST[:1], {"guard": "ClientTrust", "settings": {}})
        assert (made["guard"], made["guard_settings"], made["guards"]) == ("ClientTrust", {}, [plausible, trust])
        await attack(local, list(crowd(60)))
        shown = await local.rank(client="forger")
        await local.answer(shown, clicks=[1, 1, 1, 1])
        for part in ("state", "watch"):
            guard = (await local.ask("GET", f"boards/b/{part}"))["guard"]
            names = [one["guard"] for one in guard["guards"]]
            assert (guard["guard"], names) == ("ClientTrust", ["ClickLimit", "Plausible", "ClientTrust"])
            assert [one["refused"] for one in guard["guards"]] == [1, 0, 0]
        text = (await local.http.get("/metrics")).text
        assert 'steadyrank_board_refused{board="b",guard="ClickLimit"} 1.0' in text

        said = await local.ask("PUT", "boards/b", {"guards": [plausible], "guard": "Quota"}, 422)
        assert said["message"] == "guards names each guard with its settings: give it without guard"
        said = await local.ask("PUT", "boards/b", {"guard_settings": {"most": 0.1}}, 422)
        assert said["message"].startswith("guard_settings does not name a guard, and this board has Plausible, Cl")
        for wrong, words in (
            ([], "guards must name at least one guard"),
            ([trust, trust], "ClientTrust is among them twice"),
            ([trust, {"guard": "Anyone"}], "Anyone admits every visit"),
            ([trust, {"guard": "Quote"}], "did you mean 'Quota'"),
            ([trust, {"guard": "Quota", "settings": {"visit": 1}}], "Quota has no setting 'visit'"),
            ([trust, {"guard": "ClickLimit"}], "either it or most_clicks"),
        ):
            assert words in (await local.ask("PUT", "boards/b", {"guards": wrong}, 422))["message"]
        before = local.digest()
        one = await local.ask("PUT", "boards/b", {"guard": "Quota", "guard_settings": {"visits": 3}})
        assert (one["guard"], one["guards"]) == ("Quota", [{"guard": "Quota", "settings": {"visits": 3}}])
        assert replayed(url) == local.digest() != before
        back = await local.ask("PUT", "boards/b", {"guards": PLAUSIBLE_AND_TRUST})
        assert back["guards"] == [plausible, trust]
        assert replayed(url) == local.digest()
    async with serving(url, seed=1) as local:  # from a snapshot
        assert (await local.ask("GET", "boards/b"))["guards"] == [plausible, trust]
        assert replayed(url) == local.digest()


async def test_a_new_board_limits_clicks_unless_it_says_otherwise(url):
    async with serving(url) as local:
        assert (await local.board(settle=0, guard="Anyone"))["most_clicks"] == "usual"
        state = await local.ask("GET", "boards/b/state")
        assert [one["guard"] for one in state["guard"]["guards"]] == ["ClickLimit"]
        shown = await local.rank()
        await local.answer(shown, clicks=[1, 1, 0, 0])
        assert (await local.ask("GET", "boards/b/state"))["guard"]["refused"] == 1
        for most, refused in ((2, 0), (1, 1), (None, 0), ("usual", 1)):  # each folds the log again
            assert (await local.ask("PUT", "boards/b", {"most_clicks": most}))["most_clicks"] == most
            assert (await local.ask("GET", "boards/b/state"))["guard"]["refused"] == refused
            assert replayed(url) == local.digest()
        for wrong in (0, 1_001, "unusual", 1.5):
            await local.ask("PUT", "boards/b", {"most_clicks": wrong}, 422)


def liked_rarely(rng):
    return 1.0 / (1.0 + np.exp(-rng.normal(-3.0, 1.0, 200)))


def worth_of(config, seed=0, visits=5_000, share=0.15):
    """The mean worth of the latest 1,000 lists: 15 % of the answers, each of a fresh client, claim clicks on all that
    is shown but the best 15 items; everybody else clicks the first item that they like.
    """
    rng = np.random.default_rng(seed)
    liked = liked_rarely(rng)
    order, board = np.argsort(-liked), Board.create(config, [str(k) for k in range(liked.size)])
    best, worth = {*order[:15].tolist()}, []
    for t in range(1, visits + 1):
        ranking, note = board.learner_state.rank(Visit(t, t), None, config.length, rng)
        slots = ranking.tolist()
        worth.append(1.0 - np.prod(1.0 - liked[slots]))
        clicks = np.flatnonzero(rng.random(len(slots)) < liked[slots])[:1].tolist()
        examined = clicks[0] + 1 if clicks else len(slots)
        if rng.random() < share:
            clicks, examined = [p for p, k in enumerate(slots) if k not in best], len(slots)
        notes = [(int(p), float(note[p])) for p in np.flatnonzero(note)]
        head = t, t, t - 1, board.generation, slots, notes
        board.apply(events.Answered(*head, clicks, examined, 0.0, t))
    return np.mean(worth[-1_000:]) / (1.0 - np.prod(1.0 - liked[order[: config.length]]))


def test_forged_answers_that_click_nearly_everything_do_not_take_a_board_over():
    new = NEW_BOARD.changed({"settle": 0.0})
    assert worth_of(new) > 0.96 > 0.85 > worth_of(new.changed({"most_clicks": None}))
    honest = [worth_of(config, visits=1_500, share=0.0) for config in (new, new.changed({"most_clicks": None}))]
    assert honest[0] == honest[1]


async def test_kinds_of_cohorts_are_declared_and_mistyped_ones_leave(url):
    async with serving(url) as local:
        await local.board(settle=0)
        mistyped = [f"netwrok-{k}" for k in range(7)]
        for kind in ["network", *mistyped]:
            shown = await local.rank(client="ann", cohort={kind: "10.1"})
            await local.answer(shown, clicked=None)
        await local.quiet()
        open_one = await local.rank(client="ann", cohort={mistyped[0]: "10.2", "network": "10.1"})
        said = await local.ask("POST", "boards/b/rank", {"cohort": {"agent": "x"}}, 422)
        assert "declare the kinds you want in its setting cohorts" in said["message"]

        made = await local.ask("PUT", "boards/b", {"cohorts": ["network", "agent"]})
        assert made["cohorts"] == ["network", "agent"]
        board = local.worker.boards["b"].board
        assert board.impressions.kinds == ["network"]
        assert set(senders(board)) == {"", "network"}
        await local.answer(open_one, clicked=None)  # given out before
        await local.rank(client="ann", cohort={"agent": "x", "network": "10.1"})
        await local.quiet()
        assert board.impressions.kinds == ["network", "agent"]
        words = "cohort 'netwrok-0' is no kind that this board has: cohorts declares network, agent"
        wrong = {"cohort": {mistyped[0]: "10.1"}}
        assert (await local.ask("POST", "boards/b/rank", wrong, 422))["message"] == words
        report = {"id": "1", "items": ITEMS[:2], "clicked": None, **wrong}
        assert (await local.ask("POST", "boards/b/observe", report, 422))["message"] == words
        assert replayed(url) == local.digest()
        for kinds, words in (
            ([f"kind-{k}" for k in range(9)], "at most 8 different kinds"),
            (["network", "network"], "at most 8 different kinds"),
            (["net work"], "named by 1 to 32 of A-Z a-z 0-9 _ -, not 'net work'"),
        ):
            assert words in (await local.ask("PUT", "boards/b", {"cohorts": kinds}, 422))["message"]
    async with serving(url, seed=1) as local:  # from a snapshot
        await local.ask("POST", "boards/b/rank", wrong, 422)
        assert replayed(url) == local.digest()
        assert (await local.ask("PUT", "boards/b", {"cohorts": None}))["cohorts"] is None
        await local.rank(**wrong)
