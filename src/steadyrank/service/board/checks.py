"""What may name a board, and what its settings may be together."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...guards import ALL as GUARDS
from ...learners import ALL as LEARNERS
from ...live.features import Values
from ...live.gate import with_guard
from ...live.learner_state import LearnerState
from ...refusals import Refused
from .config import Config, Known, Setting

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


class UnknownHere(Exception):
    """The log asks for something that this version does not have: a newer one wrote it."""


def check_known_here(changes: Mapping[str, Setting]) -> None:
    """See that this version has the settings that the log changes, and the learner and guard that it names.

    Requests that ask for others are refused before they are written. To leave such a change out would be to go on
    with a board that is another one for newer workers.
    """
    for name in changes:
        if name not in Config.__struct_fields__:
            raise UnknownHere(f"no setting {name!r:.80} in this version")
    for name, known in (("learner", LEARNERS), ("guard", GUARDS)):
        if name in changes and changes[name] not in known:
            raise UnknownHere(f"no {name} {changes[name]!r:.80} in this version")


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
