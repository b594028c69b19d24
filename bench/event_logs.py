"""Logs of events (client, item, time) for benches of the audit of counts: honest months, and bursts planted in them.

Nothing here comes from the library's simulator. Item frequencies have a heavy tail, some items are popular at night
and some by day, and all drift. There is a daily and a weekly rhythm. Releases and news raise single items suddenly,
to 1 to 25 % of all events, and fade; most who come for news come for nothing else. An item on a front page rises and
falls suddenly. Clients differ in activity by factors of a hundred, have items that they fetch again and again, and
sometimes retry immediately.
"""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

DAY = 86_400.0
START = 1_793_491_200.0  # 2026-11-01
STEP = 1_800.0  # seconds over which rates are constant
DAYS = 30
BOTS, NEWCOMERS = 1_000_000, 2_000_000  # first client numbers of each
Array = npt.NDArray[Any]


@dataclasses.dataclass
class Events:
    """Events in order of time."""

    item: Array
    client: Array
    time: Array
    false: Array
    target: int = -1  # target item of the attack

    def frame(self, clients: bool = True) -> pl.DataFrame:
        """The log as users of the audit would have it."""
        when = pl.Series("timestamp", (self.time * 1e6).astype(np.int64)).cast(pl.Datetime("us"))
        names = pl.DataFrame([when, pl.Series("package", self.item)])
        return names.with_columns(pl.Series("ip", self.client)) if clients else names

    def chosen(self, which: Array) -> "Events":
        parts = (getattr(self, name)[which] for name in ("item", "client", "time", "false"))
        return Events(*parts, self.target)


def month(
    rng: np.random.Generator, n: int = 30_000, items: int = 1_000, clients: int = 4_000, featured: bool = True
) -> Events:
    """About n honest events in 30 days. `featured`: whether one item is on a front page for some hours."""
    steps = int(DAYS * DAY / STEP)
    hours = np.arange(steps) * STEP / 3_600.0
    level = 1.0 + 0.6 * np.sin(2 * np.pi * (hours - 9.0) / 24.0)
    level *= np.where(hours // 24 % 7 >= 5, rng.uniform(0.5, 1.1), 1.0)
    share = (1.0 + np.arange(items)) ** -rng.uniform(0.8, 1.2) * rng.lognormal(0.0, 0.5, items)
    share /= share.sum()
    night = rng.normal(0.0, 0.25, items) * (rng.random(items) < 0.4)
    drift = np.cumsum(rng.normal(0.0, 0.1 * np.sqrt(STEP / DAY), (steps, items)), axis=0)
    weight = share * np.exp(drift + night * np.sin(2 * np.pi * hours / 24.0)[:, None])
    came = np.zeros((steps, items))  # share of clients who came for nothing else
    for kind in ("release", "release", "release", "release", "news", "news", *(["front page"] if featured else [])):
        k = int(rng.choice(items, p=share**0.5 / (share**0.5).sum()))
        begin, peak = int(rng.integers(steps)), 10.0 ** rng.uniform(-2.0, -0.6)  # of all events: 1 to 25 %
        fade = {"release": rng.uniform(24.0, 96.0), "news": rng.uniform(3.0, 24.0)}.get(kind, 1e9)
        more = peak * np.exp(-(hours - hours[begin]) / fade)
        more[:begin] = 0.0
        if kind == "front page":
            more[begin + int(rng.uniform(8.0, 48.0) * 3_600.0 / STEP) :] = 0.0
        weight[:, k] += more
        came[:, k] = np.maximum(came[:, k], more / weight[:, k] * (0.6 if kind == "news" else 0.2))
    total = level * weight.sum(axis=1)
    counts = rng.poisson(n / total.sum() * total)
    step = np.repeat(np.arange(steps), counts)
    item = np.concatenate([rng.choice(items, size, p=w / w.sum()) for size, w in zip(counts, weight, strict=True)])
    activity = rng.lognormal(0.0, 1.5, clients)
    client = rng.choice(clients, item.size, p=activity / activity.sum())
    usual = rng.choice(items, clients, p=share)
    item = np.where(rng.random(item.size) < 0.3, usual[client], item)
    alone = rng.random(item.size) < came[step, item]
    client[alone] = NEWCOMERS + np.arange(np.count_nonzero(alone))
    time = START + (step + rng.random(item.size)) * STEP
    again = np.flatnonzero(rng.random(item.size) < 0.1)
    item, client = np.append(item, item[again]), np.append(client, client[again])
    time = np.append(time, time[again] + rng.exponential(60.0, again.size))
    order = np.argsort(time, kind="stable")
    return Events(item[order], client[order], time[order], np.zeros(order.size, np.bool_))


def attacked(log: Events, rng: np.random.Generator, share: float, bots: int, hours: float) -> Events:
    """Add a burst of `bots` on one item that is neither among the first five nor rare."""
    m = int(share * log.item.size)
    counts = np.bincount(log.item)
    target = int(rng.choice(np.argsort(-counts, kind="stable")[5:200]))
    begin = START + rng.uniform(1.0, DAYS - 1.0 - hours / 24.0) * DAY
    time = begin + rng.random(m) * hours * 3_600.0
    client = BOTS + rng.integers(0, bots, m)
    both = Events(
        np.append(log.item, np.full(m, target)),
        np.append(log.client, client),
        np.append(log.time, time),
        np.append(log.false, np.ones(m, np.bool_)),
        target,
    )
    return both.chosen(np.argsort(both.time, kind="stable"))
