"""Re-ranking an engine's order over many queries: python bench/collection.py [--seeds N] [--attack].

A world has queries with Zipf(0.9) traffic and 50 candidates each, of attraction sigmoid(1.1 z - 3.2), z normal;
the engine orders them by a score that correlates with z by rho. Lists have 10 places. Worth: the clicks of the lists
shown over those of the best lists, of all queries, of the head (more than 200 visits) and of the tail (at most 20).
`places`: users look at place p with chance 1 / p^0.7. `drift`: after each quarter of the visits five random pairs of
items of each query exchange their attractions. Deciles are of queries by traffic: our clicks over the engine's own,
their mean over the seeds, and the least decile of any seed.

Rivals: a learner a query (Thompson sampling from Beta(1, 1)); a prior by the engine's place with the strength of 30
looks, and of 15 with draws that count by min(1, visits / 100) (cautious); their prior is a place's mean click rate.
`BubbleRank` a query re-orders the engine's first ten, which is worth nothing to users who look until they click.

`--attack`: 15 % of all visits are of 100 clients who click one item in each of 200 queries, at engine's place 11 or
lower, and nothing else; or each of these visits has a new client name. Honest worth lost against a run without them,
and the least decile of honest visits, in brackets that of any seed. Clients with a single visit are never refused, so
with new names results are those without a guard.

Both print tables for docs/collections-method.md, with 95 % intervals of the means over seeds, and run one process per
core, each for one seed of a world. `--kept FILE` saves the result of each, so that an interrupted run resumes; delete
the file when the code has changed.

`--judgments`: rank correlation (Spearman) of judgments with the true attractions, over the items of a query that were
shown, and the share of their pairs that are in order, ties as half; means over queries with more than 200 visits. For
comparison, clicks over times shown; and the share in order among items that nobody clicked, which are all tied by
plain rates. False visits as above, 10 % of all. If users look at places, attention is learnt, and in a separate line
given.

`--memory`: the worth of lists with several settings of `memory`, in the first world and the one with drift, and in
two of 100 queries with 2,000 visits each.

`--naver FOLDER`: judgments of the NAVER log, which must be in this folder as docs/real-logs.md describes, with
`naver_clara2_relevance.tsv.gz`. For pairs of documents of a query with different grades that were both shown: how
often the better one has the higher rate, ties as half; the same for clicks over times shown, and for the mean place
at which the log shows them. In brackets 95 % of bootstrap samples of queries. Clean, and with 10 % false visits by 30
clients, each to a list of one of the 200 busiest queries, who click its lowest document.

`--surges`: how many surges honest runs have; and for attacks with a new client name for every visit, from half time
on, on one busy query and on 50 at once: in how many of the queries they are noticed, after how many false visits, and
the loss in these queries.

`--scale PAIRS`: the memory of this number of (query, item) pairs, a hundred for each query; a list's time over a
ranker's; and how long a service applies nothing while it copies them or makes room, all of which it does in threads.

`--served PAIRS`: a service that may remember this number of pairs and learns from half as many more, a list of ten
for each query: the time of lists meanwhile, of the collection and of a board, and from a start to the first list.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import gzip
import itertools
import json
import multiprocessing
import pathlib
import pickle
import signal
import tempfile
import threading
import time
from typing import NamedTuple

import numpy as np
from boards import Connection, Service
from scipy import stats

import steadyrank as sr
from steadyrank.core.compiling.jit import kernel
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.kernels import largest
from steadyrank.core.rounds import FIRST_BOT
from steadyrank.guards.client_trust.client_trust import ClientTrust
from steadyrank.learners.bubble_rank import BubbleRank
from steadyrank.live.collection.engine_scores import SCORE_BITS
from steadyrank.live.collection.id_table import find_or_add_row, find_row, slots_for
from steadyrank.live.collection.pair_table import PairTable, QueryTable, find_or_add
from steadyrank.live.collection.pair_table import busiest as most_visited
from steadyrank.live.collection.re_ranker import PLACES, QUERY, ReRanker, estimate, re_rank
from steadyrank.live.collection.surges import ALARM, ITEM, NOTICED
from steadyrank.live.collection.surges import QUERY as QUERY_ID
from steadyrank.service.board.collection_summary import copy_busiest

ITEMS, LENGTH, CLIENTS = 50, 10, 8_000
ALONE, BY_PLACE, CAUTIOUS, BUBBLES = range(4)
RIVALS, BUBBLE_RANK = ("a learner a query", "by place, c = 30", "cautious"), "BubbleRank"
OURS, TOLD = "ours", "ours, attention given"
HEAD, TAIL = 200, 20  # visits
COLUMNS = "engine", BUBBLE_RANK, *RIVALS, OURS


class World(NamedTuple):
    queries: int
    visits: int  # mean per query
    rho: float
    places: bool = False
    drift: bool = False

    def __str__(self):
        more = ", places" if self.places else ", drift" if self.drift else ""
        return f"{self.queries:,} queries, {self.visits} visits each, rho {self.rho}{more}"


WORLDS = (
    World(2_000, 50, 0.6),
    World(20_000, 10, 0.6),
    World(2_000, 50, 0.3),
    World(20_000, 10, 0.3),
    World(2_000, 50, 0.6, places=True),
    World(2_000, 50, 0.6, drift=True),
)
TRIED = World(200, 20, 0.6)  # to compile


class Traffic(NamedTuple):
    """Visits with their queries, and the attractions of items."""

    attraction: np.ndarray  # [query, item] in the engine's order
    query: np.ndarray  # [visit]
    client: np.ndarray  # [visit]
    target: np.ndarray  # [visit] the item that a false visit clicks; -1: an honest one
    attention: np.ndarray  # [place] below 1: users look at places; all 1: they look until they click
    drift: bool


def traffic(world, seed):
    rng = np.random.default_rng([seed, world.queries, world.visits, round(100 * world.rho)])
    shape = world.queries, ITEMS
    z = rng.standard_normal(shape)
    score = world.rho * z + np.sqrt(1.0 - world.rho**2) * rng.standard_normal(shape)
    z = np.take_along_axis(z, np.argsort(-score, axis=1), 1)
    visits = world.queries * world.visits
    query = rng.choice(world.queries, visits, p=zipf(world.queries, 0.9))
    attention = np.arange(1.0, LENGTH + 1.0) ** (-0.7 if world.places else 0.0)
    client = rng.choice(CLIENTS, visits, p=zipf(CLIENTS, 0.8))
    return Traffic(1.0 / (1.0 + np.exp(3.2 - 1.1 * z)), query, client, np.full(visits, -1), attention, world.drift)


def zipf(n, power):
    weight = np.arange(1.0, n + 1.0) ** -power
    return weight / weight.sum()


def attacked(honest, seed, share=0.15, n_queries=200, bots=100, busiest=False, fresh=False):
    """Insert false visits; `fresh`: each with a new client name."""
    rng = np.random.default_rng([seed, 77])
    n, queries = honest.query.size, honest.attraction.shape[0]
    n_false = int(n * share / (1.0 - share))
    chosen = np.arange(n_queries) if busiest else rng.choice(queries, n_queries, replace=False)
    item = rng.integers(LENGTH, ITEMS, n_queries)
    false = np.zeros(n + n_false, np.bool_)
    false[rng.choice(n + n_false, n_false, replace=False)] = True
    which = rng.integers(0, n_queries, n_false)
    query, client, target = np.empty((3, n + n_false), np.int64)
    query[~false], client[~false], target[~false] = honest.query, honest.client, -1
    query[false], client[false], target[false] = (
        chosen[which],
        FIRST_BOT + (np.arange(n_false) if fresh else rng.integers(0, bots, n_false)),
        item[which],
    )
    return honest._replace(query=query, client=client, target=target)


@kernel
def worth(attraction, ranking, attention):
    """Expected clicks of a list: at most one if users stop at a click."""
    none, clicks = 1.0, 0.0
    for p in range(ranking.size):
        none *= 1.0 - attraction[ranking[p]]
        clicks += attention[p] * attraction[ranking[p]]
    return clicks if attention[-1] < 1.0 else 1.0 - none


@kernel
def worth_of_others(attraction, attention, others):
    """Write the worth of the engine's own list and of the best list of each query to `others`, [query, 2]."""
    for q in range(attraction.shape[0]):
        others[q, 0] = worth(attraction[q], np.arange(attention.size), attention)
        others[q, 1] = worth(attraction[q], np.argsort(-attraction[q])[: attention.size], attention)


