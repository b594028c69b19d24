"""The command line of another version of steadyrank: `python other_version.py older serve ...`, or `newer`.

`older` does not know the event of retired items, like a version from before it existed. `newer` has its own
storage format, with one more table, and upgrades stores to it.
"""

import sys
from typing import Union, get_args

import msgspec

from steadyrank.cli import main
from steadyrank.service.board import events
from steadyrank.service.storage import tables


def become_older():
    """Remove a kind of event."""
    known = tuple(kind for kind in get_args(events.AnyEvent) if kind is not events.Retired)
    known = Union[known]  # noqa: UP007  (of classes that are found here)
    events._decoder, events._list_decoder = msgspec.msgpack.Decoder(known), msgspec.msgpack.Decoder(list[known])


def become_newer():
    """Add a storage format."""
    tables._UPGRADES[tables.FORMAT] = "CREATE TABLE novelties (one WHOLE PRIMARY KEY)"
    tables.FORMAT += 1


if __name__ == "__main__":
    {"older": become_older, "newer": become_newer}[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
