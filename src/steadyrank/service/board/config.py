"""How a board ranks and learns: its settings, and what each of them may be."""

import typing
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...live.collection.collection_state import FEWEST_PAIRS, MOST_PAIRS
from ...live.features import NO_FEATURES, FeatureSpace, by_segment
from ...live.outcomes import Goal
from ...live.rules import Rules

Setting: TypeAlias = bool | int | float | str | dict[str, Any] | list[Any] | None
Known: TypeAlias = dict[str, float | str | None]  # features by name; None: it is not known
MOST_LIFETIME = 30 * 86_400  # seconds
_MOST_PLACES = 10_000_000  # of all lists that a board remembers
_Minutely: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]  # of one client
OwnSettings: TypeAlias = dict[str, bool | int | float | str]  # of a learner or a guard


class FeatureKinds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Features of items and of visits by name: each by its lowest and its highest number, or by its categories."""

    items: dict[str, list[float | str]] = {}
    visits: dict[str, list[float | str]] = {}


class GuardChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A guard by its name, and its settings."""

    guard: str
    settings: OwnSettings = {}


class CollectionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a board ranks by that is a collection: the order of an engine, for any number of queries."""

    explore: Annotated[float, Meta(ge=0, le=1e6)] = 3.0  # visits of a query that are expected, for each that it had
    # of an item of a query, from which on it forgets older ones
    memory: Annotated[float, Meta(ge=64, le=1e9, description="looks")] = 300.0
    # the chance that each place is looked at; None: all that an answer speaks of was
    attention: list[float] | None = None
    fold: bool = True  # queries that differ in case, width and white space alone are one
    keep_queries: bool = False  # as text
    # of a query and an item, remembered; the queries with the fewest visits leave first
    most_pairs: Annotated[int, Meta(ge=FEWEST_PAIRS, le=MOST_PAIRS)] = 4_000_000
    outcomes: bool = False  # it is reported what comes of clicks


class GroupRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """At most so many of some items in a list; with `by`, of each category of a feature of items."""

    most: int
    items: list[str] = []
    by: str = ""


class IncludeRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """At least so many of some items in a list; with `by`, of each category; with `new`, of those that are new."""

    least: int = 1
    items: list[str] = []
    by: str = ""
    new: bool = False


class RulesSetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rules that lists keep (docs/rules.md): items with their places from 1, and with factors; sets by a name."""

    pins: dict[str, int] = {}
    exclude: list[str] = []
    boosts: dict[str, float] = {}
    groups: dict[str, GroupRule] = {}
    include: dict[str, IncludeRule] = {}
    when_impossible: Literal["refuse", "best"] = "refuse"

    def made(self) -> Rules:
        """The rules, checked."""
        return Rules(**msgspec.to_builtins(self))