@kernel
def count_worth(attraction, ranking, attention, others, row):
    """Add the worth of a list, the engine's own and the best one to a query's row, and count the visit."""
    row[0] += worth(attraction, ranking, attention)
    row[1] += others[0]
    row[2] += others[1]
    row[3] += 1.0


@kernel
def click(attraction, ranking, attention, target, clicks, rng):
    """Simulate a visitor's clicks; returns how many places the answer covers."""
    clicks[:] = False
    if target >= 0:
        for p in range(ranking.size):
            if ranking[p] == target:
                clicks[p] = True
                return p + 1 if attention[-1] >= 1.0 else ranking.size
        return ranking.size
    for p in range(ranking.size):
        clicks[p] = rng.random() < attention[p] * attraction[ranking[p]]
        if clicks[p] and attention[-1] >= 1.0:
            return p + 1
    return ranking.size


@kernel
def move(attraction, t, visits, rng):
    """Change tastes after each quarter of the visits; returns whether they changed."""
    if t == 0 or t % (visits // 4):
        return False
    for q in range(attraction.shape[0]):
        for _ in range(5):
            i, j = int(rng.random() * ITEMS), int(rng.random() * ITEMS)
            attraction[q, i], attraction[q, j] = attraction[q, j], attraction[q, i]
    return True


@kernel
def play(world, ranker, guard, world_rng, result, refused, plain):
    """Run all visits through our ranker; `result`, [query, 4]: worth of our lists, the engine's, the best; visits.

    `plain`, [query, item, 2]: how often an item was shown and clicked, by all clients.
    """
    attraction = world.attraction.copy()
    items, ranking, clicks = (
        np.arange(1, ITEMS + 1) << SCORE_BITS,
        np.zeros(LENGTH, np.int64),
        np.zeros(LENGTH, np.bool_),
    )
    note, features = np.zeros(LENGTH + NOTE_EXTRA), np.zeros(0)
    old, old_note, old_clicks = ranking.copy(), note.copy(), clicks.copy()
    others = np.empty((attraction.shape[0], 2))
    for t in range(world.query.size):
        if t == 0 or (world.drift and move(attraction, t, world.query.size, world_rng)):
            worth_of_others(attraction, world.attention, others)
        q, target = world.query[t], world.target[t]
        find_or_add_row(ranker.queries.ids, q + 1)
        re_rank(ranker, q + 1, items, ranking)
        if target < 0:
            count_worth(attraction[q], ranking, world.attention, others[q], result[q])
        examined = click(attraction[q], ranking, world.attention, target, clicks, world_rng)
        for p in range(LENGTH):
            plain[q, ranking[p], 0] += 1.0
            plain[q, ranking[p], 1] += clicks[p]
        note[:LENGTH] = (ranking + 1) << SCORE_BITS
        note[QUERY] = q + 1
        visit = Visit(t + 1, world.client[t], features)
        admitted = guard.admit(visit, ranking, note, clicks, examined)
        while True:
            then, client, size, far = guard.retract(old, old_note, old_clicks)
            if size == 0:
                break
            ranker.forget(Visit(then, client, features), old[:size], old_note, old_clicks[:size], far)
            refused[1 if client >= FIRST_BOT else 0] += 1
        if admitted:
            ranker.update(visit, ranking, note, clicks, examined)
        else:
            refused[1 if target >= 0 else 0] += 1


@kernel
def play_rival(world, kind, world_rng, mind, result):
    """Run all visits through a rival; `result` as for `play`."""
    attraction = world.attraction.copy()
    queries = attraction.shape[0]
    looks, clicked, visits = np.zeros((queries, ITEMS)), np.zeros((queries, ITEMS)), np.zeros(queries)
    place_looks, place_clicks = np.full(ITEMS, 5.0), np.full(ITEMS, 0.3)
    index, clicks = np.empty(ITEMS), np.zeros(LENGTH, np.bool_)
    wins, base = np.zeros((queries, LENGTH, LENGTH), np.int32), np.zeros((queries, LENGTH), np.int64)
    base[:] = np.arange(LENGTH)
    listed, allowed, shown = np.full(queries, LENGTH), np.ones(LENGTH, np.bool_), np.zeros(LENGTH, np.int64)
    note, features, others = np.zeros(LENGTH + NOTE_EXTRA), np.zeros(0), np.empty((queries, 2))
    ranking = np.zeros(LENGTH, np.int64)
    for t in range(world.query.size):
        if t == 0 or (world.drift and move(attraction, t, world.query.size, world_rng)):
            worth_of_others(attraction, world.attention, others)
        q = world.query[t]
        if kind == BUBBLES:
            one = BubbleRank(wins[q], base[q], listed[q : q + 1], 4.0 * np.log(world.query.size))
            visit = Visit(int(visits[q]) + 1, -1, features)
            one.rank(visit, allowed, shown, note, mind)
            count_worth(attraction[q], shown, world.attention, others[q], result[q])
            visits[q] += 1.0
            examined = click(attraction[q], shown, world.attention, -1, clicks, world_rng)
            one.update(visit, shown, note, clicks, examined)
            continue
        for i in range(ITEMS):
            n, w = looks[q, i], clicked[q, i]
            if kind == ALONE:
                index[i] = mind.beta(1.0 + w, 1.0 + n - w)
            else:
                c, mean = (30.0 if kind == BY_PLACE else 15.0), place_clicks[i] / place_looks[i]
                a, b = c * mean + w, c * (1.0 - mean) + n - w
                draws = 1.0 if kind == BY_PLACE else min(1.0, visits[q] / 100.0)
                index[i] = a / (a + b) + draws * (mind.beta(a, b) - a / (a + b)) - 1e-9 * i
        largest(index, ranking)
        count_worth(attraction[q], ranking, world.attention, others[q], result[q])
        visits[q] += 1.0
        for p in range(click(attraction[q], ranking, world.attention, -1, clicks, world_rng)):
            i = ranking[p]
            looks[q, i] += 1.0
            clicked[q, i] += clicks[p]
            place_looks[i] += 1.0
            place_clicks[i] += clicks[p]


def run(world, who, seed, attention=None):
    """Worth of the lists by query, [query, 4], and the numbers of honest and false visits not learnt from."""
    if who == OURS:
        return run_ours(world, seed, attention)[:2]
    result = np.zeros((world.attraction.shape[0], 4))
    kind = (*RIVALS, BUBBLE_RANK).index(who)
    play_rival(world, kind, np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2]), result)
    return result, np.zeros(2)


