"""What simple detectors find in planted logs: those of `steadyrank.audit.power.baselines`."""

from typing import Any

from planted_logs import Log

from steadyrank.audit.power import baselines


def rate_limit(log: Log) -> set[int]:
    """Clients whose busiest hour is beyond the limit."""
    return set(baselines.over_limit(log.client, log.time).tolist())


def cusum(log: Log) -> Any:
    """Which rows lie in an excursion of the total click rate, bool[n]."""
    return baselines.cusum(log.bits.sum(axis=1))


def forest(log: Log) -> set[int] | None:
    """Clients that an isolation forest finds odd; None without scikit-learn."""
    found = baselines.odd_in_forest(log.client, log.bits.sum(axis=1), log.bits[:, 0])
    return None if found is None else set(found.tolist())
