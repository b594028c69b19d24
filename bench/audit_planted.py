"""Attacks planted in logs row by row, and honest logs that change: what the audit finds, and what baselines find.

`python bench/audit.py --planted` runs it. Logs are those of `planted_logs`; if the Open Bandit samples are available
(`STEADYRANK_TABLES`, obd/), attacks are planted in them as well, and in bootstrap samples of their rows.
"""

import collections
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import audit_baselines
import numpy as np
from measures import overlap
from planted_logs import DAY, START, Log, World, attacked, honest, joined, open_bandit, resampled, targets_of, world

import steadyrank as sr

N = 20_000
KINDS = ("promote", "demote", "silent", "top", "flip")
OBD = pathlib.Path(os.environ.get("STEADYRANK_TABLES", pathlib.Path(__file__).parents[2] / "shared" / "data"), "obd")
OVERLAP = 0.8


class Outcome(NamedTuple):
    """The result for one log."""

    group: str
    name: str
    overlap: float  # Jaccard index of reported and false rows, for intervals alone
    blamed: bool  # whether any interval was called suspect
    bots: float  # share of bots named
    honest_named: int
    honest: int
    items: bool  # whether the attack's items were named
    others: dict[str, tuple[float, int]]  # baselines: share of bots named, or overlap; honest clients named, or blame


def judge(group: str, name: str, log: Log, targets: set[int]) -> Outcome:
    """Audit a log and compare the result with the truth."""
    found = sr.audit(log.frame())
    flags = np.zeros(log.time.size, np.bool_)
    for part in found.intervals:
        flags[part.start_row : part.end_row] = True
    named = {one.client for one in found.clients}
    bots = set(np.unique(log.client[log.false]).tolist())
    everybody = set(np.unique(log.client).tolist())
    told = {item["item"] for board in found.boards for item in board.client_items}
    told |= {item["item"] for part in found.intervals for item in part.items}
    return Outcome(
        group, name, overlap(flags, log.false), bool(found.intervals),
        len(named & bots) / max(len(bots), 1), len(named - bots), len(everybody - bots),
        bool(targets) and targets <= told, _others(log, bots),
    )  # fmt: skip


def _others(log: Log, bots: set[int]) -> dict[str, tuple[float, int]]:
    """The results of the baselines."""
    flags = audit_baselines.cusum(log)
    found: dict[str, tuple[float, int]] = {"CUSUM": (float(overlap(flags, log.false) >= OVERLAP), int(flags.any()))}
    for name, named in (("rate limit", audit_baselines.rate_limit(log)), ("forest", audit_baselines.forest(log))):
        if named is not None:
            found[name] = len(named & bots) / max(len(bots), 1), len(named - bots)
    return found


def _changed(one: Log, two: Log, which: Callable[[Log], Any]) -> Log:
    """Replace rows of `one` by those of `two` where `which` says so."""
    return joined(one.chosen(~which(one)), two.chosen(which(two)))


