"""The settings of a board, with their types, ranges and defaults."""

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
Known: TypeAlias = dict[str, float | str | None]  # features by name; None: unknown
MOST_LIFETIME = 30 * 86_400  # seconds
_MOST_PLACES = 10_000_000  # in all open lists of a board together
_Minutely: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]  # per client
OwnSettings: TypeAlias = dict[str, bool | int | float | str]  # of a learner or a guard


class FeatureKinds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Features of items and of visits by name, each as a list: lowest and highest number, or the categories."""

    items: dict[str, list[float | str]] = {}
    visits: dict[str, list[float | str]] = {}


class GuardChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A guard by name, with its settings."""

    guard: str
    settings: OwnSettings = {}


class CollectionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a collection: a board that re-ranks an engine's results for any number of queries."""

    # expected future visits of a query, per visit that it has had
    explore: Annotated[float, Meta(ge=0, le=1e6)] = 3.0
    # of an item in a query, after which older looks are forgotten
    memory: Annotated[float, Meta(ge=64, le=1e9, description="looks")] = 300.0
    # the chance that each place is looked at; None: every examined place was
    attention: list[float] | None = None
    fold: bool = True  # treat queries that differ only in case, width or white space as one
    keep_queries: bool = False  # store the text of queries
    # pairs of query and item kept in memory; the queries with the fewest visits are evicted first
    most_pairs: Annotated[int, Meta(ge=FEWEST_PAIRS, le=MOST_PAIRS)] = 4_000_000
    outcomes: bool = False  # outcomes of clicks are reported


class GroupRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """At most `most` of the given items in a list; with `by`: of each category of an item feature."""

    most: int
    items: list[str] = []
    by: str = ""


class IncludeRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """At least `least` of the given items in a list; with `by`: of each category; with `new`: of the new items."""

    least: int = 1
    items: list[str] = []
    by: str = ""
    new: bool = False


class RulesSetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rules that every list must keep (docs/rules.md).

    Pins map items to places from 1, boosts map items to factors, and groups and includes have names.
    """

    pins: dict[str, int] = {}
    exclude: list[str] = []
    boosts: dict[str, float] = {}
    groups: dict[str, GroupRule] = {}
    include: dict[str, IncludeRule] = {}
    when_impossible: Literal["refuse", "best"] = "refuse"

    def to_rules(self) -> Rules:
        """The rules, validated."""
        return Rules(**msgspec.to_builtins(self))


_FIXED = ("fold", "keep_queries")  # they decide how queries are identified, so they cannot change
# settings that decide how the learner learns, and which events it hears. Boards that leave the later ones at their
# defaults must behave, and hash, as before these existed
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
)  # only of boards with items of their own


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a board. msgspec checks the ranges where settings enter from outside."""

    length: Annotated[int, Meta(ge=1, le=1_000)] = 10
    learner: str = "SteadyRank"
    settings: OwnSettings = {}
    goal: Goal = "click"  # what lists maximize: clicks, or the value of their outcomes
    # after a list was shown, during which outcomes of its clicks can be reported
    outcome_days: Annotated[float, Meta(gt=0, le=365, description="days")] = 30.0
    seed: Annotated[int, Meta(ge=0, le=2**40)] = 0
    new_share: Annotated[float, Meta(ge=0, le=1)] = 0.2
    lifetime: Annotated[float, Meta(gt=0, le=MOST_LIFETIME, description="seconds")] = 1800.0
    # None: the lifetime. 0: answers are learnt from at once, in any order
    settle: Annotated[float, Meta(ge=0, le=MOST_LIFETIME, description="seconds")] | None = None
    count_unanswered: bool = True
    most_open: Annotated[int, Meta(ge=1, le=_MOST_PLACES)] = 100_000
    public_feedback: bool = True  # a signed impression id suffices to answer it
    bind_client: bool = False  # the sender of an answer must name the client that got the list
    client_minute: _Minutely = 60  # answers per client and minute
    client_lists: _Minutely = 120  # lists per client and minute
    # answers to lists without a client, in total per minute
    anonymous_minute: Annotated[int, Meta(ge=1, le=100_000_000)] = 60_000
    # after which the number of a client is forgotten
    client_days: Annotated[float, Meta(gt=0, le=3_650)] = 1.0
    guard: str = "ClientTrust"  # decides whose feedback reaches the learner
    guard_settings: OwnSettings = {}
    guards: list[GuardChoice] | None = None  # two or more, the last of which is `guard`; None: only `guard`
    # in one answer that is learnt from; None: no limit
    most_clicks: Annotated[int, Meta(ge=1, le=1_000, description="clicks")] | Literal["usual"] | None = None
    # kinds of cohort that requests may name; None: the first kinds that requests name
    cohorts: list[str] | None = None
    shadow: bool = False  # the guard judges but blocks nothing
    observed_items: Annotated[int, Meta(ge=0, le=1_000_000)] = 10_000  # that lists of other rankers may add
    interleave: bool = False  # lists may interleave the caller's own list with ours
    # share of mixed lists that undetected bots may have without changing a verdict
    interleave_bots: Annotated[float, Meta(ge=0, le=0.9)] = 0.15
    features: FeatureKinds | None = None  # features of items and visits; None: no features
    segments: list[str] | None = None  # of the visits, each with a list of its own; None: one list for all
    collection: CollectionSettings | None = None  # of a collection; None: a board with items of its own
    rules: RulesSetting | None = None  # that every list must keep

    def kept(self) -> dict[str, Any]:
        """The settings as stored in a snapshot; later settings only where set, so that old snapshots stay equal."""
        settings: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in settings.items() if name not in _LATER or self._is_set(name)}

    def feature_space(self) -> FeatureSpace:
        """How features become the learner's numbers. Raises ValueError if the declaration is invalid."""
        space = NO_FEATURES if self.features is None else FeatureSpace(self.features.items, self.features.visits)
        if space.segments:
            names = ", ".join(space.segments)
            raise ValueError(f"a list for each of {names:.120} needs the setting segments, not features")
        return space if self.segments is None else by_segment(self.segments, space)

    def _is_set(self, name: str) -> bool:
        return bool(getattr(self, name) != getattr(_DEFAULT, name))

    def _encoded(self, names: Sequence[str], later: Sequence[str]) -> bytes:
        """Encode the settings `names`, and those of `later` that are set, as JSON. 1 and 1.0 differ."""
        names = [*names, *filter(self._is_set, later)]
        return msgspec.json.encode([getattr(self, name) for name in names], order="sorted")

    def learner_part(self) -> bytes:
        """The settings that decide how the learner learns from its feedback, encoded."""
        return self._encoded(_LEARNER, _LEARNER_LATER)

    def learning(self) -> bytes:
        """The settings that decide how the log is learnt from, encoded: if they change, the log is replayed."""
        return self.learner_part() + self._encoded(_GUARDS, _GUARDS_LATER)

    def generation(self) -> int:
        """A 32-bit id of the learner: the note of a list is only meaningful to the learner that wrote it."""
        return zlib.crc32(self.learner_part())

    def changed(self, changes: dict[str, Setting]) -> "Config":
        """A copy with these changes. The settings that choose the guards are checked for contradictions."""
        short = [name for name in ("guard", "guard_settings") if name in changes]
        if changes.get("guards") is not None and short:
            raise ValueError(f"guards names each guard with its settings: give it without {' and '.join(short)}")
        if self.guards is not None and short == ["guard_settings"]:
            names = ", ".join(one.guard for one in self.guards)
            raise ValueError(f"guard_settings does not name a guard, and this board has {names}: use guards")
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
        """The collection settings with these changes. Raises ValueError if they cannot change."""
        if self.collection is None or not isinstance(changes, dict):
            raise ValueError("a board with items cannot become a collection, nor a collection a board with items")
        before: dict[str, Any] = msgspec.to_builtins(self.collection)
        for name in _FIXED:
            if changes.get(name, before[name]) != before[name]:
                raise ValueError(f"{name} decides how queries are identified: it is {before[name]} and cannot change")
        return {**before, **changes}

    def _guarded(self, guards: list[GuardChoice]) -> "Config":
        """A copy with these guards; `guard` becomes the last of them. Raises ValueError for an empty list."""
        if not guards:
            raise ValueError("guards must name at least one guard, or be null; the guard Anyone admits everybody")
        several = guards if len(guards) > 1 else None
        return msgspec.structs.replace(
            self, guards=several, guard=guards[-1].guard, guard_settings=guards[-1].settings
        )

    def guard_choices(self) -> list[GuardChoice]:
        """All chosen guards, one or several."""
        return [GuardChoice(self.guard, self.guard_settings)] if self.guards is None else self.guards

    def learning_as(self, other: "Config") -> "Config":
        """A copy that learns as `other` does."""
        names = _LEARNER + _LEARNER_LATER + _GUARDS + _GUARDS_LATER
        return msgspec.structs.replace(self, **{name: getattr(other, name) for name in names})

    def check_together(self) -> None:
        """Raise ValueError if the settings contradict one another."""
        if self.settle is not None and not 0 <= self.settle <= self.lifetime:
            raise ValueError(f"settle must be from 0 to the lifetime, {self.lifetime:g}, not {self.settle!r}")
        if self.most_open * self.length > _MOST_PLACES:
            most = _MOST_PLACES // self.length
            raise ValueError(f"most_open must be from 1 to {most} at length {self.length}, not {self.most_open!r}")
        if "goal" in self.settings:
            raise ValueError(
                "goal is a setting of the board, not of the learner: give it beside settings, not in them"
            )
        for own in (self.settings, *(one.settings for one in self.guard_choices())):
            for name, value in own.items():
                if isinstance(value, int) and abs(value) > 2**53:
                    raise ValueError(f"setting {name} must be at most 2**53, not {value!r}")
        if self.rules is not None:
            self.rules.to_rules()
        if self.guards is not None and "reject_impossible" in self.settings:
            raise ValueError("reject_impossible among the settings stands for the guard Plausible: name it in guards")