def run_ours(world, seed, attention=None, memory=300.0):
    """As `run`; also returns the ranker, and how often items were shown and clicked."""
    queries = world.attraction.shape[0]
    result, refused, plain = np.zeros((queries, 4)), np.zeros(2), np.zeros((queries, ITEMS, 2))
    ranker = ReRanker.create(Problem(PLACES, LENGTH, seed=seed), attention=attention, memory=memory)
    slots = slots_for(queries, 1), slots_for(queries * ITEMS, 1)
    ranker = ranker._replace(queries=QueryTable.create(slots[0]), pairs=PairTable.create(slots[1]))
    guard = make(ClientTrust, Problem(PLACES, LENGTH, world.query.size, seed=seed), settings={})
    play(world, ranker, guard, np.random.default_rng([seed, 1]), result, refused, plain)
    return result, refused, ranker, plain


def spearman(first, second):
    """Spearman's rank correlation; ties get their mean rank."""
    return np.corrcoef(stats.rankdata(first), stats.rankdata(second))[0, 1]


def in_pairs(rate, truth):
    """The share of pairs in which the more attractive item has the higher rate, ties as half."""
    i, j = np.triu_indices(len(rate), 1)
    agree = np.sign(rate[i] - rate[j]) * np.sign(truth[i] - truth[j])
    return (0.5 + 0.5 * agree).mean()


