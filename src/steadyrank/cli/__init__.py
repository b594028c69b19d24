"""The command line. Commands are thin, and import heavy modules only when they run."""

import argparse
import difflib
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..core.version import __version__
from . import (
    audit,
    compare,
    compare_rankers,
    emit,
    history,
    ingest,
    judgments,
    keys,
    kinds,
    leaderboard,
    profile,
    replay,
    reproduce,
    serve,
    simulate,
    warm,
)

_COMMANDS = (
    *(audit, serve, history, compare_rankers, replay, judgments, ingest, emit, keys, warm),
    *(simulate, kinds, compare, leaderboard, reproduce, profile),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code.

    0, 2 for bad input, 3 for a limit exceeded, 130 when interrupted, 141 for a broken pipe.
    """
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        _refuse(options.parsers[options.command], unknown)
    try:
        code: int | None = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, for instance `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (KeyError, ValueError, OSError, MemoryError) as error:
        message = error.args[0] if isinstance(error, KeyError) else error
        print(f"steadyrank {options.command}: {message}", file=sys.stderr)
        return 2
    return code or 0


class _Parser(argparse.ArgumentParser):
    """A parser, and those of its commands, with `_DefaultsFormatter`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _DefaultsFormatter, **settings})


class _DefaultsFormatter(argparse.HelpFormatter):
    """Adds the default to the help of each option that has one, unless the help already states it."""

    def _get_help_string(self, action: argparse.Action) -> str:
        words, default = action.help or "", action.default
        empty = default is None or default is argparse.SUPPRESS or isinstance(default, bool) or default in ([], "")
        if empty or "(default" in words:
            return words
        return f"{words} (default: {_formatted(default).replace('%', '%%')})"


def _formatted(default: Any) -> str:
    """Format a default for display: lists as words, large numbers with commas."""
    if isinstance(default, list | tuple):
        return " ".join(map(str, default))
    if isinstance(default, int | float):
        return f"{default:,.15g}" if abs(default) >= 10_000 else f"{default:g}"
    return str(default)


def _refuse(command: argparse.ArgumentParser, unknown: Sequence[str]) -> NoReturn:
    """End with what the command does not take, and what was perhaps meant."""
    flags = [flag for action in command._actions for flag in action.option_strings]
    near = [difflib.get_close_matches(text.partition("=")[0], flags, n=1, cutoff=0.7) for text in unknown]
    meant = dict.fromkeys(itertools.chain.from_iterable(near))
    hint = f": did you mean {' or '.join(meant)}?" if meant else f"; `{command.prog} --help` shows what there is"
    command.exit(2, f"{command.prog}: unknown argument {' '.join(unknown)}{hint}\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="steadyrank",
        description="Learn rankings from clicks, some of which are false.",
        epilog="To begin with: `steadyrank audit clicks.csv` if you have click logs, else `steadyrank serve --demo`. "
        "`steadyrank COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"steadyrank {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _COMMANDS:
        module.add(commands)
    parser.set_defaults(parsers=commands.choices)
    return parser
