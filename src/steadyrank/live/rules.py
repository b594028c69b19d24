"""Rules that a list must keep: their syntax, and errors for rules that contradict one another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..core.refusals import Refused, not_text
from ..core.settings import closest, real, whole

BOOST = 0.1, 10.0  # range of the factor: beyond it, use `exclude` or `pins`
MOST_RULES = 1_000  # pins and boosts of each kind
MOST_SETS = 100  # groups and includes of each kind
MOST_MEMBERS = 100_000  # items that rules name in total
WhenImpossible: TypeAlias = Literal["refuse", "best"]


@dataclass(frozen=True)
class Members:
    """The items that a rule is about: named ones, those of each category of feature `by`, or new ones."""

    items: tuple[str, ...] = ()
    by: str = ""
    new: bool = False


@dataclass(frozen=True)
class Group(Members):
    """At most `most` of its items in a list; with `by`, of each category."""

    most: int = 1


@dataclass(frozen=True)
class Include(Members):
    """At least `least` of its items in a list; with `by`, of each category."""

    least: int = 1


class Rules:
    """Rules for lists. Each list keeps all of them, and is the best list that does.

    `pins`: items by name, each with its place, counted from 1. `exclude`: items that are not shown. `boosts`: items,
    each with a factor from 0.1 to 10 for its estimated attraction. `groups`: by names of your choice; at most so many
    items of each are in a list, as `{"items": [...], "most": 3}`; `{"by": "brand", "most": 3}` makes a group for each
    category of a feature of items. `include`: likewise, at least so many, as `{"items": [...], "least": 1}`; `{"by":
    "category", "least": 1}` applies to each category that has items; `{"new": True, "least": 1}` to new items, while
    there are any. `when_impossible`: "refuse" the list with an error that names the contradicting rules, or make the
    "best" one: rules are kept in the order exclude, pins by place, groups, include, boosts, and those that cannot be
    kept are named.
    """

    def __init__(
        self,
        *,
        pins: Mapping[str, int] | None = None,
        exclude: Sequence[str] = (),
        boosts: Mapping[str, float] | None = None,
        groups: Mapping[str, Mapping[str, Any]] | None = None,
        include: Mapping[str, Mapping[str, Any]] | None = None,
        when_impossible: WhenImpossible = "refuse",
    ) -> None:
        self.pins = {item: whole(f"pin {item!r:.80}", place, 1, 10_000) for item, place in _named("pins", pins)}
        self.exclude = tuple(dict.fromkeys(_items("exclude", exclude)))
        self.boosts = {item: real(f"boost {item!r:.80}", f, *BOOST) for item, f in _named("boosts", boosts)}
        self.groups = {name: _group(f"group {name!r:.80}", group) for name, group in _named("groups", groups)}
        self.include = {name: _include(f"include {name!r:.80}", one) for name, one in _named("include", include)}
        if when_impossible not in ("refuse", "best"):
            raise ValueError(f"when_impossible must be 'refuse' or 'best', not {when_impossible!r:.80}")
        self.when_impossible: WhenImpossible = when_impossible
        members = [*self.groups.values(), *self.include.values()]
        named = len(self.exclude) + sum(len(one.items) for one in members)
        if named > MOST_MEMBERS:
            raise ValueError(f"rules name at most {MOST_MEMBERS:,} items in all, not {named:,}")

    @classmethod
    def of(cls, rules: "Rules | Mapping[str, Any] | None") -> "Rules | None":
        """Convert a mapping of the arguments to `Rules`; None stays None."""
        if rules is None or isinstance(rules, Rules):
            return rules or None
        if not isinstance(rules, Mapping):
            raise ValueError(f"rules must be Rules or a mapping of {', '.join(_KINDS)}, not {rules!r:.80}")
        for name in rules:
            if name not in _KINDS:
                raise ValueError(closest("rule", str(name)[:80], _KINDS))
        return cls(**rules) or None

    def __bool__(self) -> bool:
        """Whether there is any rule."""
        return bool(self.pins or self.exclude or self.boosts or self.groups or self.include)

    def named(self) -> set[str]:
        """The items that the rules name."""
        sets = [*self.groups.values(), *self.include.values()]
        return {*self.pins, *self.exclude, *self.boosts, *(item for one in sets for item in one.items)}

    def joined(self, others: "Rules | None") -> "Rules":
        """These rules and `others`; if both mention the same item or name, `others` win."""
        if others is None:
            return self
        both = Rules.__new__(Rules)
        both.pins, both.boosts = self.pins | others.pins, self.boosts | others.boosts
        both.exclude = tuple(dict.fromkeys(self.exclude + others.exclude))
        both.groups, both.include = self.groups | others.groups, self.include | others.include
        both.when_impossible = "best" if "best" in (self.when_impossible, others.when_impossible) else "refuse"
        return both

    def as_best(self) -> "Rules":
        """The same rules, making the best list if they contradict one another."""
        return self.joined(BEST)

    def plain(self) -> dict[str, Any]:
        """The rules as a JSON mapping that `of` accepts, without empty parts."""
        members: dict[str, Any] = {"pins": self.pins, "exclude": list(self.exclude), "boosts": self.boosts}
        members["groups"] = {name: _as_mapping(one, "most", one.most) for name, one in self.groups.items()}
        members["include"] = {name: _as_mapping(one, "least", one.least) for name, one in self.include.items()}
        members = {name: value for name, value in members.items() if value}
        return members if self.when_impossible == "refuse" else members | {"when_impossible": self.when_impossible}

    def __repr__(self) -> str:
        return f"Rules(**{self.plain()!r})"


_KINDS = ("pins", "exclude", "boosts", "groups", "include", "when_impossible")


def _named(what: str, given: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} are given by name, not as {given!r:.80}")
    for name in given:
        if not isinstance(name, str):
            raise ValueError(f"{what} are given by name, which is text, {not_text(name)}")
    most = MOST_SETS if what in ("groups", "include") else MOST_RULES
    if len(given) > most:
        raise ValueError(f"{what} may be at most {most}, not {len(given)}")
    return list(given.items())


def _items(what: str, given: Any) -> list[str]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError(f"{what} must be several names of items, not {given!r:.80}")
    for item in given:
        if not isinstance(item, str):
            raise ValueError(f"{what} must be names of items, which are text, {not_text(item)}")
    return list(given)


def _members(what: str, given: Any, number: str, ways: Sequence[str]) -> tuple[Any, int]:
    """Parse the items that a rule is about, and its number."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} is given as {{{ways[0]!r}: [...], {number!r}: 1}}, not {given!r:.80}")
    for name in given:
        if name not in (*ways, number):
            raise ValueError(f"{what} has {', '.join(ways)} and {number}, no {name!r:.80}")
    chosen = [way for way in ways if given.get(way)]
    if len(chosen) != 1:
        raise ValueError(f"{what} needs one of {', '.join(ways)}, not {len(chosen)} of them")
    if chosen[0] == "items":
        value: Any = tuple(dict.fromkeys(_items(f"items of {what}", given["items"])))
    elif chosen[0] == "by":
        value = given["by"]
        if not isinstance(value, str):
            raise ValueError(f"{what}: by must name a feature of items, not {value!r:.80}")
    else:
        value = True
        if given["new"] is not True:
            raise ValueError(f"{what}: new must be true, or left out, not {given['new']!r:.80}")
    return {chosen[0]: value}, whole(f"{number} of {what}", given.get(number, 1), 1, 1_000)


def _group(what: str, given: Any) -> Group:
    if isinstance(given, Mapping) and "most" not in given:
        raise ValueError(f"{what} needs most: how many of its items a list may have")
    members, most = _members(what, given, "most", ("items", "by"))
    return Group(**members, most=most)


def _include(what: str, given: Any) -> Include:
    members, least = _members(what, given, "least", ("items", "by", "new"))
    return Include(**members, least=least)


def _as_mapping(one: Members, number: str, value: int) -> dict[str, Any]:
    members: Any = {"items": list(one.items)} if one.items else {"by": one.by} if one.by else {"new": True}
    return {**members, number: value}


BEST = Rules(when_impossible="best")


def contradiction(labels: Sequence[str]) -> Refused:
    """The error for rules that cannot be kept together: usually two of them."""
    if len(labels) == 1:
        return Refused(422, f"the rules cannot all be kept: {labels[0]}")
    return Refused(422, f"the rules cannot all be kept: {', '.join(labels[:-1])} and {labels[-1]} contradict")