def judged(worlds, seeds):
    """Print how well judgments and plain rates order items, clean and with false visits."""
    for world, given in [(one, given) for one in worlds for given in (False, True)[: 1 + one.places]]:
        for share in (0.0, 0.1):
            rows = []
            for seed in range(seeds):
                drawn = traffic(world, seed)
                mixed = attacked(drawn, seed, share, busiest=True) if share else drawn
                attention = drawn.attention if given else None
                result, _, ranker, plain = run_ours(mixed, seed, attention=attention)
                for q in np.flatnonzero(result[:, 3] > HEAD):
                    seen = np.flatnonzero(plain[q, :, 0])
                    row = find_row(ranker.queries.ids, int(q) + 1)
                    rate = np.array([estimate(ranker, row, int(i) + 1, ranker.prior.mean[i])[0] for i in seen])
                    plainly, truth = plain[q, seen, 1] / plain[q, seen, 0], drawn.attraction[q, seen]
                    never = plainly == 0.0
                    unclicked = in_pairs(rate[never], truth[never]) if never.sum() > 1 else np.nan
                    both = [measure(one, truth) for measure in (spearman, in_pairs) for one in (rate, plainly)]
                    rows.append([*both, unclicked])
            words = ", attention given" if given else ""
            correlation, plain_one, pairs, plain_pairs, unclicked = np.nanmean(rows, 0)
            print(f"{world}{words}, {share:.0%} false: judgments {correlation:.3f}, plain {plain_one:.3f};", end=" ")
            print(f"in order {pairs:.3f}, plain {plain_pairs:.3f}, never clicked {unclicked:.3f}", flush=True)


def faded(worlds, seeds):
    """Print the worth of lists by the setting `memory`: all, head, tail."""
    for world in worlds:
        for memory in (64.0, 300.0, 1e9):
            results = [run_ours(traffic(world, seed), seed, memory=memory)[0] for seed in range(seeds)]
            worth_of = " / ".join(f"{share:.4f}" for share in np.mean([shares(one) for one in results], 0))
            print(f"{world}, memory {memory:g}: {worth_of}", flush=True)


def read_naver(folder):
    """Lists as (query, items, clicks, session) in order of time, and grades by query and item."""
    lists, last, grades = [], collections.defaultdict(list), {}
    with gzip.open(folder / "naver_clara2_relevance.tsv.gz", "rt") as file:
        next(file)
        for line in file:
            query, item, grade = line.split()
            grades[query, item] = int(grade)
    with gzip.open(folder / "naver_clara2_search_log.tsv.gz", "rt") as file:
        for line in file:
            session, time, kind, *rest = line.rstrip("\n").split("\t")
            if kind == "Q":
                lists.append((float(time), rest[0], list(dict.fromkeys(rest[2:])), set(), session))
                last[session].append(lists[-1])
            else:
                shown = next((one for one in reversed(last[session]) if rest[0] in one[2]), None)
                if shown is not None:
                    shown[3].add(rest[0])
    lists.sort(key=lambda one: one[0])
    return [
        (query, items, [int(item in clicked) for item in items], s) for _, query, items, clicked, s in lists
    ], grades


def with_false_lists(lists, seed, share, clients=30, queries=200):
    """Insert lists of bots, each the list of some visit to one of the busiest queries."""
    rng = np.random.default_rng([seed, 5])
    busiest = [query for query, _ in collections.Counter(one[0] for one in lists).most_common(queries)]
    first = {}
    for query, items, _, _ in lists:
        first.setdefault(query, items)
    mixed = list(lists)
    for _ in range(int(len(lists) * share / (1.0 - share))):
        query = busiest[int(rng.integers(queries))]
        items = first[query]
        false = (query, items, [0] * (len(items) - 1) + [1], f"bot {int(rng.integers(clients))}")
        mixed.insert(int(rng.integers(len(mixed))), false)
    return mixed


def in_order(rates, grades):
    """By query: the number of pairs of documents with different grades and rates in order, and of all such pairs."""
    by_query = collections.defaultdict(list)
    for (query, item), grade in grades.items():
        by_query[query].append((grade, rates[query, item]))
    counts = {}
    for query, grades_and_rates in by_query.items():
        pairs = [(a, b) for a, b in itertools.combinations(sorted(grades_and_rates, reverse=True), 2) if a[0] > b[0]]
        if pairs:
            counts[query] = sum(1.0 if a[1] > b[1] else 0.5 if a[1] == b[1] else 0.0 for a, b in pairs), len(pairs)
    return counts


