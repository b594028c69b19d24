"""What is typed on the command line, as values."""

from importlib import import_module
from typing import Any


def parse_choice(text: str) -> tuple[str, dict[str, Any]]:
    """`NAME:a=1,b=x` as a name and settings; values become whole numbers, numbers, True/False/None or words."""
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
    """A number of rounds, or a share of the horizon such as `10%`."""
    try:
        budget = round(float(text[:-1]) / 100 * horizon) if text.endswith("%") else int(text)
    except (ValueError, OverflowError):
        raise ValueError(f"--budget must be a number of rounds or a share such as 10%, not {text!r}") from None
    if not 0 <= budget <= horizon:
        raise ValueError(
            f"--budget must be from 0 to the horizon of {horizon} rounds, or from 0% to 100%, not {text!r}"
        )
    return budget


def need_report(*packages: str) -> None:
    """Say how to install what figures, results, data sets and audits need, where one of the packages is missing."""
    try:
        for package in packages or ("matplotlib", "polars"):
            import_module(package)
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is missing; install it with: pip install 'steadyrank[report]'") from None
