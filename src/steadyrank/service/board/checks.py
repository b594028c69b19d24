"""Validation of board names, and of settings in combination."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...core.refusals import Refused
from ...core.settings import flag
from ...guards import ALL as GUARDS
from ...learners import ALL as LEARNERS
from ...live.board_memory import SMALL, BoardMemory, memory_of, room_for
from ...live.collection.collection_state import MOST_PAIR_BYTES, CollectionState
from ...live.features import Values
from ...live.gate import ChosenGuards
from ...live.impression_buffer import MOST_KINDS
from ...live.learner_state import LearnerState
from ...live.outcomes import CLICK_BYTES, with_goal
from ...live.ruled_list import SlotRules, check_boosts
from .config import OF_ITEMS, CollectionSettings, Config, Known, Setting
from .events import KIND_NAME

_LIMIT = "ClickLimit"  # the guard that implements the setting most_clicks
_FEW_OPEN = 1_000_000  # open lists, about 0.4 GB
_MOST_KINDS = 100
_LIST_BYTES = 200  # memory of an open list, besides its places
_memories: dict[bytes, BoardMemory] = {}  # by the settings that determine them
REVISIT = 0.001  # default of SteadyRank on a board: docs/steadyrank-measured.md
BOARD_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def check_name(name: str) -> None:
    """Raise Refused if this cannot be the name of a board."""
    if not re.fullmatch(BOARD_NAME, name):
        words = "a board's name has 1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first"
        raise Refused(422, f"{words}, not {name!r:.80}")


def check(config: Config, items: Iterable[str], together: bool = True) -> LearnerState:
    """Make an empty learner state, or raise Refused if the settings are invalid, each alone and `together`.

    `items`: their names, or a mapping from names to features.
    """
    try:
        if together:
            config.check_together()
            check_cohorts(config.cohorts or [])
        if config.collection is not None:
            return _collection_state(config, config.collection)
        own, _ = _split_guard(config)
        settings = with_goal(config.learner, own, config.goal)
        learner = config.learner, settings, config.seed, config.new_share
        return LearnerState(items, config.length, *learner, guards_of(config), config.shadow, config.feature_space())
    except KeyError as error:
        raise Refused(422, str(error.args[0])) from error
    except (ValueError, TypeError) as error:
        raise Refused(422, str(error)) from error


def _collection_state(config: Config, own: CollectionSettings) -> CollectionState:
    for name in OF_ITEMS:
        if getattr(config, name) != getattr(Config(), name):
            raise ValueError(f"a collection has no setting {name}: it ranks what each request brings")
    settings: dict[str, Any] = {"explore": own.explore, "memory": own.memory}
    if own.attention is not None:
        settings["attention"] = own.attention
    others = own.most_pairs, guards_of(config), config.shadow, own.outcomes
    return CollectionState(config.length, settings, config.seed, *others)


def check_rules(config: Config, state: LearnerState, known: Mapping[str, Values], learns: LearnerState) -> None:
    """Raise Refused if rules cannot be kept.

    `known`: features of items; `learns`: an empty state with these settings.
    """
    if config.rules is not None:
        rules = SlotRules(config.rules.to_rules(), state, known, config.feature_space(), learns)
        rules.check(state, config.length)


def check_learner(config: Config, learns: LearnerState) -> None:
    """Raise Refused if the rules cannot work with the learner; `learns`: an empty state with these settings."""
    if config.rules is not None and config.rules.boosts:
        check_boosts(learns)


class UnknownHere(Exception):
    """The log uses something that this version does not have: a newer version wrote it."""


def check_known_here(changes: Mapping[str, Setting]) -> None:
    """Raise UnknownHere if the log sets something, or names a learner or guard, that this version does not have.

    Requests for unknown settings are refused before they are logged. Ignoring such a change here would give a board
    that differs from that of newer workers.
    """
    for name in changes:
        if name not in Config.__struct_fields__:
            raise UnknownHere(f"no setting {name!r:.80} in this version")
    own = changes.get("collection")
    for name in own if isinstance(own, dict) else ():
        if name not in CollectionSettings.__struct_fields__:
            raise UnknownHere(f"no setting {name!r:.80} of collections in this version")
    for name, classes in (("learner", LEARNERS), ("guard", GUARDS)):
        if name in changes and changes[name] not in classes:
            raise UnknownHere(f"no {name} {changes[name]!r:.80} in this version")
    several = changes.get("guards")
    for choice in several if isinstance(several, list) else []:
        if isinstance(choice, dict) and choice.get("guard") not in GUARDS:
            raise UnknownHere(f"no guard {choice.get('guard')!r:.80} in this version")


def check_memory(config: Config, items: int, most: int, capacity: int = 0) -> None:
    """Raise Refused if a board with so many items would need more than `most` bytes; nothing is allocated.

    `capacity`: the number of items it has room for now, which doubles until all fit.
    """
    if config.collection is not None:
        _check_pairs(config, config.collection, most)
        return
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


def _check_pairs(config: Config, own: CollectionSettings, most: int) -> None:
    """Raise Refused if a collection with full memory would need more than `most` bytes."""
    each_list = 16 * config.length + _LIST_BYTES + (2 * CLICK_BYTES if own.outcomes else 0)
    need = own.most_pairs * MOST_PAIR_BYTES + config.most_open * each_list
    if need > most:
        raise Refused(
            422,
            f"most_pairs={own.most_pairs:,} and most_open={config.most_open:,} need {need / 1e9:.1f} GB; "
            f"a collection may take {most / 1e9:.1f} GB",
        )


def check_known(config: Config, known: Mapping[str, Values]) -> dict[str, Known]:
    """Convert features of items for the log. Raises Refused if they do not fit the declared features."""
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
    """Convert validated features for the log: numbers become floats, unknown values are dropped."""
    given = {name: value for name, value in (values or {}).items() if value is not None}
    return {name: value if isinstance(value, str) else float(value) for name, value in given.items()}


def chosen_guards(config: Config) -> list[tuple[str, dict[str, Any]]]:
    """The guards that a board's settings name, each with its settings."""
    _, plausible = _split_guard(config)
    if plausible:
        return [("Plausible", {})]
    return [(one.guard, dict(one.settings)) for one in config.guard_choices()]


