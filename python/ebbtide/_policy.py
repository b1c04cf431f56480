"""Replacement policies and prefetchers of one's own."""

from __future__ import annotations


class Replacement:
    """Base of replacement policies for the DRAM cache of a simulated machine.

    Frame `f` belongs to set `f // ways`. A policy knows a frame from `insert` until it gives it up
    in `victim` or is told to forget it in `remove`. It is told of hits as touches, when it is asked
    for a victim: a hit on the real machine writes nothing shared.

    The run must be repeatable: a policy draws no unseeded random numbers and asks for no time.
    """

    def start(self, sets: int, ways: int) -> None:
        """The cache has `sets` sets of `ways` frames, all of them empty."""

    def insert(self, frame: int, page: int) -> None:
        """Page `page` was installed in `frame`. The access that missed is not counted as a touch."""
        raise NotImplementedError

    def victim(self, frames: list[int], touches: bytes, dirty: bytes) -> int:
        """Gives up one of `frames`, those of a set that can be given up: returns it.

        `touches[i]` is the number of hits on `frames[i]` since this was last asked, at most 3, and
        `dirty[i]` is 1 if its page was written.
        """
        raise NotImplementedError

    def remove(self, frame: int) -> None:
        """Forgets `frame`, whose page was taken away."""


class Prefetcher:
    """Base of prefetchers for the device of cxl-flash."""

    def demand(self, page: int, found: str) -> list[int]:
        """A demand access to `page` found a `"miss"`, a page `"late"` on its way, the `"first hit"`
        on a prefetched page, or a later `"hit"` on it. Returns the pages to fetch now, the most
        wanted first."""
        raise NotImplementedError
