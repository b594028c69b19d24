"""Lists that are loaded again: one look, when it is judged whether a client clicks too little."""

import numpy as np
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.audit.detect.reloads import reloads
from steadyrank.audit.detect.senders import VISIT
from steadyrank.click_logs.looks import Impressions

pytestmark = pytest.mark.pure

N, K, LENGTH, PEOPLE = 6_000, 30, 5, 500
SILENT = 7_777


def expected(lists, clicked, client, board, time):
    """Rule by rule, in Python."""
    last, flags = {}, []
    for shown, click, who, where, when in zip(lists, clicked, client, board, time, strict=True):
        before = last.get(who)
        again = not click and before is not None and before[0] == (where, shown) and when - before[1] <= VISIT
        flags.append(who >= 0 and again)
        if click:
            last.pop(who, None)
        elif not again:
            last[who] = (where, shown), when
    return flags


@pytest.mark.interpreted
@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_reloads_are_those_of_the_rule(unit):
    rng = np.random.default_rng(2)
    n = 400
    lists = rng.integers(0, 2, (n, 2))
    clicked, board = rng.random(n) < 0.2, rng.integers(0, 2, n).astype(np.int32)
    client = rng.integers(-1, 5, n).astype(np.int32)
    time = np.sort(rng.random(n)) * 20 * VISIT
    bits = np.zeros(lists.shape, np.bool_)
    bits[clicked, 1] = True
    shown = Impressions(lists.ravel().astype(np.int32), bits.ravel(), np.arange(n + 1) * 2, 2)
    flags = reloads(shown, client, 5, board, time * unit, unit)
    names = list(map(tuple, lists.tolist()))
    assert flags.tolist() == expected(names, clicked.tolist(), client.tolist(), board.tolist(), time.tolist())
    assert 5 < flags.sum() < n / 2


def log_with(lists, seconds):
    """People who click, and one who was shown some lists, so many seconds apart, and clicks nothing."""
    rng = np.random.default_rng(4)
    shown = rng.random((N, K)).argsort(axis=1)[:, :LENGTH]
    bits = rng.random(shown.shape) < np.linspace(0.4, 0.1, K)[shown]
    begin = 1_793_491_200
    people = pl.DataFrame(
        {
            "items": shown.tolist(),
            "clicked": bits.astype(int).tolist(),
            "client": rng.integers(0, PEOPLE, N),
            "time": begin + np.arange(N) * 20,
        }
    )
    silent = pl.DataFrame(
        {
            "items": lists,
            "clicked": [[0] * LENGTH] * len(lists),
            "client": [SILENT] * len(lists),
            "time": [begin + 5_000 + i * seconds for i in range(len(lists))],
        }
    )
    return pl.concat([people, silent]).sort("time", maintain_order=True)


@pytest.mark.parametrize(("alike", "seconds", "named"), [(True, 1, False), (False, 1, True), (True, 700, True)])
def test_who_loads_a_page_again_and_again_is_not_blamed(alike, seconds, named):
    """But who is shown as many different lists is, and who comes back to the same list all day."""
    rng = np.random.default_rng(5)
    lists = rng.random((15, K)).argsort(axis=1)[:, :LENGTH].tolist()
    found = sr.audit(log_with([lists[0]] * 15 if alike else lists, seconds))
    assert (SILENT in [one.client for one in found.clients]) == named
