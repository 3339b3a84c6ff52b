"""A window of requests on their way through stations. Simulated."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.traffic.arrivals import Arrivals
from engine.traffic.policies import TandemQueue
from engine.traffic.runs import SIZE_STREAM, run_stations
from engine.traffic.service import whole
from engine.traffic.sizes import Fixed, Sizes

_UNIT = Fixed(1)


@dataclass(frozen=True, eq=False)
class RequestTimeline:
    """A window of requests on their way. [s]

    ``came``, ``start`` and ``left`` are by station: when a request joined its queue, when its service began, when its
    answer was out; nan where it never got there. ``wires`` are the stations that only carry.
    """

    arrive: NDArray[np.float64]
    came: dict[str, NDArray[np.float64]]
    start: dict[str, NDArray[np.float64]]
    left: dict[str, NDArray[np.float64]]
    finish: NDArray[np.float64]
    size: NDArray[np.int64]
    wires: frozenset[str] = frozenset()


def timeline(
    system: TandemQueue,
    arrivals: Arrivals,
    *,
    sizes: Sizes = _UNIT,
    after: int = 2_000,
    show: int = 200,
    seed: int = 0,
) -> RequestTimeline:
    """The ``show`` requests that follow the first ``after``, from the event engine."""
    n = whole("after", after, 0) + whole("show", show)
    drain = n + 4 * show  # later requests share their batches and servers
    arrive = arrivals.times(drain, seed, 0)
    size = sizes.draw(drain, seed, SIZE_STREAM, 0)
    window = slice(after, n)
    raw = run_stations(system, arrive, size, seed=seed, traced=True)
    assert raw.start is not None
    assert raw.came is not None
    names = [station.name for station in system.stations]
    came, start = ({name: rows[i, window] for i, name in enumerate(names)} for rows in (raw.came, raw.start))
    hops = [*(station.hop_s for station in system.stations[1:]), system.return_s]
    ends = [*(came[name] for name in names[1:]), raw.finish[window]]
    left = {name: end - hop for name, end, hop in zip(names, ends, hops, strict=True)}
    wires = frozenset(station.name for station in system.stations if station.wire)
    return RequestTimeline(arrive[window], came, start, left, raw.finish[window], size[window], wires)
