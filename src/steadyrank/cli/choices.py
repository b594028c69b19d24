"""Options and values that several commands share, and classes loaded from the user's own Python file."""

import argparse
import importlib.util
import os
import pathlib
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def add_world(sub: Any, profile: str) -> None:
    """Add options of a simulated world, except adversary and number of seeds; `profile`: the default."""
    sub.add_argument("--profile", default=profile, help="a name of `steadyrank profiles`, or a built file")
    sub.add_argument(
        "--mapping", default=None, help="how ratings become attractions; `steadyrank profiles` lists mappings"
    )
    sub.add_argument(
        "--schedule", default="front", help="when the adversary acts: front, spread, late, bursts, ramp, swing"
    )
    sub.add_argument("--users", default="Cascade", help="NAME or NAME:setting=value,...")
    sub.add_argument("--guard", default="Anyone", help="NAME or NAME:setting=value,...; `steadyrank guards`")
    sub.add_argument("--length", type=int, default=10, help="items per list")
    sub.add_argument("--horizon", type=int, default=40_000, help="number of rounds")


def add_server(sub: Any) -> None:
    """Add options for the address of a running service and its API key, which `key_of` reads."""
    sub.add_argument("--server", default="http://127.0.0.1:8080", metavar="ADDRESS", help="address of the service")
    sub.add_argument("--key-file", type=pathlib.Path, default=None, metavar="FILE", help="file with the API key")


def key_of(options: argparse.Namespace) -> str | None:
    """The API key from --key-file or STEADYRANK_KEY; None without."""
    if options.key_file is None:
        return os.environ.get("STEADYRANK_KEY")
    return str(options.key_file.read_text()).strip()


def classes_in(path: pathlib.Path) -> list[type]:
    """Import a Python file and return the classes it defines, in order; ValueError if it cannot be imported."""
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is not a file")
    name = f"own_{path.stem}"  # prefixed, so that a file called random.py does not replace another module
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{str(path)!r} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}") from None
    return [thing for thing in vars(module).values() if isinstance(thing, type) and thing.__module__ == name]


def is_learner(cls: type) -> bool:
    """Whether a class has the methods of a learner."""
    return hasattr(cls, "rank") and hasattr(cls, "update")


def learners_in(path: pathlib.Path) -> list[type]:
    """The learners that a Python file defines; ValueError if there are none."""
    classes = [cls for cls in classes_in(path) if is_learner(cls)]
    if not classes:
        raise ValueError(f"{path} defines no learner: a NamedTuple with create, rank and update")
    return classes


def check_own(cls: type, check: Callable[[type], None]) -> None:
    """Raise ValueError if the user's own class fails a check of the contract."""
    try:
        check(cls)
    except Exception as error:
        raise ValueError(f"{cls.__name__} does not keep the contract: {type(error).__name__}: {error}") from None


def parse_choice(text: str) -> tuple[str, dict[str, Any]]:
    """Parse `NAME:a=1,b=x` into name and settings; values become int, float, True, False, None or text."""
    name, _, rest = text.partition(":")
    settings: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{part!r} in {text!r} must be setting=value")
        settings[key.strip()] = _parse_value(value.strip())
    return name, settings


def _parse_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_budget(text: str, horizon: int) -> int:
    """Parse a number of rounds, or a share of the horizon such as `10%`."""
    try:
        budget = round(float(text[:-1]) / 100 * horizon) if text.endswith("%") else int(text)
    except (ValueError, OverflowError):
        raise ValueError(f"--budget must be a number of rounds or a share such as 10%, not {text!r}") from None
    if not 0 <= budget <= horizon:
        raise ValueError(
            f"--budget must be from 0 to the horizon of {horizon} rounds, or from 0% to 100%, not {text!r}"
        )
    return budget


def require_report_extra(*packages: str) -> None:
    """Raise ValueError, with how to install it, if a package of the extra `report` is missing."""
    try:
        for package in packages or ("matplotlib", "polars"):
            import_module(package)
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is missing; install it with: pip install 'steadyrank[report]'") from None
