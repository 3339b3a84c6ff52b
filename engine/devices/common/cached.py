"""Functions that remember what they found, by what they read: what is priced again and again is worked out once."""

from collections.abc import Callable, Hashable
from functools import wraps
from types import FunctionType
from typing import Any
from weakref import finalize

from engine.devices.common.column import NotAlike

_CAPACITY = 2048


def remembered(key: Callable[[Any], Hashable]) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A function of one thing, which gives again what it gave for another of the same ``key``.

    A key may name objects by `id`: what it was made from is kept as long as what was found. By `id` alone, what was
    found is kept as long as the thing. What holds columns is worked out each time.
    """

    def of(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        cache: dict[Hashable, tuple[Any, Any]] = {}

        @wraps(work)
        def wrapper(subject: Any) -> Any:
            at = key(subject)
            try:
                hit = cache.get(at)
            except NotAlike:
                return work(subject)
            if hit is None:
                if len(cache) >= _CAPACITY:
                    cache.clear()
                hit = cache[at] = work(subject), None if key is id else subject
                if key is id:
                    finalize(subject, cache.pop, at, None).atexit = False
            return hit[0]

        # as of functools' caches, which tests empty; a function has no such attribute for a type checker
        wrapper.cache_clear = cache.clear  # ty: ignore[missing-attribute]
        return wrapper

    return of


def once(work: FunctionType) -> Callable[..., Any]:
    """A function of one thing and names, worked out once for each and kept beside the thing's fields, which stay.

    For what holds columns: they are as long as a grid.
    """

    @wraps(work)
    def wrapper(subject: Any, *names: str) -> Any:
        fields, at = vars(subject), " ".join((work.__module__, work.__name__, *names))
        if at not in fields:
            fields[at] = work(subject, *names)
        return fields[at]

    return wrapper
