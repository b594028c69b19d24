"""One log of past clicks through several learners."""

from collections.abc import Iterable, Sequence
from typing import Any

from .candidates import refuse_text
from .ranker import Ranker


def replay(
    log: Iterable[tuple[Sequence[str], Any]], learners: Sequence[str | type], *, length: int, **options: Any
) -> dict[str, Ranker]:
    """Run one log of past clicks through several learners: a ranker each, by the learner's name.

    `log` as for `Ranker.learn`; `options` go to every `Ranker`.
    """
    rows = list(log)
    if not rows:
        raise ValueError("the log is empty: it needs at least one list")
    for items, _ in rows:
        refuse_text(items)
    first = dict.fromkeys(item for items, _ in rows for item in items)
    rankers = {}
    for learner in learners:
        ranker = Ranker(first, length, learner, **options)
        ranker.learn(rows)
        rankers[learner if isinstance(learner, str) else learner.__name__] = ranker
    return rankers
