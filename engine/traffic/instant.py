"""The closed form that fits a system, for answers at slider speed."""

from __future__ import annotations

from engine.traffic import closed_forms
from engine.traffic.arrivals import Arrivals, Bursty, Deterministic, Gamma, Poisson
from engine.traffic.closed_forms import Law
from engine.traffic.policies import DecoderServer, NoBatching, TandemQueue


def instant(system: TandemQueue | DecoderServer, arrivals: Arrivals) -> Law | None:
    """Law of the time in the system, exact or an estimate (see ``kind``); None where no closed form fits.

    Fits one station without batching or hops and one size of request. Where a server takes the next request before the
    last is answered (copies that overlap arithmetic), constant times only: the answer is later by the difference.
    Overload raises `TrafficError` with the sentence a page shows.
    """
    if isinstance(system, DecoderServer):
        return None
    station, *more = system.stations
    if more:
        return None
    service, policy = station.service, station.policy
    if not isinstance(policy, NoBatching) or policy.places is not None or len(service.sizes) > 1:
        return None
    if station.hop_s or system.return_s or not isinstance(arrivals, (Poisson, Deterministic, Gamma, Bursty)):
        return None
    assert service.latency_s is not None
    seconds, servers = float(service.hold_s[0, 0]), service.servers
    extra_s = float(service.latency_s[0, 0]) - seconds
    if extra_s and (extra_s < 0.0 or service.cv):
        return None
    if isinstance(arrivals, Poisson) and service.cv == 0.0:
        return closed_forms.mdc(arrivals.qps, seconds, servers).later(extra_s)
    return closed_forms.mgc(arrivals.qps, seconds, servers, service.cv, arrivals.cv).later(extra_s)
