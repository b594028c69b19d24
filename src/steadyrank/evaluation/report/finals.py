"""Mean final regret of the paper's five learners, by what was varied."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ...core.arrays import Floats
from ..studies import lineup, readings
from .tables import finals

PAPER = [who["learner"] for who in lineup.PAPER]
APPENDIX = "M2UCBV (preset=paper-app)"
Setting = tuple[str, float]  # a profile and a share of corrupted rounds
Means = dict[str, float]  # by learner
Test = Callable[[Means], bool]
_KEYS = ["who", "profile", "mapping", "rate", "adversary", "users"]


def best_value(attraction: Floats, length: int) -> float:
    """The chance that a cascade user clicks in the best list of that length."""
    return 1.0 - float(np.prod(1.0 - np.sort(attraction)[-length:]))


def place_of(who: str, place: int) -> Test:
    """Whether fewer than `place` others are as low (negative: as high): a tie helps nobody."""

    def test(means: Means) -> bool:
        others = [mean for name, mean in means.items() if name != who]
        return sum((mean <= means[who]) if place > 0 else (mean >= means[who]) for mean in others) < abs(place)

    return test


class Finals:
    """Mean final regret over the seeds by learner, profile, mapping, rate, adversary and users."""

    def __init__(self, *frames: pl.DataFrame) -> None:
        self._mean: dict[tuple[str, ...], float] = {}
        self.horizon = 0  # rounds of a run
        for rows in frames:
            if not rows.is_empty():
                self.horizon = int(rows["horizon"][0])
                for *key, mean in finals(rows).group_by(_KEYS).agg(pl.col("regret").mean()).rows():
                    self._mean[_key(*key)] = mean

    def get(
        self, who: str, name: str, mapping: str, rate: float, adversary: str = "PrefixFlip", users: str = "Cascade"
    ) -> float | None:
        """One mean, or None while it is not finished."""
        return self._mean.get(_key(who, name, mapping, rate, adversary, users))


def _key(who: str, name: str, mapping: str, rate: float, adversary: str, users: str) -> tuple[str, ...]:
    return who, name, mapping, f"{rate:.4f}", adversary, users


@dataclass(frozen=True)
class Lens:
    """The five learners under one mapping and one reading; `names` is what each of them is called there."""

    final_means: Finals
    mapping: str
    names: Mapping[str, str]
    reading: str = ""
    adversary: str = "PrefixFlip"
    users: str = "Cascade"
    rates: Sequence[float] | None = None  # on Yelp alone; None: all rates on all data sets

    def at(self, name: str, rate: float) -> Means | None:
        """Their means in one setting, or None while one is missing."""
        means = {
            who: self.final_means.get(shown, name, self.mapping, rate, self.adversary, self.users)
            for who, shown in self.names.items()
        }
        return None if None in means.values() else {who: mean for who, mean in means.items() if mean is not None}

    def has(self, setting: Setting) -> bool:
        """Whether the study behind it runs this setting."""
        name, rate = setting
        return self.rates is None or (name == "yelp-pizza" and rate in self.rates)


def lenses(final_means: Finals, *, rivals_only: bool = False) -> Iterator[Lens]:
    """The readings a claim is judged under: those of the study `corruption`, then what is finished of `readings`.

    `rivals_only` leaves out those in which nothing but M2UCB-V is read otherwise.
    """
    plain = {who: who for who in PAPER}
    for mapping in lineup.JUDGED:
        yield Lens(final_means, mapping, plain)
        if not rivals_only:
            yield Lens(final_means, mapping, {**plain, "M2UCBV": APPENDIX}, "blocks of the appendix")
    for reading in readings.READINGS[1:]:
        if reading.settings.get("M2UCBV") == lineup.APPENDIX["settings"]:
            continue  # judged above
        if rivals_only and set(reading.settings) == {"M2UCBV"}:
            continue
        for mapping in lineup.JUDGED:
            lens = Lens(
                final_means,
                mapping,
                reading.names(),
                f"{reading.part}: {reading.name}",
                *reading.where(),
                readings.RATES,
            )
            if lens.at("yelp-pizza", readings.RATES[-1]) is not None:
                yield lens