NEW_BOARD = Config(most_clicks="usual")  # the default for new boards; logs of earlier ones do not limit clicks
_NEW_COLLECTION = Config(most_clicks="usual", collection=CollectionSettings())
_DEFAULT = Config()
# the type and range of each setting
_HINTS = typing.get_type_hints(Config, include_extras=True)
COLLECTION_HINTS = typing.get_type_hints(CollectionSettings, include_extras=True)


def new_collection(changes: dict[str, Any]) -> Config:
    """The settings of a new collection. Raises ValueError where they contradict one another."""
    own = msgspec.convert(changes.get("collection", {}), CollectionSettings)
    others = {name: value for name, value in changes.items() if name != "collection"}
    return msgspec.structs.replace(_NEW_COLLECTION, collection=own).changed(others)


def with_settings(
    base: type[msgspec.Struct], optional: bool = False, without: Collection[str] = ("collection",), **others: Any
) -> Any:
    """Define a struct with the fields of `base` and one for each setting; `optional`: all settings may be missing.

    `without`: settings to leave out; `others`: types that replace those of settings, or fields to add.
    """
    fields: list[Any] = [(name, hint) for name, hint in (_HINTS | others).items() if name not in without]
    if optional:
        fields = [(name, hint | UnsetType, UNSET) for name, hint in fields]
    return msgspec.defstruct(base.__name__, fields, bases=(base,))


def out_of_range(name: str, value: Any) -> str:
    """An error message for a setting whose value is out of range."""
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


# the ranges of settings, in words
RANGES = {name: _words(meta) for name, hint in _HINTS.items() for meta in _metas(hint)}
COLLECTION_RANGES = {name: _words(meta) for name, hint in COLLECTION_HINTS.items() for meta in _metas(hint)}
