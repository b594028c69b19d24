"""`steadyrank learners`, `adversaries`, `users` and `guards`: list what is available, with settings."""

import argparse
import inspect
import typing
from typing import Any


def add(commands: Any) -> None:
    """Add the listing commands."""
    kinds = (("learners", "learner"), ("adversaries", "adversary"), ("users", "users"), ("guards", "guard"))
    for kind, one in kinds:
        sub = commands.add_parser(
            kind,
            help=f"list the {kind} and their settings",
            description=f"List the {kind} with a description of each.",
        )
        sub.add_argument("name", nargs="?", help="show only this one, with its settings explained")
        sub.set_defaults(run=_list, kind=kind, one=one)


def _list(options: argparse.Namespace) -> None:
    import steadyrank

    from ..core.discovery import find_class

    classes: dict[str, type] = getattr(steadyrank, options.kind)()
    if options.name is None:
        width = max(map(len, classes))
        for name, cls in classes.items():
            print(f"{name:<{width}}  {_summary(cls)}{_shape(cls)}")
            for line in _settings(cls):
                print(f"{'':<{width}}    {line}")
        return
    cls = find_class(options.one, options.name, classes)
    print(f"{cls.__name__}\n\n{inspect.getdoc(cls)}\n")
    for line in _settings(cls):
        print(f"    {line}")


def _shape(cls: type) -> str:
    """For an adversary: whether a cascade user could have sent its feedback."""
    cascade = getattr(cls, "cascade", None)
    return "" if cascade is None else f" [feedback {'could' if cascade else 'could not'} come from a cascade user]"


def _summary(cls: type) -> str:
    return (inspect.getdoc(cls) or "").split("\n")[0]


def _settings(cls: type) -> list[str]:
    """Each setting as `name = default`, with the literal values it accepts."""
    from ..core.discovery import settings_of

    hints = typing.get_type_hints(cls.create)  # type: ignore[attr-defined]
    lines = []
    for name, parameter in settings_of(cls).items():
        words = [str(word) for word in _words(hints[name])]
        lines.append(f"{name} = {parameter.default}" + (f"   ({' | '.join(words)})" if words else ""))
    return lines


def _words(hint: Any) -> list[Any]:
    """The literal values in a type, including those inside unions."""
    if typing.get_origin(hint) is typing.Literal:
        return list(typing.get_args(hint))
    return [word for part in typing.get_args(hint) for word in _words(part)]
