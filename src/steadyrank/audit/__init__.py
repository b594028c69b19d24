"""Click logs that exist already: when behaviour changed, on which items, how surely, and the ranking without it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Audit


def audit(log: Any, **options: Any) -> "Audit":
    """Audit click logs: `log` is a path, a polars frame, or a list of them; options as in `pipeline.run`."""
    try:
        import polars  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError("polars is missing; install it with: pip install 'steadyrank[report]'") from None
    from .pipeline import run

    return run(log, **options)
