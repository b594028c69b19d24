"""The service against a plain dictionary, step by step, and against requests of every shape."""

import asyncio
import contextlib
import os
import tempfile

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from service_tools import Clocks, Server, replayed, serving, until
from steadyrank.service.http import openapi
from steadyrank.service.worker.impression_ids import open_sealed

pytestmark = pytest.mark.pure

LENGTH, LIFETIME = 3, 100.0
FIRST = ["a", "b", "c", "d"]


class BoardModel(RuleBasedStateMachine):
    """What each item was looked at and clicked, and which impression has which answer, kept in dictionaries."""

    shown = Bundle("shown")

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{self.folder.name}/store.db"
        self.loop = asyncio.new_event_loop()
        self.clocks, self.starts = Clocks(), 0
        self.active, self.items = set(FIRST), list(FIRST)
        self.learnt = []  # (round, items, bits, examined, client)
        self.labels, self.made = {}, 0  # (start, end, label) by number, and how many there ever were
        self.words, self.clients = {}, {}  # (client, label) by number; numbers of clients and cohorts as they came
        self.answers, self.impressions, self.rounds = (
            {},
            {},
            {},
        )  # by id: (bits, examined); (items, when shown); round
        self.reports = {}  # of another ranker's lists by name: when shown, items
        self.expired, self.senders = set(), {}  # senders by id: client and network
        self._open()
        self.do(
            self.local.ask("PUT", "boards/b", {"items": FIRST, "length": LENGTH, "lifetime": LIFETIME, "settle": 0})
        )

    def do(self, work):
        return self.loop.run_until_complete(work)

    def _open(self):
        self.stack = contextlib.AsyncExitStack()
        self.starts += 1  # other random numbers after each start
        self.started = self.clocks.wall
        self.local = self.do(self.stack.enter_async_context(serving(self.url, self.clocks, self.starts)))

    @rule(
        target=shown,
        some=st.sets(st.sampled_from([*FIRST, "e", "f"])),
        length=st.none() | st.integers(0, 4),
        client=st.sampled_from([None, "ann", "bob"]),
        network=st.sampled_from([None, "x"]),
    )
    def rank(self, some, length, client, network):
        candidates = sorted(some) or None
        possible = self.active if candidates is None else self.active & some
        good = (candidates is None or set(candidates) <= set(self.items)) and length in (None, 1, 2, 3) and possible
        body = {"candidates": candidates, "length": length, "client": client}
        body |= {"cohort": {"network": network}} if network else {}
        answer = self.do(self.local.ask("POST", "boards/b/rank", body, 200 if good else 422))
        if not good:
            return "none"
        assert len(answer["items"]) == min(length or LENGTH, len(possible))
        assert set(answer["items"]) <= possible
        self.impressions[answer["impression"]] = (answer["items"], self.clocks.wall)
        for name in filter(None, (client, network)):
            self.clients.setdefault(name, len(self.clients))
        self.senders[answer["impression"]] = client, network
        self.rounds[answer["impression"]] = open_sealed(answer["impression"], self.session().signer).round
        return answer["impression"]

    @rule(
        target=shown,
        name=st.sampled_from(["one", "two", "three"]),
        items=st.lists(st.sampled_from([*FIRST, "e"]), min_size=1, max_size=4),
        said=st.none() | st.lists(st.integers(0, 1), max_size=4),
        client=st.sampled_from([None, "ann"]),
    )
    def observe(self, name, items, said, client):
        """A list of another ranker: a name stands for one list, until its time is over."""
        when, listed = self.reports.get(name, (self.clocks.wall, None))
        id_ = f"observed {name} {when}"
        meant = None if said is None else (said, len(said))
        code = 200
        if len(set(items)) < len(items) or len(items) > LENGTH or (said is not None and len(said) > len(items)):
            code = 422
        elif self.clocks.wall > when + LIFETIME:
            code = 410
        elif listed is not None and items != listed:
            code = 409
        elif listed is not None and said is not None and id_ in self.expired and id_ not in self.answers:
            code = 410
        elif said is not None and id_ in self.answers and self.answers[id_] != meant:
            code = 409
        body = {"id": name, "items": items, "time": when, "client": client}
        body |= {} if said is None else {"clicks": said}
        answer = self.do(self.local.ask("POST", "boards/b/observe", body, code))
        if code != 200:
            return "none"
        known = id_ in self.impressions
        outcome = "duplicate" if known and (said is None or id_ in self.answers) else "learnt"
        assert answer["outcome"] == ("shown" if said is None and not known else outcome)
        if not known:
            self._reported(name, id_, when, items, client, answer)
        if said is not None and id_ not in self.answers:
            self.answers[id_] = meant
            if meant[1]:
                self.learnt.append((self.rounds[id_], items, *meant, self.senders[id_]))
        return "none"

    def _reported(self, name, id_, when, items, client, answer):
        self.reports[name] = when, items
        self.impressions[id_] = items, when
        for item in items:
            if item not in self.items:
                self.items.append(item)
                self.active.add(item)
        if client is not None:
            self.clients.setdefault(client, len(self.clients))
        self.senders[id_] = client, None
        self.rounds[id_] = open_sealed(answer["impression"], self.session().signer).round

    @rule(id_=shown, place=st.integers(0, LENGTH), bits=st.none() | st.lists(st.integers(0, 1), max_size=4))
    def answer(self, id_, place, bits):
        items, when = self.impressions.get(id_, ([], 0.0))
        if bits is None:
            clicked = items[place] if place < len(items) else None
            body = {"clicked": clicked}
            meant = ([0] * place + [1], place + 1) if clicked else ([0] * len(items), len(items))
        else:
            body, meant = {"clicks": bits}, (bits, len(bits))
        code = 200
        if id_ not in self.impressions:
            code = 403
        elif self.clocks.wall > when + LIFETIME or id_ in self.expired:
            code = 410
        elif bits is not None and len(bits) > len(items):
            code = 422
        elif id_ in self.answers and self.answers[id_] != meant:
            code = 409
        answer = self.do(self.local.ask("POST", "boards/b/feedback", {"impression": id_, **body}, code))
        if code == 200:
            assert answer["outcome"] == ("duplicate" if id_ in self.answers else "learnt")
        if code == 200 and id_ not in self.answers:
            self.answers[id_] = meant
            if meant[1]:  # one that says nothing is like none
                self.learnt.append((self.rounds[id_], items, *meant, self.senders[id_]))

    def session(self):
        return self.local.worker.boards["b"]

    def _word(self, t):
        return next((word for _, (a, b, word) in sorted(self.labels.items(), reverse=True) if a <= t <= b), None)

    def _left_out(self, t, senders):
        """Whether feedback is fraud: its rounds, or its client, or else the network that its client is in."""
        of = {name: word for _, (name, word) in sorted(self.words.items())}
        client, network = senders
        return self._word(t) == "fraud" or of.get(client, of.get(network)) == "fraud"

    def _counts(self):
        """Looks and clicks by item, without what was labelled as fraud."""
        counts = dict.fromkeys(self.items, (0, 0))
        for t, items, bits, examined, senders in self.learnt:
            for item, bit in list(zip(items, bits, strict=False))[:examined]:
                if not self._left_out(t, senders):
                    counts[item] = (counts[item][0] + 1, counts[item][1] + bit)
        return counts

    @rule(start=st.integers(0, 12), size=st.integers(-1, 8), word=st.sampled_from(["fraud", "honest", "both"]))
    def label(self, start, size, word):
        self.do(self.local.worker.catch_up())
        end, latest = start + size, self.session().board.impressions.rounds
        good = 1 <= start <= end <= latest and word != "both"
        body = {"start": start, "end": end, "label": word}
        answer = self.do(self.local.ask("POST", "boards/b/labels", body, 200 if good else 422))
        if good:
            over = max((n for n, (a, b, _) in self.labels.items() if a <= end and start <= b), default=0)
            if self.labels.get(over) != (start, end, word):  # else it is there already
                self.made = over = self.made + 1
                self.labels[over] = (start, end, word)
            assert answer["number"] == over

    @rule(name=st.sampled_from(["ann", "bob", "x"]), word=st.sampled_from(["fraud", "honest"]))
    def label_client(self, name, word):
        client = self.clients.get(name, 99)
        body = {"client": client, "kind": "network" if name == "x" else None, "label": word}
        code = 200 if name in self.clients else 422
        answer = self.do(self.local.ask("POST", "boards/b/client-labels", body, code))
        if code == 200:
            over = max((n for n, (known, _) in self.words.items() if known == name), default=0)
            if self.words.get(over) != (name, word):  # else it is there already
                self.made = over = self.made + 1
                self.words[over] = (name, word)
            assert answer["number"] == over

    @rule(guard=st.sampled_from(["ClientTrust", "Quota", "Anyone"]), shadow=st.booleans())
    def guard(self, guard, shadow):
        settings = {"visits": 1} if guard == "Quota" else {}
        self.do(self.local.ask("PUT", "boards/b", {"guard": guard, "guard_settings": settings, "shadow": shadow}))

    @rule(number=st.integers(0, 4))
    def unlabel(self, number):
        code = 200 if 1 <= number <= self.made else 404
        self.do(self.local.ask("DELETE", f"boards/b/labels/{number}", code=code))
        self.labels.pop(number, None)
        self.words.pop(number, None)

    @rule(item=st.sampled_from(["a", "e", "f"]))
    def add(self, item):
        self.do(self.local.ask("POST", "boards/b/items", {"items": [item]}))
        self.active.add(item)
        if item not in self.items:
            self.items.append(item)

    @rule(item=st.sampled_from(["a", "b", "e"]))
    def retire(self, item):
        self.do(self.local.ask("DELETE", f"boards/b/items/{item}", code=200 if item in self.items else 404))
        self.active.discard(item)

    @rule(seconds=st.sampled_from([1.0, 60.0, 200.0]))
    def wait(self, seconds):
        self.do(self.local.quiet())
        self.clocks.pass_time(seconds)
        self.do(self.local.quiet())
        for id_, (items, when) in self.impressions.items():
            over = self.clocks.wall - max(when, self.started) >= LIFETIME  # a start begins the time anew
            if over and id_ not in self.answers and id_ not in self.expired:
                self.learnt.append((self.rounds[id_], items, [0] * len(items), len(items), self.senders[id_]))
            if over:
                self.expired.add(id_)

    @rule(learner=st.sampled_from(["SteadyRank", "CascadeTS"]))
    def change(self, learner):
        self.do(self.local.ask("PUT", "boards/b", {"learner": learner}))

    @rule()
    def restart(self):
        self.do(self.local.quiet())
        self.do(self._steady())
        digest = self.local.digest()
        self.do(self.stack.aclose())
        assert replayed(self.url) == digest
        self._open()
        assert self.local.digest() == digest

    async def _steady(self):
        """Until the log is folded again."""
        await until(lambda: self.session().refolding is None)

    @invariant()
    def the_counts_agree(self):
        if not hasattr(self, "local"):
            return
        self.do(self._steady())
        state = self.do(self.local.ask("GET", "boards/b/state"))
        assert {item["item"]: (item["looks"], item["clicks"]) for item in state["items"]} == self._counts()
        assert {item["item"] for item in state["items"] if item["active"]} == self.active
        assert state["board"]["answers"] == sum(examined > 0 for _, examined in self.answers.values())
        watched = self.do(self.local.ask("GET", "boards/b/watch"))
        points = {p["start"]: p for p in watched["timeline"]["points"]}
        for t, point in points.items():
            told = [row for row in self.learnt if row[0] == t]
            assert point["examined"] == sum(row[3] for row in told)
            assert point["fraud"] == sum(self._left_out(t, row[4]) for row in told)
        assert {x["number"]: (x["start"], x["end"], x["label"]) for x in watched["labels"]} == self.labels
        words = {n: (self.clients[name], word) for n, (name, word) in self.words.items()}
        assert {x["number"]: (x["client"], x["label"]) for x in watched["client_labels"]} == words

    def teardown(self):
        if hasattr(self, "local"):
            self.do(self.stack.aclose())
            self.loop.close()
            self.folder.cleanup()


