"""Items side by side with those that have the same counts: what is true of one is true of its group.

Groups lie in the order of their clicks, among equals of their looks. So an item that was looked at moves to the next
group, or opens one there, and an item that was clicked moves past the few groups that have as many clicks.
"""

from typing import NamedTuple

import numpy as np

from .._jit import uncounted
from ..arrays import Counts, Floats, Ints


class Groups(NamedTuple):
    """K items in groups; 8 bytes an item, and those of the groups that there are."""

    order: Counts  # [K] items, group by group
    place: Counts  # [K] where in `order` each item stands
    looks: Ints  # [K + 1] of each of the first `size[0]` groups
    clicks: Ints  # [K + 1]
    items: Ints  # [K + 1] how many it has
    first: Ints  # [K + 1] where in `order` it begins
    length: Floats  # [K + 1] what `posteriors` keeps of each
    miss: Floats  # [K + 1]
    size: Ints  # [1]

    @classmethod
    def create(cls, n_items: int) -> "Groups":
        """One group of items that nobody has looked at. Memory is taken only where it is written."""
        order, place = np.arange(n_items, dtype=np.int32), np.arange(n_items, dtype=np.int32)
        looks, clicks, items, first = np.zeros((4, n_items + 1), np.int64)
        length, miss = np.zeros((2, n_items + 1))
        found = cls(order, place, looks, clicks, items, first, length, miss, np.ones(1, np.int64))
        found.items[0] = n_items
        return found

    def widened(self, wider: "Groups") -> "Groups":
        """The same for more items, which nobody has looked at; in the memory of `wider`."""
        n, more, size = self.order.size, wider.order.size - self.order.size, int(self.size[0])
        known = int(size > 0 and self.looks[0] + self.clicks[0] == 0)  # groups of such items: they join it
        wider.order[:more], wider.order[more:] = np.arange(n, n + more), self.order
        wider.place[wider.order] = np.arange(n + more)
        for name in ("looks", "clicks", "items", "length", "miss"):
            getattr(wider, name)[1 : 1 + size - known] = getattr(self, name)[known:size]
        wider.first[1 : 1 + size - known] = self.first[known:size] + more
        wider.items[0] = more + (self.items[0] if known else 0)
        wider.size[0] = size - known + 1
        return wider


@uncounted
def group_of(groups, k):
    """The group that item k is in. O(log G) of G groups."""
    place = groups.place[k]
    low = 0
    high = groups.size[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if groups.first[middle] <= place:
            low = middle
        else:
            high = middle
    return low


@uncounted
def unseen_items(groups):
    """How many items have not been looked at: they come first."""
    return groups.items[0] if groups.looks[0] == 0 else 0


@uncounted
def lies_before(groups, g, looks, clicks):
    """Whether group g comes before that with these counts."""
    return groups.clicks[g] < clicks or (groups.clicks[g] == clicks and groups.looks[g] < looks)


@uncounted
def lies_after(groups, g, looks, clicks):
    """Whether group g comes after that with these counts."""
    return groups.clicks[g] > clicks or (groups.clicks[g] == clicks and groups.looks[g] > looks)


@uncounted
def swap(groups, i, j):
    """Exchange the items at two places of the order."""
    if i != j:
        one, other = groups.order[i], groups.order[j]
        groups.order[i] = other
        groups.order[j] = one
        groups.place[other] = i
        groups.place[one] = j


@uncounted
def open_group(groups, g, looks, clicks, first):
    """A group of one item at place `first`; those from g on make room. O(G)."""
    for h in range(groups.size[0], g, -1):
        groups.looks[h] = groups.looks[h - 1]
        groups.clicks[h] = groups.clicks[h - 1]
        groups.items[h] = groups.items[h - 1]
        groups.first[h] = groups.first[h - 1]
        groups.length[h] = groups.length[h - 1]
        groups.miss[h] = groups.miss[h - 1]
    groups.looks[g] = looks
    groups.clicks[g] = clicks
    groups.items[g] = 1
    groups.first[g] = first
    groups.size[0] += 1


@uncounted
def close_group(groups, g):
    """Leave out a group without items. O(G)."""
    groups.size[0] -= 1
    for h in range(g, groups.size[0]):
        groups.looks[h] = groups.looks[h + 1]
        groups.clicks[h] = groups.clicks[h + 1]
        groups.items[h] = groups.items[h + 1]
        groups.first[h] = groups.first[h + 1]
        groups.length[h] = groups.length[h + 1]
        groups.miss[h] = groups.miss[h + 1]


@uncounted
def rise(groups, k, g, looks, clicks):
    """Bring item k of group g to the end of the last group that does not come after its new counts; which one."""
    while True:
        last = groups.first[g] + groups.items[g] - 1
        swap(groups, groups.place[k], last)
        h = g + 1
        if h == groups.size[0] or lies_after(groups, h, looks, clicks):
            return g
        groups.items[g] -= 1
        groups.first[h] -= 1
        groups.items[h] += 1
        g = h


@uncounted
def sink(groups, k, g, looks, clicks):
    """Bring item k of group g to the start of the first group that does not come before its new counts; which one."""
    while True:
        swap(groups, groups.place[k], groups.first[g])
        if g == 0 or lies_before(groups, g - 1, looks, clicks):
            return g
        groups.items[g] -= 1
        groups.first[g] += 1
        g -= 1
        groups.items[g] += 1


@uncounted
def move_item(groups, k, looks, clicks):
    """Item k has these counts from now on. Returns the group that was opened for it, -1 if there was one already."""
    old = group_of(groups, k)
    if groups.looks[old] == looks and groups.clicks[old] == clicks:
        return -1
    up = lies_before(groups, old, looks, clicks)
    new = rise(groups, k, old, looks, clicks) if up else sink(groups, k, old, looks, clicks)
    opened = groups.looks[new] != looks or groups.clicks[new] != clicks
    if opened and new == old and groups.items[old] == 1:
        groups.looks[old] = looks
        groups.clicks[old] = clicks
        return old
    if opened:
        groups.items[new] -= 1
        if up:
            new += 1
            open_group(groups, new, looks, clicks, groups.place[k])
        else:
            groups.first[new] += 1
            open_group(groups, new, looks, clicks, groups.place[k])
            old += 1
    if groups.items[old] == 0:
        close_group(groups, old)
        if up:
            new -= 1
    return new if opened else -1
