"""How many bytes a board of some items takes, told before any of them is taken.

Memory of a learner grows with the number of items, times segments, and by 8 bytes an item for each of its features.
What exactly it takes is seen by making two small ones: what the second has more, each further item takes as well.
"""

from typing import NamedTuple

from .impression_buffer import ImpressionBuffer
from .learner_state import LearnerState
from .outcomes import CLICK_BYTES

SMALL = 2_048  # items of a board that is not asked about
_NAME = 150  # bytes of an item's name, and of what leads from there to its slot
_KEY = 120  # bytes that lead from an impression's id to it
_PROBED = 1_024, 2_048


class BoardMemory(NamedTuple):
    """What boards of a kind take: bytes whatever the number of items, bytes an item, and bytes an impression."""

    fixed: float
    item: float
    impression: float
    kind: str  # in words: what it is that takes so much

    def bytes_of(self, items: int, most_open: int) -> float:
        """Bytes of a board with so many items, and impressions remembered."""
        return self.fixed + self.item * items + self.impression * most_open

    def most_items(self, most: float, most_open: int) -> int:
        """How many items a board may have that takes so many bytes at most."""
        return max(0, int((most - self.fixed - self.impression * most_open) / self.item))

    def check(self, items: int, most_open: int, most: float, room: int = 0) -> None:
        """Refuse a board that needs more than so many bytes. `room`: for how many items memory is taken."""
        need = self.bytes_of(max(items, room), most_open)
        if need <= most:
            return
        what = f"{self.kind}{items:,} items"
        if room > items:
            what += f", with room for {room:,}, as memory doubles,"
        remembered = self.impression * most_open
        also = ""
        if remembered > most / 4:
            also = f", {_size(remembered)} of it for {most_open:,} lists remembered (most_open)"
        fits = self.most_items(most, most_open)
        raise ValueError(
            f"{what} need {_size(need)}{also}; a board may take {_size(most)}: at most {fits:,} items"
            + (f" with {self.kind.removesuffix(' x ')}" if self.kind else "")
        )


def memory_of(state: LearnerState) -> BoardMemory:
    """What boards take that are like one, with any number of items."""
    small, large = (_like(state, n) for n in _PROBED)
    each = (_bytes_in(large) - _bytes_in(small)) / (_PROBED[1] - _PROBED[0])
    ring = ImpressionBuffer(small, True, True, 8)
    impression = sum(array.nbytes for array in ring.arrays().values()) / ring.places + _KEY
    impression += CLICK_BYTES if small.aims_at_value else 0  # else few clicks are remembered for what came of them
    segments, features = len(state.features.segments), state.features.size
    kind = f"{segments} segments x " if segments else f"{features} features x " if features else ""
    return BoardMemory(_bytes_in(small) - each * _PROBED[0], each + _NAME, impression, kind)


def _like(state: LearnerState, n: int) -> LearnerState:
    """One with the same settings and so many items of which nothing is known."""
    learner = state.learner_class, state.settings, state.seed, state.new_share
    guards = [(post.guard_class, post.settings) for post in state.gate.posts]
    return LearnerState(map(str, range(n)), state.length, *learner, guards, state.gate.shadow, state.features)


def _bytes_in(state: LearnerState) -> int:
    return sum(array.nbytes for array in state.arrays().values())


def room_for(items: int, capacity: int) -> int:
    """For how many items a board of this capacity takes memory when it has so many."""
    while capacity < items:
        capacity *= 2
    return capacity


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
