"""Queues whose law is known: instant answers, which the simulation is held to.

All are exact for Poisson arrivals at ``rate`` [1/s] in the steady state, first come first served, unless the name says
otherwise. ``Law.quantile`` is of the time in the system [s]. A load at or above capacity raises `TrafficError`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.traffic.arrivals import Arrivals, Deterministic, Gamma, Poisson
from engine.traffic.policies import DecoderServer, NoBatching, TandemQueue
from engine.traffic.service import TrafficError, overloaded, positive, whole

_SUMMED = 0.999  # load of a server up to which the exact law is summed [-]
_CERTAIN = 1e-12  # a tail this small is taken as none


@dataclass(frozen=True)
class Law:
    """Time in the system of a queue in its steady state.

    Attributes
    ----------
    mean : float
        Mean time in the system of those served. [s]
    wait : float
        Mean wait of those served. [s]
    tail : callable
        Share of those served who stay longer than t [s]. [-]
    rho : float
        Offered load per server. [-]
    kind : str
        ``exact`` or ``estimate``.
    """

    name: str
    mean: float
    wait: float
    tail: Callable[[float], float]
    rho: float
    kind: str = "exact"

    def later(self, extra_s: float) -> "Law":
        """The law where an answer is on its way for ``extra_s`` [s] after its server is free for the next."""
        return replace(self, mean=self.mean + extra_s, tail=lambda t: self.tail(t - extra_s)) if extra_s else self

    def quantile(self, p: float) -> float:
        """Least t that a share ``p`` of those served do not exceed. [s]

        TrafficError for a p that is not between 0 and 1.
        """
        if not 0.0 < p < 1.0:
            raise TrafficError(f"p is {p!r}; it must lie strictly between 0 and 1")
        lo, hi = 0.0, max(self.mean, 1e-300)
        while self.tail(hi) > 1.0 - p:
            lo, hi = hi, 2.0 * hi
        while hi - lo > 1e-13 * hi:
            mid = 0.5 * (lo + hi)
            if mid in (lo, hi):
                break
            lo, hi = (mid, hi) if self.tail(mid) > 1.0 - p else (lo, mid)
        return hi


def _load(rate: float, service_s: float, servers: int = 1) -> float:
    rho = positive("rate", rate) * positive("service_s", service_s) / whole("servers", servers)
    if rho >= 1.0:
        raise TrafficError(overloaded(rate, servers / service_s))
    return rho


def erlang_c(load: float, servers: int) -> float:
    """Erlang's C: share of arrivals that wait, from the stable recursion for B. [-]"""
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    rho = load / servers
    return blocked / (1.0 - rho * (1.0 - blocked))


def _arrivals_in_service(load: float) -> list[float]:
    """P(A > j), j = 0.., of a Poisson number A of mean ``load``, summed from the far end so no digit is lost. [-]"""
    terms = []
    j, p = 0, math.exp(-load)
    while j < load or p > 1e-18:
        terms.append(p)
        j += 1
        p *= load / j
    tails = [0.0] * len(terms)
    for k in range(len(terms) - 2, -1, -1):
        tails[k] = tails[k + 1] + terms[k + 1]
    return tails


def md1(rate: float, service_s: float) -> Law:
    """Constant service, one server; whole distribution, by sums of positive terms (no cancellation).

    Number in system: level crossings of the embedded chain (Ramaswami 1988). Wait: Franx, Oper. Res. Lett. 29(5),
    2001: P(W <= kD - u) = sum_j Q(k-1-j) e^(-lambda u) (lambda u)^j / j!, Q(m) = P(at most m+1 in system). Rate in
    [1/s], service in [s].
    """
    rho = _load(rate, service_s)
    wait = rho * service_s / (2.0 * (1.0 - rho))
    above = _arrivals_in_service(rho)
    pi = [1.0 - rho]
    reach = [1.0 - rho]  # P(at most m in system)

    def extend(m: int) -> None:
        while len(pi) <= m and 1.0 - reach[-1] > _CERTAIN * 1e-3:
            j = len(pi) - 1
            flow = pi[0] * (above[j] if j < len(above) else 0.0)
            for i in range(max(1, j + 1 - len(above) + 1), j + 1):
                flow += pi[i] * above[j + 1 - i]
            pi.append(flow * math.exp(rho))
            reach.append(reach[-1] + pi[-1])

    def tail(t: float) -> float:
        x = t - service_s
        if x < 0.0:
            return 1.0
        k = int(x // service_s) + 1
        u = rate * max(0.0, k * service_s - x)
        extend(k)
        total, weight = 0.0, math.exp(-u)
        for j in range(k):
            m = k - j  # at most m in system
            total += weight * (reach[m] if m < len(reach) else 1.0)
            weight *= u / (j + 1)
            if weight < 1e-18 and j > u:
                break
        return max(0.0, 1.0 - total)

    return Law("M/D/1", wait + service_s, wait, tail, rho)


def mgc(rate: float, service_s: float, servers: int, cv: float, arrivals_cv: float = 1.0) -> Law:
    """General arrivals and service, c servers: Allen and Cunneen's estimate, (ca^2 + cs^2)/2 times the M/M/c wait.

    Its tail is of that wait, exponential for the share that waits at all, and a constant service.
    Rate in [1/s], service in [s].
    """
    rho = _load(rate, service_s, servers)
    factor = (positive("arrivals_cv", arrivals_cv, zero=True) ** 2 + positive("cv", cv, zero=True) ** 2) / 2.0
    c = erlang_c(rate * service_s, servers)
    wait = factor * c / (servers / service_s - rate)
    decay = wait / c if c > 0 else 0.0

    def tail(t: float) -> float:
        if t < service_s:
            return 1.0
        return c * math.exp(-(t - service_s) / decay) if decay > 0 else 0.0

    return Law(f"G/G/{servers}", wait + service_s, wait, tail, rho, kind="estimate")


def mdc(rate: float, service_s: float, servers: int) -> Law:
    """Constant service, c servers: M/D/1 exact for one, else and within a thousandth of capacity Allen and Cunneen's
    estimate: the exact sum has as many terms as requests wait, without bound.

    Rate in [1/s], service in [s].
    """
    exact = servers == 1 and rate * service_s <= _SUMMED
    return md1(rate, service_s) if exact else mgc(rate, service_s, servers, 0.0)


def instant(system: TandemQueue | DecoderServer, arrivals: Arrivals) -> Law | None:
    """Law of the time in the system, exact or an estimate (see ``kind``); None where no closed form fits.

    Fits one station without batching or hops, one size of request, independent gaps. Where a server takes the next
    request before the last is answered (copies overlap arithmetic), constant times only: it is later by the difference.
    Overload raises `TrafficError` with the sentence a page shows.
    """
    if isinstance(system, DecoderServer) or len(system.stations) > 1:
        return None
    station = system.stations[0]
    service, policy = station.service, station.policy
    if not isinstance(policy, NoBatching) or policy.places is not None or len(service.sizes) > 1:
        return None
    if station.hop_s or system.return_s or not isinstance(arrivals, (Poisson, Deterministic, Gamma)):
        return None
    assert service.latency_s is not None
    seconds, servers = float(service.hold_s[0, 0]), service.servers
    extra_s = float(service.latency_s[0, 0]) - seconds
    if extra_s and (extra_s < 0.0 or service.cv):
        return None
    if isinstance(arrivals, Poisson) and service.cv == 0.0:
        return mdc(arrivals.qps, seconds, servers).later(extra_s)
    return mgc(arrivals.qps, seconds, servers, service.cv, arrivals.cv).later(extra_s)
