"""A set of bounded size."""

from __future__ import annotations

from collections import OrderedDict


class BoundedSet:
    """A set that forgets what was added longest ago once it is full."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[str, None] = OrderedDict()

    def add(self, item: str) -> bool:
        """Adds an item; whether it was not in."""
        if item in self._items:
            return False
        self._items[item] = None
        if len(self._items) > self._size:
            self._items.popitem(last=False)
        return True

    def __contains__(self, item: object) -> bool:
        return item in self._items