EXAMPLES = int(os.environ.get("STEADYRANK_EXAMPLES", "8"))  # more of them in `make soak`
FEW = EXAMPLES // 2  # of requests of a shape
TestBoardModel = BoardModel.TestCase
TestBoardModel.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.always
def test_requests_of_every_shape_get_an_answer_that_is_described(tmp_path):
    """No 5xx, nothing that the description does not say. A board is there, so that what lies behind is reached."""
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    server.client().put_board("b", items=FIRST, length=2)
    import schemathesis

    schema = schemathesis.openapi.from_dict(openapi.describe())
    tried = sum(_try(server.address, operation.ok()) for operation in schema.get_all_operations())
    assert tried > 5 * FEW
    assert server.stop() == 0
    assert "a request failed" not in server.log.read_text()


def _try(address, operation):
    """Half of the requests name the board that is there; it is not to be deleted."""
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    count = 0

    @given(case=operation.as_strategy())
    @settings(max_examples=FEW, deadline=None, suppress_health_check=list(HealthCheck))
    def every(case):
        nonlocal count
        count += 1
        whole = case.method == "DELETE" and case.path.endswith("{board}")
        if "board" in (case.path_parameters or {}) and count % 2 and not whole:
            case.path_parameters["board"] = "b"
        # what is wrong with a request of the right shape depends on the board: not part of the description
        case.call_and_validate(base_url=address, excluded_checks=[positive_data_acceptance])

    every()
    return count
