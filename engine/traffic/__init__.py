"""Under load: arrivals, queues and batching -> latency distribution, the load inside an SLA, nodes and their cost.

>>> from engine.traffic import DynamicBatching, Poisson, Service, Sla, max_qps, simulate, single
>>> batches = Service.from_points((1, 16), (2.4e-3, 8.4e-3))  # [s]
>>> node = single(batches, DynamicBatching(16, timeout_s=5e-3))
>>> report = simulate(node, Poisson(qps=800.0), seed=1)
>>> best = max_qps(node, Sla.parse("p99=30ms"), Poisson(1.0))
"""

from engine.traffic.arrivals import Arrivals, Bursty, Deterministic, Diurnal, Gamma, Poisson, Trace
from engine.traffic.closed_forms import Law, instant
from engine.traffic.estimates import Estimate, Tail
from engine.traffic.limits import Capacity, capacity
from engine.traffic.plan import CapacityPlan, Demand, NodeFacts, SiteFacts, capacity_plan
from engine.traffic.policies import (
    DecoderServer,
    DynamicBatching,
    NoBatching,
    Station,
    TandemQueue,
    single,
)
from engine.traffic.service import Resource, Service, TrafficError
from engine.traffic.simulate import LoadReport, latency_curve, simulate
from engine.traffic.sizes import Fixed, Listed, LogNormal, Mixed, Sizes, Uniform
from engine.traffic.sla import Headline, Sla, max_qps
from engine.traffic.timeline import RequestTimeline, timeline
from engine.traffic.traces.requests import read_trace