def _split_guard(config: Config) -> tuple[dict[str, Any], bool]:
    """The settings of the learner without `reject_impossible`, and whether that asks for the guard Plausible.

    Boards live long, so by default SteadyRank revisits items that it has dropped.
    """
    settings = dict(config.settings)
    if config.learner != "SteadyRank":
        return settings, False
    settings.setdefault("revisit", REVISIT)
    if "reject_impossible" not in settings:
        return settings, False
    return settings, flag("reject_impossible", settings.pop("reject_impossible"))


def guards_of(config: Config) -> ChosenGuards:
    """All guards of a board: the limit on clicks, and those that its settings name."""
    chosen = chosen_guards(config)
    if config.most_clicks is None:
        return chosen
    if _LIMIT in [guard for guard, _ in chosen]:
        raise ValueError(f"{_LIMIT} is a guard already: give either it or most_clicks, and null for the other")
    limit = {} if config.most_clicks == "usual" else {"clicks": config.most_clicks}
    if [guard for guard, _ in chosen] == ["Anyone"]:
        # Anyone rejects settings with an error that names them
        return [(_LIMIT, limit)] if not chosen[0][1] else chosen
    return [(_LIMIT, limit), *chosen]


def check_cohorts(kinds: list[str]) -> None:
    """Raise ValueError for invalid kinds of cohorts."""
    if len(kinds) > MOST_KINDS or len(set(kinds)) < len(kinds):
        raise ValueError(f"cohorts must be at most {MOST_KINDS} different kinds, not {kinds!r:.200}")
    for kind in kinds:
        if not re.fullmatch(KIND_NAME, kind):
            raise ValueError(f"cohorts must each be named by 1 to 32 of A-Z a-z 0-9 _ -, not {kind!r:.80}")
