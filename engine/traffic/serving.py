"""How a scenario is put to work: arrangement, batching, admission and the sizes of its requests, as one setting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.devices.common.contract import Unsupported
from engine.scenario import Scenario, ScenarioError
from engine.traffic.arrangements import ARRANGEMENTS, packets, pool, stages
from engine.traffic.arrivals import Arrivals
from engine.traffic.engines.pass_times import decoder_of
from engine.traffic.engines.scheduler import POLICIES
from engine.traffic.plan import CapacityPlan, Demand, FailureDomain, SiteFacts, capacity_plan
from engine.traffic.policies import DecoderServer, DynamicBatching, NoBatching, Policy, TandemQueue
from engine.traffic.scenario_load import inferences_of, is_decoder, ladder, load_of, node_facts, usual_policy
from engine.traffic.service import TrafficError, positive, whole
from engine.traffic.sizes import Fixed, Sizes
from engine.traffic.sla import Headline, Sla, max_qps


@dataclass(frozen=True)
class Serving:
    """Everything between the arrivals and a scenario.

    Attributes
    ----------
    arrangement : str
        ``whole`` (one station), ``stages`` (each with its queue), ``pool`` (copies behind the network) or ``packets``
        (a NIC that forwards all and looks at some); see `engine.traffic.arrangements`.
    max_batch, timeout_s : int, float
        Requests launched together, and how long the oldest waits for more [s]. A decoder's requests are sequences, of
        which so many run at once. None: of sequences as many as the machine's `usual_policy` takes, of items the
        scenario's batch, of whole batches one.
    places : int or None
        Waiting places; who finds them taken is turned away. None: no limit.
    buckets : int
        Queues by size, equally many sizes of the service table in each.
    services, share : int, float
        Copies in a pool; share of packets that is looked at [-].
    sizes, outputs : Sizes or None
        Of the requests, and tokens they want. None: the scenario's own.
    sizes_are : str
        What a size is: ``inputs``, ``items`` or ``lookups``.
    request : str
        What a request is: ``batch`` (the scenario's, as `evaluate` prices it) or ``item`` (one item of it, of which up
        to ``max_batch`` are launched together).
    stream : bool
        Keep token times apart even of a decoder that takes one request at a time, all of one size.
    """

    arrangement: str = "whole"
    max_batch: int | None = None
    timeout_s: float = 0.0
    places: int | None = None
    buckets: int = 1
    services: int = 1
    share: float = 0.1
    sizes: Sizes | None = None
    outputs: Sizes | None = None
    sizes_are: str = "inputs"
    stream: bool = False
    request: str = "batch"

    def __post_init__(self) -> None:
        if self.request not in ("batch", "item"):
            raise TrafficError(f"request is {self.request!r}; it must be batch or item")
        whole("max_batch", 1 if self.max_batch is None else self.max_batch)
        whole("buckets", self.buckets, 1, 1024)
        whole("services", self.services)
        positive("timeout_s", self.timeout_s, zero=True)
        if not 0 <= self.share <= 1:
            raise TrafficError(f"share is {self.share!r}; it must be a number from 0 to 1")
        if self.arrangement not in ARRANGEMENTS:
            raise TrafficError(f"arrangement is {self.arrangement!r}; it must be one of {', '.join(ARRANGEMENTS)}")
        if self.buckets > 1 and (self.sizes is None or self.max_batch in (None, 1)):
            raise TrafficError(f"buckets is {self.buckets}; without batches or sizes that differ it must be 1")

    def of(self, scenario: Scenario) -> tuple[TandemQueue | DecoderServer, Sizes, Sizes]:
        """The system to simulate, and the sizes and outputs of its requests.

        TrafficError for sizes, outputs or a policy that the arrangement or the network can't have.
        """
        if self.request == "item" and not is_decoder(scenario):
            items = replace(self, request="batch", max_batch=self.max_batch or scenario.batch)
            return items.of(scenario.with_(batch=1))
        inputs = self.sizes or Fixed(scenario.inputs)
        outputs = self.outputs or Fixed(scenario.outputs)
        varied = self.sizes is not None or self.outputs is not None
        if self.arrangement == "packets":
            if varied or (self.max_batch or 1) > 1:
                raise TrafficError("arrangement is 'packets'; its requests are packets, alike and one at a time")
            return *packets(scenario, self.share, self.places), Fixed(1)
        if self.arrangement == "whole" and is_decoder(scenario):
            max_seqs = self.max_batch or POLICIES[usual_policy(scenario)].max_seqs
            if max_seqs > 1 or varied or self.stream:
                if self.buckets > 1 or self.timeout_s > 0.0 or self.sizes_are != "inputs":
                    raise TrafficError(
                        "a decoder's requests have inputs and outputs, and batch without buckets or waits"
                    )
                longest = inputs.largest + outputs.largest
                return decoder_of(scenario, max_seqs, longest, self.places), inputs, outputs
        elif self.outputs is not None:
            raise TrafficError(f"outputs are given; {scenario.workload!r} makes no tokens one by one")
        grid = None if self.sizes is None else ladder(self.sizes.largest)
        rule = self._policy(grid)
        alike = Fixed(1)
        if self.arrangement == "stages":
            return stages(scenario, rule, grid, self.sizes_are), self.sizes or alike, alike
        if self.arrangement == "pool":
            if varied:
                raise TrafficError("arrangement is 'pool'; its requests are alike")
            return pool(scenario, rule, self.services), alike, alike
        if self.sizes is None:
            inputs = Fixed(scenario.batch if self.sizes_are == "items" else scenario.inputs)
        return load_of(scenario, rule, grid, self.sizes_are), inputs, outputs

    def _policy(self, grid: Sequence[int] | None) -> Policy:
        if self.max_batch in (None, 1):
            return NoBatching(self.places)
        grid = grid or (1,)
        edges = {grid[len(grid) * i // self.buckets] for i in range(1, self.buckets)} - {grid[-1]}
        return DynamicBatching(self.max_batch, self.timeout_s, self.places, tuple(sorted(edges)))


@dataclass(frozen=True, eq=False)
class Offer:
    """What one system would take to carry a demand inside an agreement; ``problem`` says why there is no plan."""

    name: str
    scenario: Scenario
    headline: Headline | None
    plan: CapacityPlan | None
    problem: str | None
    notes: tuple[str, ...] = ()


def compare(
    scenarios: Mapping[str, Scenario],
    serving: Serving,
    sla: Sla,
    demand: Demand,
    arrivals: Arrivals,
    *,
    site: SiteFacts | None = None,
    headroom: float = 0.2,
    survives: FailureDomain = "node",
    idle_w: float | None = None,
    node_usd: float | None = None,
    requests: int = 200_000,
    seed: int = 0,
) -> tuple[Offer, ...]:
    """Systems at an equal agreement, demand, site and way of serving.

    ``demand`` is in inferences a second: a request of another scenario may hold more of them. Every system is asked
    for the same figure of its own requests. ``idle_w`` and ``node_usd`` are the first system's, where given.
    Estimates. Power in [W], price in [USD].
    """
    result = []
    for at, (name, scenario) in enumerate(scenarios.items()):
        best: Headline | None = None
        try:
            system, sizes, outputs = serving.of(scenario)
            best = max_qps(system, sla, arrivals, sizes=sizes, outputs=outputs, requests=requests, seed=seed)
            facts = (idle_w, node_usd) if at == 0 else (None, None)
            together = serving.max_batch
            if isinstance(system, DecoderServer):
                together = system.scheduler.most_seqs(scenario.inputs + scenario.outputs)
            node, notes = node_facts(scenario, best, *facts, serving.request, together)
            load = Demand(tuple(qps / inferences_of(scenario, serving.request) for qps in demand.qps))
            plan = capacity_plan(load, node, site, headroom=headroom, survives=survives)
        except (ScenarioError, Unsupported) as error:
            result.append(Offer(name, scenario, best, None, str(error)))
            continue
        result.append(Offer(name, scenario, best, plan, None, notes))
    return tuple(result)
