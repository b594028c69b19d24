"""Final regret of the paper's five learners by seed, and the readings under which its claims are judged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ...core.arrays import Floats
from ..studies import lineup, readings
from .paired import CellKey, Runs
from .tables import finals

PAPER = [who["learner"] for who in lineup.PAPER]
BLOCKS = {  # M2UCB-V's name in results, by reading of its blocks
    reading: "M2UCBV" if not settings else f"M2UCBV (preset={settings['preset']})"
    for reading, settings in lineup.BLOCKS.items()
}
Setting = tuple[str, float]  # a profile and a share of corrupted rounds
_KEYS = ["who", "profile", "mapping", "rate", "adversary", "users", "n_items", "length", "horizon"]


def best_value(attraction: Floats, length: int) -> float:
    """The probability that a cascade user clicks in the best list of this length."""
    return 1.0 - float(np.prod(1.0 - np.sort(attraction)[-length:]))


class Finals:
    """Final regret of each cell by seed."""

    def __init__(self, *frames: pl.DataFrame) -> None:
        self._runs: dict[CellKey, dict[int, float]] = {}
        self.horizon = 0  # rounds of a run
        for rows in frames:
            if not rows.is_empty():
                self.horizon = int(rows["horizon"][0])
                for *key, seed, regret in finals(rows).select(*_KEYS, "seed", "regret").rows():
                    self._runs.setdefault(self.key(*key), {})[seed] = regret

    def key(
        self,
        who: str,
        name: str,
        mapping: str,
        rate: float,
        adversary: str = "PrefixFlip",
        users: str = "Cascade",
        n_items: int = 0,
        length: int = 10,
        horizon: int = 0,
    ) -> CellKey:
        """The key of a cell; the horizon is that of these runs by default."""
        return CellKey(who, name, mapping, round(rate, 4), adversary, users, n_items, length, horizon or self.horizon)

    def runs(self, key: CellKey) -> Runs:
        """The regret of each finished seed; empty if there is none."""
        return self._runs.get(key, {})

    def get(self, who: str, name: str, mapping: str, rate: float) -> float | None:
        """The mean over seeds in the paper's setting, or None if no seed is finished."""
        runs = self.runs(self.key(who, name, mapping, rate))
        return sum(runs.values()) / len(runs) if runs else None


@dataclass(frozen=True)
class Lens:
    """The five learners under one mapping and one reading; `names`: their names in results there."""

    final_runs: Finals
    mapping: str
    names: Mapping[str, str]
    reading: str = ""
    adversary: str = "PrefixFlip"
    users: str = "Cascade"
    rates: Sequence[float] | None = None  # rates available, on Yelp alone; None: all rates on all data sets

    def key(self, who: str, setting: Setting) -> CellKey:
        """The cell of a learner in one setting."""
        name, rate = setting
        return self.final_runs.key(self.names[who], name, self.mapping, rate, self.adversary, self.users)

    def at(self, setting: Setting, whom: Sequence[str] = ()) -> dict[str, Runs] | None:
        """The learners' runs in one setting (only of `whom`, if given), or None if any is missing."""
        runs = {who: self.final_runs.runs(self.key(who, setting)) for who in whom or self.names}
        return runs if all(runs.values()) else None

    def has(self, setting: Setting) -> bool:
        """Whether the study behind this reading includes the setting."""
        name, rate = setting
        return self.rates is None or (name == "yelp-pizza" and rate in self.rates)


def mean(runs: Runs) -> float:
    """The mean over seeds."""
    return sum(runs.values()) / len(runs)


def lenses(final_runs: Finals, *, rivals_only: bool = False) -> Iterator[Lens]:
    """The readings under which claims are judged: those of the study `corruption`, then finished ones of `readings`.

    `rivals_only` leaves out readings that change nothing but M2UCB-V.
    """
    plain = {who: who for who in PAPER}
    for mapping in lineup.JUDGED:
        if rivals_only:
            yield Lens(final_runs, mapping, plain)
        else:
            for reading, name in BLOCKS.items():
                yield Lens(final_runs, mapping, {**plain, "M2UCBV": name}, reading)
    for choice in readings.READINGS[1:]:
        if choice.settings.get("M2UCBV") in lineup.BLOCKS.values():
            continue  # judged above
        if rivals_only and set(choice.settings) == {"M2UCBV"}:
            continue
        for mapping in lineup.JUDGED:
            lens = Lens(
                final_runs,
                mapping,
                choice.names(),
                f"{choice.part}: {choice.name}",
                *choice.where(),
                readings.RATES,
            )
            if lens.at(("yelp-pizza", readings.RATES[-1])) is not None:
                yield lens