def rates_of(lists):
    """Rates by query and document: of judgments, of plain clicks over times shown, and the higher the place."""
    made, shown, clicked, places = (
        sr.Collection(LENGTH, fold=False, keep_queries=True),
        *map(collections.Counter, "   "),
    )
    for query, items, bits, session in lists:
        made.observe(query, items[:LENGTH], clicks=bits[:LENGTH], client=session)
        for place, (item, bit) in enumerate(zip(items, bits, strict=True)):
            shown[query, item] += 1
            clicked[query, item] += bit
            places[query, item] -= place
    plain = {pair: clicked[pair] / times for pair, times in shown.items()}
    engine = {pair: places[pair] / times for pair, times in shown.items()}
    return {
        "judgments": {(one.query, one.item): one.rate for one in made.judgments()},
        "plain": plain,
        "place": engine,
    }


def graded(folder, seeds):
    """Print how often judgments of the NAVER log, plain rates and places order documents as their grades do."""
    lists, grades = read_naver(folder)
    pairs = {(query, item) for query, items, _, _ in lists for item in items}
    graded_pairs = {pair: grade for pair, grade in grades.items() if pair in pairs}
    print(f"{len(lists):,} lists, {len(pairs):,} documents of queries shown, {len(graded_pairs):,} graded")
    for share in (0.0, 0.1):
        sums = collections.defaultdict(lambda: collections.defaultdict(lambda: np.zeros(2)))
        for seed in range(seeds if share else 1):
            rates = rates_of(with_false_lists(lists, seed, share) if share else lists)
            judged_too = {pair: grade for pair, grade in graded_pairs.items() if pair in rates["judgments"]}
            for name, of in rates.items():
                for query, counts in in_order(of, judged_too).items():
                    sums[name][query] += counts
        table = {name: np.array(list(of.values())) for name, of in sums.items()}
        n = len(table["plain"])
        chosen = np.random.default_rng(0).integers(0, n, (2_000, n))
        for name, counts in table.items():
            drawn = counts[chosen].sum(1)
            low, high = np.percentile(drawn[:, 0] / drawn[:, 1], [2.5, 97.5])
            right, of = counts.sum(0)
            print(f"{share:.0%} false: {name} {right / of:.3f} ({low:.3f} to {high:.3f}), {n} queries", flush=True)


def shares(result):
    """Worth over that of the best lists: all, head, tail."""
    visits = result[:, 3]
    parts = visits >= 0, visits > HEAD, visits <= TAIL
    return [result[part, 0].sum() / result[part, 2].sum() if part.any() else np.nan for part in parts]


def deciles(result):
    """Worth over the engine's of each tenth of the queries, those with the least traffic first; and of the tail."""
    order = np.argsort(result[:, 3], kind="stable")
    tenths = [result[part, 0].sum() / result[part, 1].sum() for part in np.array_split(order, 10)]
    tail = result[:, 3] <= TAIL
    return [*tenths, result[tail, 0].sum() / result[tail, 1].sum()]


def mean_of_seeds(each):
    """Means over seeds, the first axis, and how far their 95 % intervals reach to either side."""
    return np.mean(each, 0), stats.t.ppf(0.975, len(each) - 1) * stats.sem(each)


def read_kept(kept):
    """Results of earlier runs by job, from a file that may not exist."""
    found = {}
    with contextlib.suppress(FileNotFoundError, EOFError), kept.open("rb") as file:
        while True:
            job, result = pickle.load(file)
            found[job] = result
    return found


def on_all_cores(function, worlds, seeds, kept, cores):
    """Run a function for each seed of each world in parallel; returns lists by world.

    All worlds of a seed run before the next seed. Processes inherit code compiled with a small world. `kept`: a file
    for results, or None; `cores`: number of processes, None for all cores.
    """
    jobs = [(world, seed) for seed in range(seeds) for world in worlds]
    found = read_kept(kept) if kept else {}
    missing = [job for job in jobs if (function.__name__, *job) not in found]
    if missing:
        function((TRIED, 0))
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(cores, mp_context=context) as pool:
        for job, result in zip(missing, pool.map(function, missing), strict=True):
            found[function.__name__, *job] = result
            if kept:
                with kept.open("ab") as file:
                    pickle.dump(((function.__name__, *job), result), file)
    return {world: [found[function.__name__, world, seed] for seed in range(seeds)] for world in worlds}


def worth_in(job):
    """By ranker: shares, deciles and the tail, for one seed of a world."""
    world, seed = job
    drawn, rows = traffic(world, seed), {}
    for name in (OURS, *([TOLD] if world.places else []), BUBBLE_RANK, *RIVALS):
        attention = drawn.attention if name == TOLD else None
        rows[name] = run(drawn, OURS if name == TOLD else name, seed, attention=attention)[0]
    rows["engine"] = rows[OURS][:, [1, 1, 2, 3]]
    return {name: [*shares(result), *deciles(result)] for name, result in rows.items()}