_FIXED = ("fold", "keep_queries")  # what a query is called by cannot change
# what decides how the learner learns, and what of the log it hears. Boards that do not set what came later have to be
# what they were without it
_LEARNER, _LEARNER_LATER = (
    ("length", "learner", "settings", "seed", "new_share"),
    ("features", "segments", "collection", "goal"),
)
_GUARDS, _GUARDS_LATER = ("guard", "guard_settings", "shadow"), ("guards", "most_clicks")
_LATER = (*_LEARNER_LATER, *_GUARDS_LATER, "cohorts", "observed_items", "rules", "outcome_days")
OF_ITEMS = (
    "learner",
    "settings",
    "new_share",
    "observed_items",
    "features",
    "segments",
    "goal",
    "rules",
)  # of boards with items alone


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a board. Ranges are checked where settings come in from outside: by msgspec."""

    length: Annotated[int, Meta(ge=1, le=1_000)] = 10
    learner: str = "SteadyRank"
    settings: OwnSettings = {}
    goal: Goal = "click"  # what lists are made for: clicks, or the value of what comes of them
    # after a list was shown, in which it can be reported what came of its clicks
    outcome_days: Annotated[float, Meta(gt=0, le=365, description="days")] = 30.0
    seed: Annotated[int, Meta(ge=0, le=2**40)] = 0
    new_share: Annotated[float, Meta(ge=0, le=1)] = 0.2
    lifetime: Annotated[float, Meta(gt=0, le=MOST_LIFETIME, description="seconds")] = 1800.0
    # None: the lifetime. 0: answers are learnt from at once, in any order
    settle: Annotated[float, Meta(ge=0, le=MOST_LIFETIME, description="seconds")] | None = None
    count_unanswered: bool = True
    most_open: Annotated[int, Meta(ge=1, le=_MOST_PLACES)] = 100_000
    public_feedback: bool = True  # a signed impression id is enough to answer it
    bind_client: bool = False  # who answers has to name the client that a list was given to
    client_minute: _Minutely = 60  # answers of one client and minute
    client_lists: _Minutely = 120  # lists given to one client in a minute
    # answers to lists without a client, of all together and minute
    anonymous_minute: Annotated[int, Meta(ge=1, le=100_000_000)] = 60_000
    # after which it is no longer known which number a client has
    client_days: Annotated[float, Meta(gt=0, le=3_650)] = 1.0
    guard: str = "ClientTrust"  # whose feedback reaches the learner
    guard_settings: OwnSettings = {}
    guards: list[GuardChoice] | None = None  # two or more, of which `guard` is the last; None: that one alone
    # of one answer that is learnt from; None: any number
    most_clicks: Annotated[int, Meta(ge=1, le=1_000, description="clicks")] | Literal["usual"] | None = None
    cohorts: list[str] | None = None  # kinds that lists may be asked for with; None: the first ones that are
    shadow: bool = False  # the guard judges, and all are heard
    observed_items: Annotated[int, Meta(ge=0, le=1_000_000)] = 10_000  # that lists of other rankers may add
    interleave: bool = False  # lists may be mixed of the caller's own and ours
    # share of mixed lists that may be those of undetected bots without changing a verdict
    interleave_bots: Annotated[float, Meta(ge=0, le=0.9)] = 0.15
    features: FeatureKinds | None = None  # what may be known of items and visits; None: nothing
    segments: list[str] | None = None  # of the visits, each with a list of its own; None: one list for all
    collection: CollectionSettings | None = None  # of a collection; None: a board with items of its own
    rules: RulesSetting | None = None  # that every list keeps

    def kept(self) -> dict[str, Any]:
        """The settings as a snapshot has them: those that came later only where they are set, as before they did."""
        settings: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in settings.items() if name not in _LATER or self._is_set(name)}

    def feature_space(self) -> FeatureSpace:
        """How features become the numbers of a learner; refuses what cannot be declared."""
        space = NO_FEATURES if self.features is None else FeatureSpace(self.features.items, self.features.visits)
        if space.segments:
            names = ", ".join(space.segments)
            raise ValueError(f"a list for each of {names:.120} is asked for by the setting segments, not by features")
        return space if self.segments is None else by_segment(self.segments, space)

    def _is_set(self, name: str) -> bool:
        return bool(getattr(self, name) != getattr(_DEFAULT, name))

    def _encoded(self, names: Sequence[str], later: Sequence[str]) -> bytes:
        """What some settings are, and others that came later, where they are set. 1 and 1.0 differ."""
        names = [*names, *filter(self._is_set, later)]
        return msgspec.json.encode([getattr(self, name) for name in names], order="sorted")

    def learner_part(self) -> bytes:
        """What decides how the learner learns from what it is told."""
        return self._encoded(_LEARNER, _LEARNER_LATER)

    def learning(self) -> bytes:
        """What decides how the log is learnt from: a change of it folds the log again."""
        return self.learner_part() + self._encoded(_GUARDS, _GUARDS_LATER)

    def generation(self) -> int:
        """32 bits that tell learners apart: the note that one wrote means nothing to another."""
        return zlib.crc32(self.learner_part())

    def changed(self, changes: dict[str, Setting]) -> "Config":
        """These settings with some of them changed. What says which guards there are says all of it."""
        short = [name for name in ("guard", "guard_settings") if name in changes]
        if changes.get("guards") is not None and short:
            raise ValueError(f"guards names each guard with its settings: give it without {' and '.join(short)}")
        if self.guards is not None and short == ["guard_settings"]:
            names = ", ".join(one.guard for one in self.guards)
            raise ValueError(f"guard_settings does not say of which guard: this board has {names}; give guards")
        settings: dict[str, Any] = {**msgspec.to_builtins(self), **changes}
        if "collection" in changes:
            settings["collection"] = self._collection_with(changes["collection"])
        if self.guards is not None and "guard" in changes:
            settings |= {"guards": None, "guard_settings": changes.get("guard_settings", {})}
        config = msgspec.convert(settings, Config)
        if config.guards is not None and "guards" in changes:
            config = config._guarded(config.guards)
        return config

    def _collection_with(self, changes: Any) -> dict[str, Any]:
        """What makes this board a collection, with some of it changed."""
        if self.collection is None or not isinstance(changes, dict):
            raise ValueError("a board with items cannot become a collection, nor a collection such a board")
        before: dict[str, Any] = msgspec.to_builtins(self.collection)
        for name in _FIXED:
            if changes.get(name, before[name]) != before[name]:
                raise ValueError(f"{name} says what queries are known by, {before[name]} here: it cannot change")
        return {**before, **changes}

    def _guarded(self, guards: list[GuardChoice]) -> "Config":
        """These settings with several guards, or one, which `guard` is then as well; none is refused."""
        if not guards:
            raise ValueError("guards must name at least one guard, or be null; the guard Anyone hears everybody")
        several = guards if len(guards) > 1 else None
        return msgspec.structs.replace(
            self, guards=several, guard=guards[-1].guard, guard_settings=guards[-1].settings
        )

    def guard_choices(self) -> list[GuardChoice]:
        """Every guard that was chosen, one or several."""
        return [GuardChoice(self.guard, self.guard_settings)] if self.guards is None else self.guards

    def learning_as(self, other: "Config") -> "Config":
        """These settings, but learning as others do."""
        names = _LEARNER + _LEARNER_LATER + _GUARDS + _GUARDS_LATER
        return msgspec.structs.replace(self, **{name: getattr(other, name) for name in names})

    def check_together(self) -> None:
        """Refuse settings of which each may be, but not with the others."""
        if self.settle is not None and not 0 <= self.settle <= self.lifetime:
            raise ValueError(f"settle must be from 0 to the lifetime, {self.lifetime:g}, not {self.settle!r}")
        if self.most_open * self.length > _MOST_PLACES:
            most = _MOST_PLACES // self.length
            raise ValueError(f"most_open must be from 1 to {most} at length {self.length}, not {self.most_open!r}")
        if "goal" in self.settings:
            raise ValueError("goal is a setting of the board, beside settings: not of the learner")
        for own in (self.settings, *(one.settings for one in self.guard_choices())):
            for name, value in own.items():
                if isinstance(value, int) and abs(value) > 2**53:
                    raise ValueError(f"setting {name} must be at most 2**53, not {value!r}")
        if self.rules is not None:
            self.rules.made()
        if self.guards is not None and "reject_impossible" in self.settings:
            raise ValueError("reject_impossible among the settings stands for the guard Plausible: name it in guards")


NEW_BOARD = Config(most_clicks="usual")  # of a board that is made now; the logs of earlier ones do not limit clicks
_NEW_COLLECTION = Config(most_clicks="usual", collection=CollectionSettings())
_DEFAULT = Config()
# what each setting may be
_HINTS = typing.get_type_hints(Config, include_extras=True)
COLLECTION_HINTS = typing.get_type_hints(CollectionSettings, include_extras=True)


def new_collection(changes: dict[str, Any]) -> Config:
    """The settings of a new collection; refused where they contradict one another."""
    own = msgspec.convert(changes.get("collection", {}), CollectionSettings)
    others = {name: value for name, value in changes.items() if name != "collection"}
    return msgspec.structs.replace(_NEW_COLLECTION, collection=own).changed(others)


def with_settings(
    base: type[msgspec.Struct], optional: bool = False, without: Collection[str] = ("collection",), **others: Any
) -> Any:
    """A struct with the fields of `base` and then one for each setting; with `optional`, each may be left out.

    `without`: settings that it does not have; `others`: what some may be there instead, or are beside them.
    """
    fields: list[Any] = [(name, hint) for name, hint in (_HINTS | others).items() if name not in without]
    if optional:
        fields = [(name, hint | UnsetType, UNSET) for name, hint in fields]
    return msgspec.defstruct(base.__name__, fields, bases=(base,))


def out_of_range(name: str, value: Any) -> str:
    """What is wrong with the value of a setting that is outside of its range."""
    return f"{name} must be {(RANGES | COLLECTION_RANGES)[name]}, not {value!r:.80}"


def _metas(hint: Any) -> Iterator[Meta]:
    if typing.get_origin(hint) is Annotated:
        yield from (extra for extra in hint.__metadata__ if isinstance(extra, Meta))
    for part in typing.get_args(hint):
        yield from _metas(part)


def _words(meta: Meta) -> str:
    unit = f" {meta.description}" if meta.description else ""
    if meta.gt is not None:
        return f"more than {meta.gt} and at most {meta.le}{unit}"
    return f"from {meta.ge} to {meta.le}{unit}"


# of each setting that has one, in words
RANGES = {name: _words(meta) for name, hint in _HINTS.items() for meta in _metas(hint)}
COLLECTION_RANGES = {name: _words(meta) for name, hint in COLLECTION_HINTS.items() for meta in _metas(hint)}
