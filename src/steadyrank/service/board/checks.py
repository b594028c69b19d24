"""What may name a board, and what its settings may be together."""

import re
from collections.abc import Sequence
from typing import Any

from ...live.gate import with_guard
from ...live.learner_state import LearnerState
from ...refusals import Refused
from .config import Config

BOARD_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def check_name(name: str) -> None:
    """Refuse what cannot name a board."""
    if not re.fullmatch(BOARD_NAME, name):
        words = "a board's name has 1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first"
        raise Refused(422, f"{words}, not {name!r:.80}")


def check(config: Config, items: Sequence[str], together: bool = True) -> LearnerState:
    """An empty learner state, or a refusal that says what is wrong with the settings, each of them and `together`."""
    try:
        if together:
            config.check_together()
        settings, _ = with_guard(config.learner, config.settings)
        return LearnerState(
            items, config.length, config.learner, settings, config.seed, config.new_share, *guard_of(config)
        )
    except KeyError as error:
        raise Refused(422, str(error.args[0])) from error
    except (ValueError, TypeError) as error:
        raise Refused(422, str(error)) from error


def guard_of(config: Config) -> tuple[str, dict[str, Any], bool]:
    """A board's guard, its settings, and whether it only looks on."""
    _, asked_for = with_guard(config.learner, config.settings)
    if asked_for != "Anyone":  # by a setting of the past
        return asked_for, {}, config.shadow
    return config.guard, dict(config.guard_settings), config.shadow
