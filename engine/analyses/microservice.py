"""A pool of accelerators behind the network that CPU servers share: its rate, its clients, and what they wait.

An instance is what a scenario evaluates, one model on one or several devices; a pool holds as many as its devices
make. Requests of all clients queue for the first free instance. Source: Chung et al., IEEE Micro 2018, where many CPU
clients share an instance because one cannot drive it; what a client spends on a query is not printed. Estimates.
"""

from bisect import bisect_left
from dataclasses import dataclass

from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.scenario import Scenario, ScenarioError
from engine.traffic.closed_forms import Law, mdc
from engine.traffic.scenario_load import service_table

MAX_DEVICES = 100_000  # devices of a pool: as many as the datacenter's network reaches
_POINTS = 24  # clients that waits are found of
_FULL = 0.999  # of a pool's rate: at all of it the queue never ends


@dataclass(frozen=True)
class Client:
    """A CPU server that calls the microservice, busy with its own part of every query."""

    cores: int = 16
    query_s: float = 50e-3  # core time of a query beside the call [s]; assumed

    def __post_init__(self) -> None:
        if not 1 <= self.cores <= 1024:
            raise ScenarioError(f"client cores is {self.cores}: 1 to 1024 is allowed")
        if not 1e-7 <= self.query_s <= 1e3:
            raise ScenarioError(f"client query_s is {self.query_s:g} s: 1e-07 to 1000 s is allowed")


@dataclass(frozen=True)
class Microservice:
    """A pool and what it carries. Rates in requests a second, times in seconds."""

    devices: int
    instances: int
    idle_devices: int  # too few for one more instance
    latency_s: float  # of a request to an idle instance, network included
    instance_qps: float
    pool_qps: float
    limit: str  # what an instance's rate ends at: its devices, or the port of the network
    client_qps: float  # most that one client drives
    clients_per_instance: float
    shared_above_s: float  # core time of a query from which more than one client shares an instance
    clients: int
    offered_qps: float
    utilisation: float
    mean_s: float | None  # with that many clients; None: more than the pool carries
    p95_s: float | None
    most_clients: int  # that keep the limit on the 95th percentile, or the pool's rate where there is none
    message: str


@dataclass(frozen=True)
class _Pool:
    """What queues need to know of a pool. [s]"""

    devices: int
    per_instance: int  # devices of an instance
    instances: int
    hold_s: float
    latency_s: float
    limit: str

    def p95(self, qps: float) -> float | None:
        """95th percentile from request to answer; None where the pool does not carry the load. [s]"""
        law = self.law(qps)
        return None if law is None else law.quantile(0.95) + self.latency_s - self.hold_s

    def law(self, qps: float) -> Law | None:
        """Time in the system of Poisson arrivals at constant service times; None at or above the pool's rate."""
        return mdc(qps, self.hold_s, self.instances) if qps * self.hold_s / self.instances < _FULL else None


def _pool(scenario: Scenario, devices: int) -> _Pool:
    shared_s = 0.0
    if scenario.scheme == "replicas":  # whole copies, which share a host and its links
        group = bind(scenario).system.devices[0]
        count = max(n for n in (1, *(group.counts or (group.count,))) if n <= max(devices, 1))
        shared_s = count * scenario.streams / evaluate(scenario.with_(devices=count)).times.requests_per_s
        scenario = scenario.with_(scheme="single", devices=1)
    size = scenario.devices
    if not size <= devices <= MAX_DEVICES:
        raise ScenarioError(f"devices of the pool is {devices}: {size} to {MAX_DEVICES:,} is allowed")
    report = evaluate(scenario)
    if not report.fits:
        raise ScenarioError(report.problems[0] if report.problems else "The workload does not fit the system.")
    table = service_table(scenario)
    assert table.latency_s is not None
    hold, latency = float(table.hold_s[0, 0]), float(table.latency_s[0, 0])
    wire = max((float(r.busy_s[0, 0]) for r in table.resources.values()), default=0.0)
    limit = "network port" if wire > hold else table.bound
    return _Pool(devices, size, devices // size * table.servers, max(hold, wire, shared_s), latency, limit)


def waits(scenario: Scenario, devices: int, client: Client) -> tuple[tuple[int, float], ...]:
    """(clients, 95th percentile from request to answer) up to the most that the pool carries. [-], [s]"""
    pool = _pool(scenario, devices)
    drives = client.cores / client.query_s
    highest = int(_FULL * pool.instances / pool.hold_s / drives)
    counts = sorted({max(1, round(highest * i / _POINTS)) for i in range(1, _POINTS + 1)}) if highest else []
    return tuple((count, latency) for count in counts if (latency := pool.p95(count * drives)) is not None)


def microservice(
    scenario: Scenario, devices: int, clients: int = 1, client: Client | None = None, p95_s: float | None = None
) -> Microservice:
    """A pool of `devices` serving a scenario's request to `clients` that drive it as hard as they can.

    Parameters
    ----------
    devices : devices of the pool, of which the scenario's own number make one instance.
    p95_s : limit on the 95th percentile of the time from request to answer. [s]
    """
    client = client or Client()
    pool = _pool(scenario, devices)
    if clients < 1:
        raise ScenarioError(f"clients is {clients}: 1 or more is allowed")
    if p95_s is not None and not 0 < p95_s < 1e6:
        raise ScenarioError(f"p95_s is {p95_s:g} s: above 0 and below 1000000 is allowed")
    rate, drives = 1.0 / pool.hold_s, client.cores / client.query_s
    instances = pool.instances

    def keeps(count: int) -> bool:
        p95 = pool.p95(count * drives)
        return p95 is not None and (p95_s is None or p95 <= p95_s)

    highest = bisect_left(range(1, int(instances * rate / drives) + 2), True, key=lambda count: not keeps(count))
    load = clients * drives
    now = pool.law(load)
    message = (
        f"{instances} instances carry {instances * rate:,.4g} requests/s; a client drives {drives:,.4g}, so "
        f"{rate / drives:.3g} clients fill an instance"
    )
    return Microservice(
        devices,
        instances,
        devices % pool.per_instance,
        pool.latency_s,
        rate,
        instances * rate,
        pool.limit,
        drives,
        rate / drives,
        client.cores / rate,
        clients,
        load,
        load / (instances * rate),
        None if now is None else now.mean + pool.latency_s - pool.hold_s,
        pool.p95(load),
        highest,
        message,
    )
