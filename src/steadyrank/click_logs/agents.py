"""Separate declared crawlers and AI agents from people, by their user agents.

The patterns are those of the package crawler-user-agents, maintained by its community; what they do not match counts
as people.
"""

import importlib.metadata
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arrays import Bools
from .click_log import ClickLog, only
from .looks import blocks

PACKAGE = "crawler-user-agents"
PEOPLE, AI_AGENT, CRAWLER = range(3)
KINDS = ("people", "AI agents", "crawlers")
POINTS = 120  # intervals of time in the chart
_AI = "ai-crawler"  # the package's tag


@dataclass(frozen=True)
class Visitors:
    """Impressions by kind of declared user agent, in the order of KINDS."""

    by: str  # the package with the patterns, and its version
    counts: list[int]
    first: float  # time, or row, of the first impression
    last: float
    points: list[list[int]]  # [POINTS][kind] counts over time

    def place(self, times: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The interval, from 0, that each time falls into."""
        width = max(self.last - self.first, 1e-9)
        return np.clip(((times - self.first) / width * POINTS).astype(np.int64), 0, POINTS - 1)


def check_package() -> None:
    """Raise ValueError if the package with the patterns is not installed."""
    try:
        import crawleruseragents  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError(
            f"--user-agent needs the list of {PACKAGE}; install it with: pip install 'steadyrank[report]'"
        ) from None


def kind_of_agent(text: str) -> int:
    """The index in KINDS of a user agent. O(patterns)."""
    import crawleruseragents as known

    if not known.is_crawler(text):
        return PEOPLE
    tags = {tag for i in known.matching_crawlers(text) for tag in known.CRAWLER_USER_AGENTS_DATA[i].get("tags", ())}
    return AI_AGENT if _AI in tags else CRAWLER


def without_declared(log: ClickLog) -> tuple[ClickLog, Visitors | None]:
    """Return the log without impressions of declared agents, and the counts; None for these without user agents."""
    if "user_agent" not in log.cohorts:
        return log, None
    agents, agent = log.cohorts["user_agent"]
    kinds = np.array([*(kind_of_agent(str(name)) for name in agents), PEOPLE], np.int8)  # index -1: unknown
    when = log.row if log.time is None else log.time
    visitors = Visitors(
        f"{PACKAGE} {importlib.metadata.version(PACKAGE)}", [0, 0, 0], float(when[0]), float(when[-1]), []
    )
    table = np.zeros((len(KINDS), POINTS), np.int64)
    kept: Bools = np.empty(log.impressions.n, np.bool_)
    for some in blocks(kept.size):
        kind = kinds[agent[some]]
        kept[some] = kind == PEOPLE
        np.add.at(table, (kind, visitors.place(when[some])), 1)
    if not kept.any():
        raise ValueError("--user-agent: all rows are of declared crawlers; nothing is left to audit")
    visitors = Visitors(visitors.by, table.sum(axis=1).tolist(), visitors.first, visitors.last, table.T.tolist())
    return only(log, kept), visitors
