"""What may name a board, and what its settings may be together."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...live.board_memory import SMALL, BoardMemory, memory_of, room_for
from ...live.features import Values
from ...live.gate import with_guard
from ...live.learner_state import LearnerState
from ...refusals import Refused
from .config import Config, Known

_FEW_OPEN = 1_000_000  # lists remembered, which take some 0.4 GB
_MOST_KINDS = 100
_memories: dict[bytes, BoardMemory] = {}  # by what decides them
BOARD_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def check_name(name: str) -> None:
    """Refuse what cannot name a board."""
    if not re.fullmatch(BOARD_NAME, name):
        words = "a board's name has 1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first"
        raise Refused(422, f"{words}, not {name!r:.80}")


def check(config: Config, items: Iterable[str], together: bool = True) -> LearnerState:
    """An empty learner state, or a refusal that says what is wrong with the settings, each of them and `together`.

    `items`: their names, or what is known of them by their names.
    """
    try:
        if together:
            config.check_together()
        settings, _ = with_guard(config.learner, config.settings)
        learner = config.learner, settings, config.seed, config.new_share
        return LearnerState(items, config.length, *learner, *guard_of(config), config.feature_space())
    except KeyError as error:
        raise Refused(422, str(error.args[0])) from error
    except (ValueError, TypeError) as error:
        raise Refused(422, str(error)) from error


def check_memory(config: Config, items: int, most: int, capacity: int = 0) -> None:
    """Refuse a board with so many items that needs more than so many bytes; nothing is taken for that.

    `capacity`: for how many items it has room now, which doubles until there is room for all.
    """
    if items <= SMALL and config.most_open <= _FEW_OPEN:
        return
    kind = config.learner_part()
    if kind not in _memories:
        if len(_memories) >= _MOST_KINDS:
            _memories.clear()
        _memories[kind] = memory_of(check(config, ["any"]))
    try:
        _memories[kind].check(items, config.most_open, most, room_for(items, capacity) if capacity else items)
    except ValueError as error:
        raise Refused(422, str(error)) from error


def check_known(config: Config, known: Mapping[str, Values]) -> dict[str, Known]:
    """What is known of items, as the log has it; refused if a board with these settings cannot know it."""
    try:
        space = config.feature_space()
    except ValueError as error:
        raise Refused(422, str(error)) from error
    for item, values in known.items():
        try:
            space.check_item(values)
        except Refused as error:
            raise Refused(422, f"item {item!r:.80}: {error}") from error
    return {item: as_logged(values) for item, values in known.items()}


def as_logged(values: Values | None) -> Known:
    """Features that were checked, as the log has them: numbers as floats, without what is said not to be known."""
    found = {name: value for name, value in (values or {}).items() if value is not None}
    return {name: value if isinstance(value, str) else float(value) for name, value in found.items()}


def guard_of(config: Config) -> tuple[str, dict[str, Any], bool]:
    """A board's guard, its settings, and whether it only looks on."""
    _, asked_for = with_guard(config.learner, config.settings)
    if asked_for != "Anyone":  # by a setting of the past
        return asked_for, {}, config.shadow
    return config.guard, dict(config.guard_settings), config.shadow
