"""Results of simulations."""

import html
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..comparison.intervals import half_width
from ..core.arrays import Floats, Ints
from ..core.rounds import FALSE, MAJORITY, MINORITY
from ..core.views import GuardView, View


@dataclass(frozen=True, repr=False)
class Run:
    """Result of `simulate`: curves over marks, one row per seed."""

    learner: str
    seeds: tuple[int, ...]
    marks: Ints  # [mark] rounds; the last one is the horizon
    regret: Floats  # [seed, mark] cumulative regret, measured with the true attractions
    spent: Floats  # [seed, mark] rounds corrupted so far
    bits_changed: Ints  # [seed] false bits in the feedback; withheld from an omniscient learner
    best_corrupted: Ints  # [seed] false bits about items of the best list
    visits: Ints  # [seed, sort] visits of each sort: honest; honest, of another taste; corrupted
    refused: Ints  # [seed, sort] visits that the guard refused
    retracted: Ints  # [seed, sort] visits retracted later; corrupted here: by an identity of the adversary
    views: tuple[View | None, ...] = ()  # [seed] the learner's view at the end, if it has one
    guard_views: tuple[GuardView | None, ...] = ()  # [seed] the guard's view at the end, if it has one
    most: Floats = field(default_factory=lambda: np.zeros(0))  # [seed] total value of the best lists of all rounds

    def __repr__(self) -> str:
        final, error = self.final.mean(), float(half_width(self.final))
        spread = f" ± {error:,.1f}" if np.isfinite(error) else ""
        seeds = f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''}"
        return f"<Run of {self.learner}: {seeds}, {self.marks[-1]:,} rounds, final regret {final:,.1f}{spread}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the content of `repr`, as a table with one row per seed."""
        rows = zip(self.seeds, self.final, self.spent[:, -1], strict=True)
        cells = [f"<tr><td>{seed}</td><td>{final:,.1f}</td><td>{spent:,.0f}</td></tr>" for seed, final, spent in rows]
        more = f"<p>and {len(cells) - 10:,} more seeds</p>" if len(cells) > 10 else ""
        head = "<tr><th>seed</th><th>final regret</th><th>rounds corrupted</th></tr>"
        return f"<p>{html.escape(repr(self)[1:-1])}</p><table>{head}{''.join(cells[:10])}</table>{more}"

    @property
    def final(self) -> Floats:
        """Regret at the horizon, [seed]."""
        return self.regret[:, -1]

    @property
    def worth(self) -> Floats:
        """Value of the lists shown as a share of the value of the best lists, [seed]."""
        worth: Floats = 1.0 - self.final / self.most
        return worth

    @property
    def honest_refused(self) -> float:
        """The share of honest visits that the guard refused, over all seeds; nan without such visits."""
        return self._share(MAJORITY, MINORITY)

    @property
    def minority_refused(self) -> float:
        """The share of the visits of the second honest taste that the guard refused; nan without such visits."""
        return self._share(MINORITY)

    @property
    def false_refused(self) -> float:
        """The share of corrupted visits that the guard refused, over all seeds; nan without such visits."""
        return self._share(FALSE)

    def _share(self, *sorts: int) -> float:
        made = int(self.visits[:, sorts].sum())
        return int(self.refused[:, sorts].sum()) / made if made else float("nan")

    def to_polars(self) -> Any:
        """The curves as a polars frame: `learner`, `seed`, `round`, `regret`, `spent`, one row per seed and mark.

        Needs polars (`pip install 'steadyrank[report]'`); `.to_pandas()` of the frame makes a pandas one.
        """
        import polars as pl

        n_seeds, n_marks = self.regret.shape
        return pl.DataFrame(
            {
                "learner": [self.learner] * (n_seeds * n_marks),
                "seed": np.repeat(np.array(self.seeds, np.int64), n_marks),
                "round": np.tile(self.marks, n_seeds),
                "regret": self.regret.ravel(),
                "spent": self.spent.ravel(),
            }
        )

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Plot mean regret against rounds, with its 95 % interval over the seeds; return the axes.

        `ax`: Matplotlib axes to draw into, new ones by default. `style`: arguments of `Axes.plot` for the line;
        its label is the learner's name. Needs Matplotlib (`pip install 'steadyrank[report]'`).
        """
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots()
        rounds = np.concatenate(([0], self.marks))
        mean = np.concatenate(([0.0], self.regret.mean(axis=0)))
        (line,) = ax.plot(rounds, mean, **{"label": self.learner, **style})
        if len(self.seeds) > 1:
            spread = np.concatenate(([0.0], half_width(self.regret.T)))
            ax.fill_between(rounds, mean - spread, mean + spread, color=line.get_color(), alpha=0.2, linewidth=0)
        ax.set_xlabel("rounds")
        ax.set_ylabel("regret")
        return ax