def honest(worlds, seeds, kept, cores):
    """Print the worth of lists, and the gain over the cautious ones and the engine's, by world and ranker."""
    by_world = {
        str(world): {name: np.array([one[name] for one in made]) for name in made[0]}
        for world, made in on_all_cores(worth_in, worlds, seeds, kept, cores).items()
    }
    table, widest = {}, 0.0
    print("\n| world | engine | `BubbleRank` | a learner a query | by place, 30 looks | cautious | `Collection` |")
    print("|---|---|---|---|---|---|---|")
    for world, rows in by_world.items():
        table[world] = {}
        for name, each in rows.items():
            mean, reach = mean_of_seeds(each)
            table[world][name] = {"mean": mean.tolist(), "reach": reach.tolist(), "least": each.min(0).tolist()}
            widest = max(widest, *reach[:3])
        cells = [" / ".join(f"{one:.3f}" for one in table[world][name]["mean"][:3]) for name in COLUMNS]
        same = np.allclose(rows["engine"], rows[BUBBLE_RANK], 1e-9)
        cells[1] = "as the engine" if same else cells[1]
        print("|", " | ".join([world, *cells[:5]]), f"| **{cells[5]}** |")
        if TOLD in rows:
            print(f"({TOLD}: {' / '.join(f'{one:.3f}' for one in table[world][TOLD]['mean'][:3])})")
    print(f"95 % intervals reach at most {widest:.4f} to either side")
    print("\n| world | more than cautious: all | more than 200 visits | at most 20 |\n|---|---|---|---|")
    for world, rows in by_world.items():
        mean, reach = mean_of_seeds(rows[OURS][:, :3] - rows[RIVALS[2]][:, :3])
        print("|", " | ".join([world, *(f"{m:+.4f} ± {r:.4f}" for m, r in zip(mean, reach, strict=True))]), "|")
    tenths = " | ".join(map(str, range(1, 11)))
    print(f"\n| world | {tenths} | at most 20 visits | least lower end | least of a run |\n|{'---|' * 14}")
    for world in table:
        row = {name: np.array(of[3:]) for name, of in table[world][OURS].items()}
        ends = (row["mean"] - row["reach"]).min(), row["least"][:10].min()
        print("|", " | ".join([world, *(f"{one:.3f}" for one in (*row["mean"], *ends))]), "|")
    return table


