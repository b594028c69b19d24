"""Audit existing click logs: when click behaviour changed, on which items, how surely, and the ranking without it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .counts import CountsAudit
    from .results import Audit


def audit(log: Any, **options: Any) -> "Audit":
    """Audit click logs: `log` is a path, a data frame, or a list of them; options as in `pipeline.run`."""
    _need_polars()
    from .pipeline import run

    audited = run(log, **options)
    if audited.state is not None:
        audited.state.write()
    if audited.checkpoint is not None:
        audited.checkpoint.remove()
    return audited


def audit_counts(log: Any, **options: Any) -> "CountsAudit":
    """Audit events without lists (who, what, when): `log` as for `audit`; options as in `counts.run`."""
    _need_polars()
    from .counts import run

    counted = run(log, **options)
    if counted.checkpoint is not None:
        counted.checkpoint.remove()
    return counted


def _need_polars() -> None:
    try:
        import polars  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError("polars is missing; install it with: pip install 'steadyrank[report]'") from None
