"""Audit cohorts of clients (by user agent, network, referrer): shares over time, and cohorts that stand out."""

import functools
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..click_logs.click_log import ClickLog
from ..click_logs.looks import Impressions
from ..core.arrays import Bools
from .detect import cohorts as detect
from .detect.cohorts import SuspectCohort, odd_cohorts
from .detect.stretches import StepCache, always_compute
from .over_time import over_time
from .results import Audit

DRAWN = 4  # most frequent values whose shares over time are reported; the others are combined


@dataclass(frozen=True)
class CohortsAudit:
    """The audit of one kind of cohorts."""

    judged: int  # cohorts with enough clients
    named: list[SuspectCohort]
    shares: dict[str, Any]  # impressions over time, by the most frequent values: `over_time`
    note: str = ""  # why no cohort is judged

    def as_dict(self) -> dict[str, Any]:
        """As a dictionary, for JSON."""
        return asdict(self)


def audit_cohorts(
    log: ClickLog, shown: Impressions, items: list[Any], suspect: Bools, cached: StepCache = always_compute
) -> dict[str, CohortsAudit]:
    """Audit all cohorts; returns results by role, such as network.

    `shown`: impressions of all boards as one; `suspect`: bool[n], suspect for other reasons.
    """
    by_role = {}
    for role, (values, of) in log.cohorts.items():
        judged, named = 0, list[SuspectCohort]()
        note = "No column says who: what clients share is not judged; name one with --client."
        if log.client is not None:
            whose = log.client, len(log.clients), of, values, items, suspect
            judged, named = cached(f"cohorts-{role}", functools.partial(odd_cohorts, shown, *whose))
            note = "" if judged >= detect.COHORTS else _too_few(role, judged)
        by_role[role] = CohortsAudit(judged, named, over_time(log, values, of, DRAWN), note)
    return by_role


def with_cohorts(audit: Audit, cohorts: dict[str, CohortsAudit]) -> Audit:
    """Add cohorts to an audit and to its summary."""
    named = [f"{role.replace('_', ' ')} {one.named[0].value}" for role, one in cohorts.items() if one.named]
    more = sum(len(one.named) for one in cohorts.values()) - len(named)
    others = f" and {more:,} more" if more else ""
    words = f" Clients of {', '.join(named)}{others} click alike, unlike all others." if named else ""
    return replace(audit, cohorts=cohorts, summary=audit.summary + words)


def _too_few(role: str, judged: int) -> str:
    return (
        f"{judged:,} values of {role.replace('_', ' ')} have {detect.CLIENTS} clients or more, and at most "
        f"{detect.LARGEST_SHARE:.0%} of what can be judged: fewer than {detect.COHORTS}, which would say how much "
        "honest ones differ, so none is judged."
    )
