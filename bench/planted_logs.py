"""Logs for benches of the audit: honest ones of users who do not follow the cascade model, and planted attacks.

Nothing here comes from the library's simulator. Users look at places with decreasing attention, may click several
items of a list, differ in how much they click, and come in sessions; a ranker shows noisy lists. `open_bandit` reads
a log of Saito et al. 2021 if one is available, and `resampled` draws bootstrap samples of rows.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

DAY = 86_400.0
START = 1_772_323_200.0  # 2026-03-01
Array = npt.NDArray[Any]


@dataclasses.dataclass
class Log:
    """A log of lists: one row per impression, in order of time."""

    lists: Array  # [n, L], -1 after the end of a shorter list
    bits: Array  # [n, L]
    time: Array  # [n] seconds
    client: Array  # [n]; bots from BOTS on
    false: Array  # [n] whether a bot made it
    place: Array | None = None  # [n] for lists of one item: where on the page

    def frame(self) -> pl.DataFrame:
        """The log as users of the audit would have it."""
        length = (self.lists >= 0).sum(axis=1)
        items = [row[:size].tolist() for row, size in zip(self.lists, length, strict=True)]
        bits = [row[:size].astype(int).tolist() for row, size in zip(self.bits, length, strict=True)]
        when = pl.Series((self.time * 1e6).astype(np.int64)).cast(pl.Datetime("us"))
        if self.place is not None:
            columns = {"item_id": self.lists[:, 0], "position": self.place + 1, "click": self.bits[:, 0].astype(int)}
            return pl.DataFrame({"timestamp": when, "user_id": self.client, **columns})
        return pl.DataFrame({"timestamp": when, "user_id": self.client, "items": items, "clicked": bits})

    def chosen(self, which: Array) -> "Log":
        place = None if self.place is None else self.place[which]
        return Log(
            self.lists[which], self.bits[which], self.time[which], self.client[which], self.false[which], place
        )


BOTS = 1_000_000


@dataclasses.dataclass
class World:
    """Items, users and a ranker."""

    attraction: Array
    length: int = 10
    attention: float = 0.6  # place j is looked at with probability (1 + j)^-attention
    clients: int = 1_500
    differ: float = 4.0  # shape of the distribution of clients' factors: lower for larger differences
    noise: float = 1.0  # of the ranker, in log-odds


def world(rng: np.random.Generator, items: int = 80, mean: float = 0.12, **rest: Any) -> World:
    """A world with attractions drawn from a Beta distribution with this mean."""
    return World(np.clip(rng.beta(1.2, 1.2 / mean - 1.2, items), 0.003, 0.9), **rest)


def ranked(world: World, n: int, rng: np.random.Generator, noise: float | None = None) -> Array:
    """Lists of a ranker that knows the attractions approximately."""
    score = np.log(world.attraction / (1.0 - world.attraction))
    noisy = score + rng.gumbel(size=(n, score.size)) * (world.noise if noise is None else noise)
    return np.argsort(-noisy, axis=1)[:, : world.length]


def honest(
    world: World, n: int, rng: np.random.Generator, days: float = 14.0, level: Any = None, boost: Any = None
) -> Log:
    """n honest impressions over some days. `level(time)`: factor on rates; `boost(time)`: [n, K], added to rates."""
    weight = rng.lognormal(0.0, 1.0, world.clients)
    starts = max(n // 3, 1)
    who = rng.choice(world.clients, starts, p=weight / weight.sum())
    at = rng.integers(0, int(days), starts) * DAY + (rng.beta(2.5, 2.0, starts) * DAY)
    size = rng.geometric(1.0 / 3.0, starts)
    session = np.repeat(np.arange(starts), size)[:n]
    while session.size < n:
        session = np.concatenate([session, session])[:n]
    time = START + at[session] + rng.exponential(60.0, n)
    order = np.argsort(time, kind="stable")
    time, client = time[order], who[session][order]
    factor = rng.gamma(world.differ, 1.0 / world.differ, world.clients)
    lists = ranked(world, n, rng)
    looks = (1.0 + np.arange(world.length)) ** -world.attention
    rate = world.attraction[lists]
    if boost is not None:
        rate = rate + np.take_along_axis(boost(time), lists, axis=1)
    rate = rate * looks * factor[client][:, None]
    if level is not None:
        rate = rate * level(time)[:, None]
    bits = rng.random(lists.shape) < np.clip(rate, 0.0, 0.98)
    return Log(lists, bits, time, client, np.zeros(n, np.bool_))


def joined(one: Log, two: Log) -> Log:
    """Merge two logs in order of time."""
    width = max(one.lists.shape[1], two.lists.shape[1])

    def wide(values: Array, fill: Any) -> Array:
        return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=fill)

    both = Log(
        np.concatenate([wide(one.lists, -1), wide(two.lists, -1)]),
        np.concatenate([wide(one.bits, False), wide(two.bits, False)]),
        *(np.concatenate([getattr(one, name), getattr(two, name)]) for name in ("time", "client", "false")),
        None if one.place is None or two.place is None else np.concatenate([one.place, two.place]),
    )
    return both.chosen(np.argsort(both.time, kind="stable"))


def attacked(log: Log, kind: str, m: int, rng: np.random.Generator, *, spread: str = "burst", bots: int = 20) -> Log:
    """Add m rows of bots to a log, with lists that others got at other times.

    `kind`: promote (clicks three rarely clicked items whenever shown, and nothing else), demote (never clicks the
    three most clicked, else one random item in every list), silent (never clicks), top (clicks the first place), flip
    (clicks what others do not). `spread`: burst (alone in a stretch of time), even, ramp.
    """
    source = rng.integers(0, log.time.size, m)
    if kind == "promote" and log.lists.shape[1] == 1:  # bots repeat requests until their item is shown
        source = rng.choice(np.flatnonzero(np.isin(log.lists[:, 0], targets_of(log, kind))), m)
    lists = log.lists[source]
    place = None if log.place is None else log.place[source]
    rate = _rates(log)
    shown = lists >= 0
    if kind == "promote":
        bits = np.isin(lists, targets_of(log, kind)) & shown
    elif kind == "demote":
        bits = _one_of_each(shown & ~np.isin(lists, targets_of(log, kind)), rng)
    elif kind == "silent":
        bits = np.zeros(lists.shape, np.bool_)
    elif kind == "top":
        bits = np.zeros(lists.shape, np.bool_)
        bits[:, 0] = True
    else:
        bits = shown & (np.nan_to_num(rate, nan=1.0)[lists] < np.nanmedian(rate))
    time = _times(log.time, m, spread, rng)
    client = BOTS + rng.integers(0, bots, m)
    return joined(log, Log(lists, bits, time, client, np.ones(m, np.bool_), place))


def _rates(log: Log) -> Array:
    """The click rate of each item, NaN for those with few looks."""
    looks = np.bincount(log.lists[log.lists >= 0], minlength=log.lists.max() + 1)
    clicks = np.bincount(log.lists[log.bits], minlength=looks.size)
    return np.where(looks > 20, clicks / np.maximum(looks, 1), np.nan)


def targets_of(log: Log, kind: str) -> list[int]:
    """Three target items: the most shown of the less clicked half, or the most clicked ones."""
    rate = _rates(log)
    known = np.flatnonzero(~np.isnan(rate))
    order = known[np.argsort(rate[known], kind="stable")]
    if kind == "demote":
        return order[-3:].tolist()
    rare = order[: max(3, order.size // 2)]
    looks = np.bincount(log.lists[log.lists >= 0], minlength=rate.size)
    return rare[np.argsort(-looks[rare], kind="stable")][:3].tolist()


def _one_of_each(allowed: Array, rng: np.random.Generator) -> Array:
    chosen = np.argmax(np.where(allowed, rng.random(allowed.shape), -1.0), axis=1)
    bits = np.zeros(allowed.shape, np.bool_)
    bits[np.arange(chosen.size), chosen] = allowed.any(axis=1)
    return bits


def _times(time: Array, m: int, spread: str, rng: np.random.Generator) -> Array:
    if spread == "even":
        return np.sort(rng.choice(time, m)) + rng.random(m)
    if spread == "ramp":
        return np.sort(np.quantile(time, np.sqrt(rng.random(m))))
    i = int(rng.integers(time.size // 10, time.size - time.size // 10))
    gap = time[i + 1] - time[i]
    return time[i] + np.sort(rng.random(m)) * gap


def open_bandit(path: pathlib.Path, clients: int, rng: np.random.Generator) -> Log:
    """Read a log of the Open Bandit Dataset: one item per row, with its place. It has no clients: they are drawn."""
    frame = pl.read_csv(path, try_parse_dates=True)
    time = frame["timestamp"].dt.epoch("us").to_numpy() / 1e6
    n = frame.height
    return Log(
        frame["item_id"].to_numpy()[:, None], frame["click"].to_numpy().astype(np.bool_)[:, None], time,
        rng.integers(0, clients, n), np.zeros(n, np.bool_), frame["position"].to_numpy() - 1,
    )  # fmt: skip


def resampled(log: Log, n: int, rng: np.random.Generator) -> Log:
    """A bootstrap sample of n rows: items, clicks and clients of a row stay together."""
    return log.chosen(np.sort(rng.integers(0, log.time.size, n)))
