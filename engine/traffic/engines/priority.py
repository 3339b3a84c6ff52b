"""Requests of several priorities: the share and the number of each class, and which request is of which."""

import numpy as np
from numpy.typing import NDArray

from engine.scenario.token import boundary, brief
from engine.traffic.service import TrafficError, whole
from engine.traffic.sizes import Mixed

MAX_CLASSES = 16  # classes of a run
_LARGEST = 1_000_000
_STREAM = 7  # of the draws that decide of which class a request is
_ALLOWED = f"it must be shares and different whole numbers up to {_LARGEST:,}, at most {MAX_CLASSES}, as 0.2:0,0.8:1"

Shares = tuple[tuple[float, int], ...]
"""Of each class of requests, its share of all and its number; the smallest number is served first. Empty: all alike."""


def parse(text: str) -> Shares:
    """``SHARE:NUMBER,SHARE:NUMBER``; none of an empty text. TrafficError for anything else."""
    with boundary(f"priority is {brief(text)}; {_ALLOWED}"):
        pairs = (part.split(":") for part in text.split(",") if text)
        return check(tuple((float(share), int(number)) for share, number in pairs))


def check(shares: Shares) -> Shares:
    """The same classes. TrafficError for a share or a number that none can have."""
    try:
        numbers = [whole("priority", number, 0, _LARGEST) for _, number in shares]
        if len(set(numbers)) < len(numbers) or len(numbers) > MAX_CLASSES:
            raise TrafficError("")
        if shares:
            Mixed((1,) * len(shares), tuple(share for share, _ in shares))
    except TrafficError:
        written = ",".join(f"{share}:{number}" for share, number in shares)
        raise TrafficError(f"priority is {brief(written)}; {_ALLOWED}") from None
    return shares


def draw(shares: Shares, requests: int, seed: int) -> NDArray[np.int64]:
    """The number of each request: 0 where all are alike. [-]"""
    if not shares:
        return np.zeros(requests, np.int64)
    law = Mixed(tuple(range(1, len(shares) + 1)), tuple(share for share, _ in shares))
    return np.array([number for _, number in shares])[law.draw(requests, seed, _STREAM, 0) - 1]
