"""Estimate the memory of a board before allocating any of it.

A learner's memory grows with the number of items, times segments, and by 8 bytes an item for each feature.
The exact amount is measured on two small boards: each further item costs as much as the difference.
"""

from typing import NamedTuple

from .impression_buffer import ImpressionBuffer
from .learner_state import LearnerState
from .outcomes import CLICK_BYTES

SMALL = 2_048  # items of a board that is not checked
_NAME = 150  # bytes of an item's name and its entry in the dictionary of slots
_KEY = 120  # bytes of an impression's entry in the dictionary of ids
_PROBE_SIZES = 1_024, 2_048


class BoardMemory(NamedTuple):
    """Memory of boards of a kind: fixed bytes, bytes per item, and bytes per impression."""

    fixed: float
    item: float
    impression: float
    kind: str  # what needs the memory, in words

    def bytes_of(self, items: int, most_open: int) -> float:
        """Bytes of a board with so many items and remembered impressions."""
        return self.fixed + self.item * items + self.impression * most_open

    def most_items(self, most: float, most_open: int) -> int:
        """The largest number of items of a board with at most `most` bytes."""
        return max(0, int((most - self.fixed - self.impression * most_open) / self.item))

    def check(self, items: int, most_open: int, most: float, room: int = 0) -> None:
        """Refuse a board that needs more than `most` bytes. `room`: number of items for which memory is allocated."""
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
    """Memory of boards like this one, with any number of items."""
    small, large = (_state_with(state, n) for n in _PROBE_SIZES)
    each = (_bytes_in(large) - _bytes_in(small)) / (_PROBE_SIZES[1] - _PROBE_SIZES[0])
    ring = ImpressionBuffer(small, True, True, 8)
    impression = sum(array.nbytes for array in ring.arrays().values()) / ring.places + _KEY
    impression += CLICK_BYTES if small.aims_at_value else 0  # otherwise few clicks are remembered for their outcomes
    segments, features = len(state.features.segments), state.features.size
    kind = f"{segments} segments x " if segments else f"{features} features x " if features else ""
    return BoardMemory(_bytes_in(small) - each * _PROBE_SIZES[0], each + _NAME, impression, kind)


def _state_with(state: LearnerState, n: int) -> LearnerState:
    """A state with the same settings and n unknown items."""
    learner = state.learner_class, state.settings, state.seed, state.new_share
    guards = [(post.guard_class, post.settings) for post in state.gate.posts]
    return LearnerState(map(str, range(n)), state.length, *learner, guards, state.gate.shadow, state.features)


def _bytes_in(state: LearnerState) -> int:
    return sum(array.nbytes for array in state.arrays().values())


def room_for(items: int, capacity: int) -> int:
    """Number of items for which a board of this capacity allocates memory once it has so many."""
    while capacity < items:
        capacity *= 2
    return capacity


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