def fresh_names(honest, seed, queries, share=0.15):
    """The same visits without names, and from half time on a share of false ones for each of these queries.

    They click the least attractive of the ten items that were shown most in the previous quarter.
    """
    rng, n = np.random.default_rng([seed, 9]), honest.query.size
    unnamed = honest._replace(client=np.full(n, -1))
    early, half = (
        run_ours(
            unnamed._replace(**{name: getattr(unnamed, name)[:k] for name in ("query", "client", "target")}), seed
        )
        for k in (n * 3 // 8, n // 2)
    )
    shown, item = half[3][:, :, 0] - early[3][:, :, 0], np.full(honest.attraction.shape[0], -1)
    for q in queries:
        on = np.argsort(-shown[q])[:LENGTH]
        item[q] = on[np.argmin(honest.attraction[q, on])]
    late = np.flatnonzero(np.isin(honest.query, queries) & (np.arange(n) > n // 2))
    at = np.sort(rng.choice(late, int(late.size * share / (1.0 - share))))
    query, client = np.insert(honest.query, at, honest.query[at]), np.insert(unnamed.client, at, -1)
    target = np.insert(honest.target, at, item[honest.query[at]])
    return unnamed, unnamed._replace(query=query, client=client, target=target), item


def surged(worlds, seeds):
    """Print surges and alarms of honest runs, and how often and how soon attacks with new names are noticed."""
    for world in worlds:
        rankers = [run_ours(traffic(world, seed), seed)[2] for seed in range(seeds)]
        print(f"{world}: honest surges {[int(one.surges.total[0]) for one in rankers]}", flush=True)
    some = [0], [9], list(range(50))
    for world, queries in itertools.product((worlds[0], worlds[2]), some):
        noticed_in, others, alarms, took, lost = [], 0, [], [], []
        for seed in range(seeds):
            honest, mixed, item = fresh_names(traffic(world, seed), seed, queries)
            before, (after, _, ranker, _) = run_ours(honest, seed)[0], run_ours(mixed, seed)
            noticed = ranker.surges.what[ranker.surges.rows()]
            own = item[noticed[:, QUERY_ID] - 1] == noticed[:, ITEM] - 1
            others += int((~own).sum())
            alarms.append(np.unique(noticed[own, ALARM]).size)
            noticed_in.append(np.unique(noticed[own, QUERY_ID]).size / len(queries))
            for q in np.unique(noticed[own, QUERY_ID]) - 1:
                first = noticed[own & (noticed[:, QUERY_ID] == q + 1), NOTICED].min()
                took.append(int(((mixed.target >= 0) & (mixed.query == q))[:first].sum()))
            lost.append(1.0 - after[queries, 0].sum() / before[queries, 0].sum())
        print(
            f"{world}, 15 % false in {len(queries)} queries from the {queries[0] + 1}. on: found "
            f"{np.mean(noticed_in):.0%}, alarms {alarms}, other surges {others}, after "
            f"{np.median(took or [np.nan]):.0f} false visits (median), lost there {np.mean(lost):.2%}",
            flush=True,
        )


def lost_in(job):
    """By attack, for one seed of a world: the loss, the visits not learnt from, and deciles."""
    world, seed = job
    drawn, rows = traffic(world, seed), {}
    alone = run(drawn, OURS, seed)[0]
    for busiest, fresh in itertools.product((False, True), (False, True)):
        mixed = attacked(drawn, seed, busiest=busiest, fresh=fresh)
        after, refused = run(mixed, OURS, seed)
        lost = 1.0 - after[:, 0].sum() / alone[:, 0].sum()
        kept_out = refused / [(mixed.target < 0).sum(), (mixed.target >= 0).sum()]
        rows["the busiest" if busiest else "any", fresh] = [lost, *kept_out, *deciles(after)[:10]]
    return rows


def under_attack(worlds, seeds, kept, cores):
    """Print honest worth lost to false visits, and the least honest decile of the engine's; by world and attack."""
    by_world, table = on_all_cores(lost_in, worlds, seeds, kept, cores), []
    heads = "lost, a fresh name a visit", "least tenth", "lost, 100 clients", "least tenth"
    print(f"\n| world | queries attacked | {' | '.join(heads)} | honest visits not learnt from |\n|{'---|' * 7}")
    for world, made in by_world.items():
        for queries in ("any", "the busiest"):
            cells = [str(world), queries]
            for fresh in (True, False):
                each = np.array([one[queries, fresh] for one in made])
                mean, reach = mean_of_seeds(each)
                cells += [f"{mean[0]:.2%} ± {reach[0]:.2%}".replace("%", " %").replace(" % ±", " ±")]
                cells += [f"{mean[3:].min():.3f} ({each[:, 3:].min():.3f})"]
                cells += [] if fresh else [f"{mean[1]:.2%}".replace("%", " %")]
                row = {"world": str(world), "queries": queries, "fresh": fresh, "lost": mean[0]}
                row |= {"reach": reach[0], "most_lost": each[:, 0].max(), "refused": mean[1:3].tolist()}
                table.append({**row, "least": mean[3:].min(), "least_of_a_seed": each[:, 3:].min()})
            print("|", " | ".join(cells), "|", flush=True)
    return table


@kernel
def fill(ranker, queries, items):
    """Add one look at each item of each query; `items`, [each]: ids, shifted for each query."""
    for q in range(queries.size):
        row, each = find_or_add_row(ranker.queries.ids, queries[q]), items.size // 2
        for i in range(each):
            item = items[(q * 7) % each + i]
            ranker.pairs.looks[find_or_add(ranker.pairs, row, item, i)] += 1.0


def percentiles(call, n=3_000):
    """Seconds of a call: median and 99th percentile."""
    times = []
    for i in range(n):
        begin = time.perf_counter()
        call(i)
        times.append(time.perf_counter() - begin)
    return np.percentile(times[n // 10 :], [50, 99])


def scale(pairs, each=100):
    """Print bytes per pair in memory and on disk, seconds to save and to load, and the time of a list."""
    queries, docs = pairs // each, [f"d{k}" for k in range(100_000)]
    collection = sr.Collection(LENGTH, most_pairs=4 * pairs)
    state, keys = collection._state, collection._keys
    for item, id in zip(docs, keys.items(docs).tolist(), strict=True):
        state.item_names.add(id, item)
    tables = QueryTable.create(slots_for(queries, 1)), PairTable.create(slots_for(pairs, 1))
    state.learner = state.learner._replace(queries=tables[0], pairs=tables[1])
    ids = np.array([keys.query(f"query {n}")[0] for n in range(queries)], np.int64)
    fill(state.learner, ids, keys.items(docs[: 2 * each]))
    in_memory = sum(array.nbytes for array in state.learner.pairs) + sum(x.nbytes for x in state.learner.queries[1:])
    in_memory += sum(array.nbytes for array in state.learner.queries.ids) + state.item_names.nbytes
    with tempfile.TemporaryDirectory() as folder:
        path, begin = pathlib.Path(folder) / "collection", time.perf_counter()
        collection.save(path)
        saved = time.perf_counter()
        collection = sr.Collection.load(path)
        loaded, size = time.perf_counter(), path.stat().st_size
    print(f"{queries:,} queries, {pairs:,} pairs: {in_memory / pairs:.0f} bytes a pair in memory,", end=" ")
    print(f"{size / pairs:.1f} on disk; saved in {saved - begin:.1f} s, loaded in {loaded - saved:.1f} s")
    ranker = sr.Ranker(docs[:ITEMS], LENGTH, guard="ClientTrust")
    ours = percentiles(lambda i: collection.rank(f"query {i * 7_919 % queries}", docs[i : i + ITEMS], client=i))
    theirs = percentiles(lambda i: ranker.rank(docs[:ITEMS], client=i))
    print("a list over that of a ranker with as many candidates: median {:.2f}, 99 % {:.2f}".format(*(ours / theirs)))
    state, board = collection._state, argparse.Namespace(learner_state=collection._state)
    table = state.learner.pairs
    stalls = {
        "a copy for judgments": state.copied,
        "a copy for the dashboard": lambda: copy_busiest(board, 50),
        "a copy for a snapshot": state.arrays,
        "the table twice as large": lambda: PairTable.of(table._asdict(), 2 * table.item.size),
        "a third of the queries left out": lambda: state._tables_of(
            most_visited(state.learner.queries, table, pairs * 2 // 3)
        ),
    }
    print("ms of processor time, the second time, in which no event is applied:", end=" ")
    for name, call in stalls.items():
        if "left out" not in name:
            call()
        begin = time.thread_time()
        call()
        print(f"{name} {1e3 * (time.thread_time() - begin):.0f}", end="; ", flush=True)
    print()


def served(pairs, each=10, rows=2_000):
    """Print times of a service that learns from half as many pairs more than it remembers, and of its restart."""
    docs, times, ended = [f"d{k}" for k in range(100_000)], [], threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        server = Service(pathlib.Path(folder), 1_000)
        server.start()
        ask, lists = Connection(server.port), Connection(server.port)
        ask("PUT", "/v1/collections/shop", {"length": each, "most_pairs": pairs})
        ask("PUT", "/v1/boards/front", {"items": docs[:ITEMS], "length": each})

        def rank():
            while not ended.is_set():
                for path, query in (("collections/shop", {"query": "query 0"}), ("boards/front", {})):
                    begin = time.perf_counter()
                    lists("POST", f"/v1/{path}/rank", {"candidates": docs[:ITEMS], **query})
                    times.append(time.perf_counter() - begin)
                time.sleep(0.005)

        ranking = threading.Thread(target=rank, daemon=True)
        ranking.start()
        begin = time.perf_counter()
        for first in range(0, pairs * 3 // 2 // each, rows):
            items = [docs[n * 7 % 90_000 : n * 7 % 90_000 + each] for n in range(first, first + rows)]
            past = [{"query": f"query {first + k}", "items": some, "clicked": None} for k, some in enumerate(items)]
            ask("POST", "/v1/collections/shop/history", {"rows": past})
        learnt = time.perf_counter() - begin
        ended.set()
        ranking.join()
        resident, took = server.resident(), server.end(signal.SIGTERM)
        begin = time.perf_counter()
        server.start()
        ask = Connection(server.port)
        ask("POST", "/v1/collections/shop/rank", {"query": "query 0", "candidates": docs[:ITEMS]})
        first_list, worked = time.perf_counter() - begin, server.worked()
        shop = ask("GET", "/v1/collections/shop", {})
        server.end(signal.SIGTERM)
    kept = shop["pairs"]
    print(f"{kept:,} of {pairs * 3 // 2:,} pairs stay; {resident / 1e6:.0f} MB in all;", end=" ")
    print(f"learnt in {learnt:.0f} s, end {took:.1f} s, from the start to the first list", end=" ")
    print(f"{first_list:.1f} s, {worked:.1f} s of processor time")
    for name, own in (("collection", times[::2]), ("board", times[1::2])):
        cuts = " / ".join(f"{1e3 * cut:.1f}" for cut in np.percentile(own, [50, 99, 100]))
        print(f"ms of {len(own):,} lists of the {name} meanwhile, median / 99 % / longest: {cuts}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--attack", action="store_true", help="false visits, in place of the table of rivals")
    parser.add_argument("--json", type=pathlib.Path, help="write what was measured to this file")
    parser.add_argument("--kept", type=pathlib.Path, help="a file of what is done, for a run that may be interrupted")
    parser.add_argument("--cores", type=int, help="as many processes; by default one a core")
    parser.add_argument("--judgments", action="store_true", help="how well they agree with the truth, in its place")
    parser.add_argument("--memory", action="store_true", help="worth by the setting memory, in its place")
    parser.add_argument("--naver", type=pathlib.Path, metavar="FOLDER", help="judgments of that log, in its place")
    parser.add_argument("--surges", action="store_true", help="alarms, without an attack and under it, in its place")
    parser.add_argument("--scale", type=int, metavar="PAIRS", help="what so many pairs take, in place of all else")
    parser.add_argument("--served", type=int, metavar="PAIRS", help="a service that may remember so many, likewise")
    options = parser.parse_args()
    if options.served:
        served(options.served)
        raise SystemExit
    if options.scale:
        scale(options.scale)
        raise SystemExit
    if options.surges:
        surged(WORLDS, options.seeds)
        raise SystemExit
    if options.memory:
        busy = World(100, 2_000, 0.6), World(100, 2_000, 0.6, drift=True)
        faded((WORLDS[0], WORLDS[5], *busy), options.seeds)
        raise SystemExit
    if options.naver:
        graded(options.naver, options.seeds)
        raise SystemExit
    if options.judgments:
        judged((WORLDS[0], WORLDS[2], WORLDS[4]), options.seeds)
        raise SystemExit
    how = WORLDS, options.seeds, options.kept, options.cores
    made = under_attack(*how) if options.attack else honest(*how)
    if options.json:
        options.json.write_text(json.dumps(made, indent=1, default=float))