def honest_changes(place: World, rng: np.random.Generator) -> Iterator[tuple[str, Log]]:
    """Honest logs in which behaviour changes, with names."""
    day, late = (lambda log: (log.time - START) // DAY == 8), (lambda log: (log.time - START) / DAY >= 8)
    for factor in (0.75, 0.6, 1.5):
        yield (
            f"weekends x {factor}",
            honest(place, N, rng, level=lambda t, f=factor: np.where((t - START) // DAY % 7 >= 5, f, 1.0)),
        )
    base = honest(place, N, rng)
    like = {name: getattr(place, name) for name in ("length", "attention", "clients", "differ")}
    yield "another ranker for a day", _changed(base, honest(World(place.attraction, **like, noise=6.0), N, rng), day)
    shorter = World(place.attraction, **{**like, "length": 5})
    yield "lists of 5 from then on", _changed(base, honest(shorter, N, rng), late)
    steeper = World(place.attraction, **{**like, "attention": 1.2})
    yield "another layout from then on", _changed(base, honest(steeper, N, rng), late)
    order = np.argsort(place.attraction)
    for name, items in (("a few", order[-8:-5]), ("rare", order[: len(order) // 2][-2:])):

        def boost(t: Any, items: Any = items) -> Any:
            points = np.zeros((t.size, place.attraction.size))
            points[np.ix_((t - START) // DAY == 8, items)] = 0.15
            return points

        yield f"promotion of {name} items for a day, 15 points", honest(place, N, rng, boost=boost)
    fresh = np.argsort(rng.random(place.attraction.size))[:8]
    hidden = place.attraction.copy()
    hidden[fresh] = 1e-9
    old = honest(World(hidden, **like), N, rng)
    yield "eight new items from then on", _changed(old, base, late)


def logs(seed: int) -> Iterator[tuple[str, str, Log, set[int]]]:
    """All logs of a seed: group, name, log, and the items of its attack."""
    rng = np.random.default_rng([27, seed])
    place = world(rng, mean=float(rng.choice([0.05, 0.12, 0.25])), differ=float(rng.choice([2.0, 6.0, 50.0])))
    base = honest(place, N, rng)
    for kind in KINDS:
        targets = _targets(base, kind)
        for share in (0.01, 0.03):
            log = attacked(base, kind, int(share * N), rng)
            yield f"burst {share:.0%}", kind, log, targets
        yield "even 5%", kind, attacked(base, kind, N // 20, rng, spread="even", bots=10), targets
        yield "ramp 5%", kind, attacked(base, kind, N // 20, rng, spread="ramp", bots=10), targets
    for name, log in honest_changes(place, rng):
        yield "honest", name, log, set()
    shuffled = base.chosen(rng.permutation(base.time.size))
    shuffled.time = base.time
    yield "shuffled", "rows", shuffled, set()
    for path in sorted(OBD.glob("*.csv")) if OBD.is_dir() else ():
        real = open_bandit(path, 300, rng)
        yield "honest", f"open bandit {path.stem}", real, set()
        again = resampled(real, 2 * N, rng)
        yield "shuffled", f"drawn again {path.stem}", again.chosen(np.argsort(again.time)), set()
        for name, log in (("open bandit", real), ("drawn again", again)):
            for kind in ("promote", "top"):
                m = log.time.size // 100
                yield f"burst 1%, {name}", kind, attacked(log, kind, m, rng), _targets(log, kind)
            yield (
                f"even 5%, {name}",
                "promote",
                attacked(log, "promote", log.time.size // 20, rng, spread="even", bots=10),
                _targets(log, "promote"),
            )


def _targets(log: Log, kind: str) -> set[int]:
    """The target items of an attack, as `attacked` chooses them, if it has any."""
    return set(targets_of(log, kind)) if kind in ("promote", "demote") else set()


def _print_others(groups: dict[str, list[Outcome]]) -> None:
    """Print a line for each baseline and group."""
    names = list(next(iter(groups.values()))[0].others)
    if "forest" not in names:
        print("isolation forest: left out, scikit-learn is not installed")
    for group, found in groups.items():
        for name in names:
            hits, wrong = np.mean([o.others[name][0] for o in found]), [o.others[name][1] for o in found]
            if group in ("honest", "shuffled"):
                what = (
                    f"blames {sum(wrong)} of {len(found)} logs" if name == "CUSUM" else f"names {sum(wrong)} clients"
                )
            else:
                what = f"finds {hits:.0%}" + (
                    "" if name == "CUSUM" else f" of the bots, and {sum(wrong)} honest clients"
                )
            print(f"    {group}, {name}: {what}")


def run(seeds: int, first: int = 0) -> None:
    """Run the bench and print its tables."""
    groups: dict[str, list[Outcome]] = collections.defaultdict(list)
    for seed in range(first, first + seeds):
        for group, name, log, targets in logs(seed):
            outcome = judge(group, name, log, targets)
            groups[group].append(outcome)
            if group in ("honest", "shuffled") and (outcome.blamed or outcome.honest_named):
                print(f"  seed {seed}, {name}: blamed {outcome.blamed}, {outcome.honest_named} clients", flush=True)
    for group, found in groups.items():
        by_kind: dict[str, list[Outcome]] = collections.defaultdict(list)
        for one in found:
            by_kind[one.name].append(one)
        if group in ("honest", "shuffled"):
            print(f"{group}: clicks blamed in {sum(o.blamed for o in found)} of {len(found)} logs")
        else:
            hits = sum(o.overlap >= OVERLAP for o in found)
            named = np.mean([o.bots for o in found])
            aimed = [o for o in found if o.name in ("promote", "demote")]
            items = sum(o.items for o in aimed)
            print(
                f"{group}: intervals {hits} of {len(found)} with overlap {OVERLAP}; bots named {named:.0%}; "
                f"items named in {items} of {len(aimed)}"
            )
            for kind, some in by_kind.items():
                hits = sum(o.overlap >= OVERLAP for o in some)
                print(f"    {kind}: intervals {hits} of {len(some)}, bots {np.mean([o.bots for o in some]):.0%}")
    _print_others(groups)
    every = [o for found in groups.values() for o in found]
    wrong, people = sum(o.honest_named for o in every), sum(o.honest for o in every)
    print(f"honest clients named: {wrong} of {people} ({1000 * wrong / max(people, 1):.2f} in 1,000)")
