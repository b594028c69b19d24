"""The parser of every command, whose help names the defaults that mean something."""

import argparse
from typing import Any


class Parser(argparse.ArgumentParser):
    """A parser, and those of its commands, with `DefaultsFormatter`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": DefaultsFormatter, **settings})


class DefaultsFormatter(argparse.HelpFormatter):
    """Adds a default to the help of each option that has one, unless its help says it already."""

    def _get_help_string(self, action: argparse.Action) -> str:
        words, default = action.help or "", action.default
        empty = default is None or default is argparse.SUPPRESS or isinstance(default, bool) or default in ([], "")
        if empty or "(default" in words:
            return words
        return f"{words} (default: {_written(default).replace('%', '%%')})"


def _written(default: Any) -> str:
    """A default as somebody reads it: names side by side, large numbers with commas."""
    if isinstance(default, list | tuple):
        return " ".join(map(str, default))
    if isinstance(default, int | float):
        return f"{default:,.15g}" if abs(default) >= 10_000 else f"{default:g}"
    return str(default)
