"""Functions that remember what they found, by what they read: what is priced again and again is worked out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any

from engine.devices.common.column import NotAlike

__all__ = ["remembered"]

_MOST = 2048


def remembered(key: Callable[[Any], Hashable]) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A function of one thing, which gives again what it gave for another of the same ``key``.

    A key may name objects by `id`: what it was made from is kept as long as what was found. What holds columns is
    worked out each time.
    """

    def of(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        known: dict[Hashable, tuple[Any, Any]] = {}

        @wraps(work)
        def found(one: Any) -> Any:
            at = key(one)
            try:
                hit = known.get(at)
            except NotAlike:
                return work(one)
            if hit is None:
                if len(known) >= _MOST:
                    known.clear()
                hit = known[at] = work(one), one
            return hit[0]

        return found

    return of
