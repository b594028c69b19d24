"""Checks of the contract, and tests marked `interpreted`, in a process in which nothing is compiled: seconds for all
classes, where compiling takes minutes. What a learner did there is compared with what it does compiled.

Numpy refuses indices that are out of bounds, which compiled code does not: a check that passes here stays within.
"""

import base64
import importlib
import json
import os
import pickle
import subprocess
import sys
import traceback
from unittest import mock

import numpy as np
import pytest

from steadyrank import testing
from steadyrank.core.contract import memory
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_click, call_rank, call_update
from steadyrank.testing import learners as of_learners
from steadyrank.testing import users as of_users
from steadyrank.testing.samples import D, K, sample_problem

ROUNDS = 120  # half of those of the public checks
SOAK = "STEADYRANK_KILLS" in os.environ  # in `make soak` everything is compiled
# learners, users and adversaries that `make test` compiles; it checks the others interpreted
COMPILED = {
    *("SteadyRank", "SteadyRankLinear", "SteadyRankSegments", "M2UCBV", "CascadeTS", "CascadeUCBV", "Random"),
    *("Cascade", "PositionBased"),
    *("PrefixFlip", "FakeUser", "Honest"),
}


class Interpreter:
    """The interpreting process, started at the first request."""

    process = None

    @classmethod
    def ask(cls, order):
        if cls.process is None:
            folder = os.path.dirname(os.path.abspath(__file__))
            others = [os.path.join(os.path.dirname(folder), name) for name in ("bench", "docs")]
            path = os.pathsep.join([folder, *others, *filter(None, [os.environ.get("PYTHONPATH")])])
            environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            cls.process = subprocess.Popen([sys.executable, __file__], env=environment, **pipes)
        cls.process.stdin.write(json.dumps(order) + "\n")
        cls.process.stdin.flush()
        answer = json.loads(cls.process.stdout.readline())
        if "error" in answer:
            raise {"AssertionError": AssertionError, "ValueError": ValueError}[answer["kind"]](answer["error"])
        return pickle.loads(base64.b64decode(answer["trace"]))

    @classmethod
    def close(cls):
        if cls.process is not None:
            cls.process.stdin.close()
            cls.process.wait()
            cls.process.stdout.close()


def mostly(names):
    """Parameters of a test: names of learners, marked `interpreted` unless `make test` compiles them."""
    return [pytest.param(name, marks=[] if name in COMPILED else pytest.mark.interpreted) for name in names]


def check(name, cls, **settings):
    """Run a public check of a class, interpreted; fails as the check does. Returns the learner's actions by round."""
    given = {key: {"class": _address(value)} if isinstance(value, type) else value for key, value in settings.items()}
    return Interpreter.ask([name, _address(cls), given])


def run_test(module, name, arguments):
    """Call a test function in the process; its AssertionError says where and why it failed."""
    packed = base64.b64encode(pickle.dumps(arguments)).decode()
    Interpreter.ask(["a test", [module, name], packed])


def check_learner_both_ways(cls, **settings):
    """All rules interpreted; compiled, the same lists, and notes and memory equal up to rounding.

    Learners that `make test` does not compile are compared in `make soak`. Compiled logarithms may round differently.
    Methods beside compiled functions are compared bit by bit in full checks.
    """
    lists, notes, kept = check("check_learner", cls, **settings)
    if not SOAK and cls.__name__ not in COMPILED:
        return
    learner = make(cls, sample_problem(K), settings=settings)
    with mock.patch.object(of_learners, "T", ROUNDS):
        log = of_learners._live_through(learner, call_rank, call_update)
    for event, ranking, note in zip(log, lists, notes, strict=True):
        differ = f"{cls.__name__}: compiled and interpreted `rank` differ in round {event.visit.t}"
        assert event.ranking.tolist() == ranking, differ
        np.testing.assert_allclose(event.note, note, rtol=1e-6, atol=1e-9, err_msg=differ)
    for (name, array), other in zip(memory(learner), kept, strict=True):
        differ = f"{cls.__name__}: compiled and interpreted `update` differ in {name}"
        np.testing.assert_allclose(array, other, rtol=1e-6, atol=1e-9, err_msg=differ)


def check_users_both_ways(cls, **settings):
    """All rules interpreted; compiled, the same arrivals and clicks. Values of lists are left to full checks.

    Users that `make test` does not compile are compared in `make soak`.
    """
    check("check_users", cls, **settings)
    if not SOAK and cls.__name__ not in COMPILED:
        return
    crowd = of_users._users(cls, K, settings)
    used, mirror, door, second, items = (np.random.default_rng(seed) for seed in (5, 5, 7, 7, 6))
    for t in range(1, ROUNDS + 1):
        visit = of_users._check_arrival(cls, crowd, t, door, second)
        ranking = items.permutation(K)[: 1 + t % D]
        clicks, other = np.ones(ranking.size, np.bool_), np.zeros(ranking.size, np.bool_)
        examined = call_click(crowd, visit, ranking, clicks, used)
        differ = f"{cls.__name__}: compiled and interpreted `click` differ in round {t}"
        assert examined == call_click.plain(crowd, visit, ranking, other, mirror), differ
        assert clicks.tolist() == other.tolist(), differ


def check_adversary_either_way(cls, **settings):
    """All rules: compiled if `make test` compiles it, or in `make soak`; interpreted otherwise."""
    if SOAK or cls.__name__ in COMPILED:
        testing.check_adversary(cls, **settings)
    else:
        check("check_adversary", cls, **settings)


def _trace(learner, log):
    """Lists and notes in the order of the answers, and the final memory."""
    lists, notes = [event.ranking.tolist() for event in log], [event.note.copy() for event in log]
    return lists, notes, [array.copy() for _, array in memory(learner)]


def _address(cls):
    return [cls.__module__, cls.__qualname__]


def _found(address):
    return getattr(importlib.import_module(address[0]), address[1])


def _main():
    traces, first, live = [], [], of_learners._live_through

    def traced(learner, rank, update):
        if rank is call_rank.plain:  # the interpreted run of the check
            for (_, array), (_, other) in zip(memory(learner), memory(first[0]), strict=True):
                array[:] = other
            return first[1]
        log = live(learner, rank, update)
        first[:] = learner, log
        traces.append(_trace(learner, log))
        return log

    def check_class(name, address, given):
        settings = {key: _found(value["class"]) if isinstance(value, dict) else value for key, value in given.items()}
        traces.clear()
        try:
            getattr(testing, name)(_found(address), **settings)
        except (AssertionError, ValueError) as error:
            return {"kind": type(error).__name__, "error": str(error)}
        return {"trace": base64.b64encode(pickle.dumps(traces[0] if traces else None)).decode()}

    importlib.import_module("conftest")  # for the settings of Hypothesis
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of tests must not mix with answers
    of_learners._live_through, of_learners.T = traced, ROUNDS
    for line in sys.stdin:
        name, address, given = json.loads(line)
        answer = _call(address, given) if name == "a test" else check_class(name, address, given)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _call(address, packed):
    try:
        _found(address)(**pickle.loads(base64.b64decode(packed)))
    except Exception:
        return {"kind": "AssertionError", "error": f"without compiling:\n{traceback.format_exc()}"}
    return {"trace": base64.b64encode(pickle.dumps(None)).decode()}


if __name__ == "__main__":
    _main()
