"""Base classes of replacement policies and prefetchers."""

from __future__ import annotations


class Replacement:
    """Base of replacement policies for the DRAM cache of a simulated machine.

    Frame `f` belongs to set `f // ways`. A policy tracks a frame from `insert` until `victim`
    returns it or `remove` is called with it. Hits are reported as touches in `victim`, because a
    hit on the real machine writes no shared data.

    The run must be repeatable: a policy uses no unseeded random numbers and no clock.
    """

    def start(self, sets: int, ways: int) -> None:
        """Called first: the cache has `sets` sets of `ways` frames, all empty."""

    def insert(self, frame: int, page: int) -> None:
        """Called after `page` was installed in `frame`. The access that missed is not a touch."""
        raise NotImplementedError

    def victim(self, frames: list[int], touches: bytes, dirty: bytes) -> int:
        """Returns the frame to evict, one of `frames`: the evictable frames of a set.

        `touches[i]` is the number of hits on `frames[i]` since the last call with it, at most 3.
        `dirty[i]` is 1 if its page was written.
        """
        raise NotImplementedError

    def remove(self, frame: int) -> None:
        """Called after the page of `frame` was removed."""


class Prefetcher:
    """Base of prefetchers for the device of cxl-flash."""

    def demand(self, page: int, found: str) -> list[int]:
        """Returns the pages to fetch after a demand access to `page`, most urgent first.

        `found` is `"miss"`, `"late"` (its prefetch was under way), `"first hit"` on a prefetched
        page, or `"hit"` after that.
        """
        raise NotImplementedError
