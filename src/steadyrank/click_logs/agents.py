"""Who came, by what they say of themselves: declared crawlers and AI agents, set apart from all others.

The list is that of the package crawler-user-agents, which is kept up by many; what it does not know counts as people.
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
POINTS = 120  # along time
_AI = "ai-crawler"  # the package's tag


@dataclass(frozen=True)
class Visitors:
    """Who came, as they say of themselves, by kinds in the order of KINDS."""

    by: str  # the package with the list, and its version
    counts: list[int]
    first: float  # time, or row, of the first of all
    last: float
    points: list[list[int]]  # along time: as many of each kind

    def place(self, times: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The point that each time belongs to."""
        width = max(self.last - self.first, 1e-9)
        return np.clip(((times - self.first) / width * POINTS).astype(np.int64), 0, POINTS - 1)


def check_package() -> None:
    """Refuse to begin without the list."""
    try:
        import crawleruseragents  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError(
            f"--user-agent needs the list of {PACKAGE}; install it with: pip install 'steadyrank[report]'"
        ) from None


def kind_of_agent(text: str) -> int:
    """Which of KINDS a user agent says that it is. O(patterns of the list)."""
    import crawleruseragents as known

    if not known.is_crawler(text):
        return PEOPLE
    tags = {tag for i in known.matching_crawlers(text) for tag in known.CRAWLER_USER_AGENTS_DATA[i].get("tags", ())}
    return AI_AGENT if _AI in tags else CRAWLER


def without_declared(log: ClickLog) -> tuple[ClickLog, Visitors | None]:
    """The log without what declared agents were shown, and who came; the log itself if it has no user agents."""
    if "user_agent" not in log.cohorts:
        return log, None
    agents, agent = log.cohorts["user_agent"]
    kinds = np.array([*(kind_of_agent(str(name)) for name in agents), PEOPLE], np.int8)  # the last is nobody's
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
