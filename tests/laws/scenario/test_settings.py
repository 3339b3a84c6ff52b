"""Every number that is shown as settable moves something: a figure, what fits, power, what another page says of it.

A setting is turned to half and to twice its value in scenarios that use its part. What moves nothing in any of them
stands in `EXEMPT` with the reason (turned in `make soak` alone), or is no setting: `engine.resolve.setting.UNREAD`.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from typing import Any

import pytest

from app.shared.specs import overridable
from engine import default_scenario, evaluate
from engine.analyses.edge import forwarding, nic_of
from engine.analyses.machine import machine_of, part_fits
from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.cost.layout import METRICS
from engine.cost.power_and_price import waiting
from engine.cost.rows import energy_of
from engine.devices import FAMILIES, family
from engine.devices.common.contract import Unsupported
from engine.devices.common.parallel import PARALLEL
from engine.resolve.bind import bind
from engine.resolve.bound import Bound
from engine.resolve.choices import choices, why_not
from engine.resolve.setting import UNREAD, label, settable
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import apply
from hardware_specs import default_catalog
from hardware_specs.catalog import numbers
from tests.each import each
from tests.effort import EFFORT

EXEMPT = {
    "*:*.cpu.issue_width": "read for instructions a cycle and a runtime's own code: none is set here",
    "*:*.cpu.flop_per_cycle.binary": "binary layers are priced by the population counts of a cycle",
    "*:*.memory.l1.capacity": "products are cut for a core's larger private cache; this one is passed through",
    "*:*.power.max": "the power measured under load, `power.loaded`, is what the part draws",
    "*:*.npu.vector_elements": "a bound on written programs: the Program page refuses one whose vectors exceed it",
    "*:*.npu.queue": "a bound on written programs: the Program page refuses a longer chain",
    "brainwave-server:devices.1.fpga.*": "the Machine page is of the first device",
    "dfx-u280:*.memory.bram.capacity": "BRAM is counted in blocks, `fpga.bram36`, of which other logic has its part",
    "dfx-u280:*.dfx.depths.hbm-write": "a write of the cache is done before the reads of a step are",
    "fb-node:host.cpu.vector_clock.*": "the host's parsing and lookups go by its clock: a hundredth moves nothing",
    "fb-node:host.cpu.flop_per_cycle.int8": "moves random scenarios with tables on the host, none of the few here",
    "edge-*:devices.*.price": "the far edge's part has no published price, so the system has none",
    "edge-*core:devices.*.gpu.op_overhead": "the second executor runs a captured graph: no operator is issued alone",
    "*:*.gpu.kernel_launch": "a kernel's start was measured for this part's generation, `model.op_latency`",
    "*:*.gpu.achieved_peak.*": "the matmul rate was measured for this part's generation by shape",
    "agilio-cx:host.*": "its networks run on the NIC; the host stands behind it, in its price alone",
    "edge-*core:devices.*.power.loaded": "the first part has no power at work, so the system has none",
    "*agilio*:*.power.loaded": "the document counts this part's power without a host or a NIC beside it",
    "agilio-cx:links.network.*": "requests come by the packet path, whose time is published whole, `model.nic_path`",
    "*agilio*:*.memory.emem.bandwidth": "threads ask for less than the DRAM behind its cache gives",
    "*agilio*:*.memory.emem.capacity": "no network of the zoo fills half of it",
    "*agilio*:*.memory.imem.capacity": "results of a layer, a bit a neuron, fill less than half of it",
    "*agilio*:*.smartnic.memories.registers.*": "an access to registers is within the cycles of its instruction",
    "*agilio*:*.smartnic.memories.*.ports": "an engine of 43 cycles a word asks for too few accesses to fill one",
    "*agilio*:*.smartnic.memories.c*": "the waits for it hide behind other threads, and no layer is near its size",
}
"""``system:path`` of what may move nothing, each with why. The first pattern that fits is the reason."""

WORKLOADS = (
    "resnet50", "dlrm-less-complex", "wide-deep-criteo", "gpt2-345m", "fbnetv3-detection", "resnext3d-101",
    "mobilenet-v1", "binary-mlp-mnist", "binary-fc-4096", "deepbench-gru-2816", "tp1-lstm", "xlm-r-large",
    "qwen3-next-80b-a3b", "vgg16-cifar-binary", "llama3.1-8b", "gemv-512",
    "tp1-gru-cpu", "deepscan-cpu", "rnnt", "deepseek-r1", "mlp-121m",
)  # fmt: skip
"""One of each kind of work."""


SCENARIOS = 24
"""Drawn at least of a system, however few kinds of work it runs."""


def scenarios(system: str, times: int) -> Iterator[Scenario]:
    """Each kind of work that the system runs: as it is usually asked, then at random."""
    draw, usual = random.Random(28), []
    for workload in WORKLOADS:
        try:
            scenario = default_scenario(system, workload)
            usual.append(scenario.with_(outputs=min(scenario.outputs, 4)))
        except (ScenarioError, Unsupported):
            continue
    if kind_of(system) == "card":  # random switches meet what a few of them have in common too seldom
        yield from _switched(usual)
    yield from usual
    if kind_of(system) == "card" and not ALL:
        return
    for _ in range(max(times, SCENARIOS // max(1, len(usual)))):
        for scenario in usual:
            with suppress(ScenarioError):
                yield (drawn := drawn_of(scenario, draw))
                if behind := choices(drawn).second_cuts:
                    yield drawn.with_(second_split=draw.choice(behind))
    yield from _cut(usual)


def drawn_of(scenario: Scenario, draw: random.Random) -> Scenario:
    """A scenario whose settings are drawn one after the other, each from what those before it leave to pick."""
    offered = choices(scenario)
    sizes = {p.name: draw.choice((p.low, min(p.high, 16_384))) for p in offered.params[:1]}
    scenario = scenario.with_(
        batch=draw.choice((1, 2, 8, 64)),
        precision=draw.choice(offered.formats),
        scheme=draw.choice(offered.schemes),
        devices=draw.choice(offered.device_counts),
        switches={s.name: draw.random() < 0.5 for s in offered.switches},
        params=sizes if draw.random() < 0.5 else {},
    )
    if cuts := choices(scenario).cuts:
        scenario = scenario.with_(split=draw.choice(cuts))
    for path in choices(scenario).by_family:
        if values := choices(scenario).by_family[path]:
            scenario = scenario.with_(**{path: draw.choice((None, *values))})
    scenario = scenario.with_(streams=draw.choice(choices(scenario).stream_counts))
    return scenario.with_(tile=tuple(draw.choice(knob.values) for knob in choices(scenario).knobs))


def _cut(usual: list[Scenario]) -> Iterator[Scenario]:
    """Networks cut at set places: a start of a pass, say, shows only where a whole recurrence stands behind a cut.

    All of a network of the usual size, and of the largest, lies behind the first.
    """
    for scenario in usual:
        if "split" in (offered := choices(scenario)).schemes:
            whole = scenario.with_(scheme="split", split=0)
            with suppress(ScenarioError):
                yield whole.with_(params={p.name: min(p.high, 16_384) for p in offered.params[:1]})
            for share in (0.1, 0.25, 0.4, 0.75, 0.9):
                with suppress(ScenarioError):
                    yield (cut := whole.with_(split=round(share * (len(offered.splits) + 1))))
                    if behind := choices(cut).second_cuts:
                        yield cut.with_(second_split=behind[len(behind) // 3])


def _switched(usual: list[Scenario]) -> Iterator[Scenario]:
    """Scenarios with all their switches turned, and such as use what few do: a tier below LPDDR, decoding of clips."""
    by_name = {scenario.workload: scenario for scenario in usual}
    recommendation = default_scenario(usual[0].system, "dlrm-more-complex")
    nvm = {"scheme": "single", "devices": 1, "switches": {"nvm-tier": True}}
    yield from (
        recommendation,
        recommendation.with_(switches={"partial-tensors": False}),
        recommendation.with_(**nvm),
        recommendation.with_(host_tables="5%"),
        recommendation.with_(host_tables="50%"),
        by_name["resnext3d-101"].with_(switches={"host-decode": True, "hardware-decode": False}),
    )
    for scenario in usual:
        with suppress(ScenarioError):
            yield scenario.with_(switches={s.name: not s.default for s in choices(scenario).switches})


def answers(scenario: Scenario) -> tuple[dict[str, float | None], Any] | str:
    """Figures of a scenario and what else is said of it, at other doors too; the sentence where it is refused."""
    try:
        bound = bind(scenario)
        plan = make_plan(bound)
        times = assemble(bound, plan)
    except (ScenarioError, Unsupported) as error:
        return str(error)
    fits = [(fit.level, fit.need_bytes, fit.capacity_bytes, fit.fits) for one in times.priced for fit in one.fits]
    return {name: times.figure(name) for name in METRICS}, (
        fits,
        energy_of(times),
        waiting(bound, plan, 1e6),
        _elsewhere(bound),
    )


def _elsewhere(bound: Bound) -> Any:
    """What forwarding and the Machine page say."""
    nic, said = nic_of(bound.scenario), []
    if nic is not None and nic.smartnic is not None:
        try:
            said.append(forwarding(nic, int(nic.smartnic.executors.si) // 2, model=bound.model))
        except Unsupported as error:
            said.append(str(error))
    if bound.family.instructions is not None:
        job, answers = machine_of(bound.scenario)
        said += [answers.uses(job), part_fits(bound.scenario)]
    return said


NEAR, FAR = (0.5, 2.0), (0.125, 8.0)
"""Factors that a value is turned by; by the second ones, in `make soak`, what nothing moved with by the first."""


def moves(scenario: Scenario, before: Any, path: str, value: float, factors: tuple[float, ...] = NEAR) -> bool:
    """Whether a value turned by factors answers otherwise, or is refused: then it decides what runs. 0 is raised."""
    for other in (factor * value for factor in factors) if value else (1e-5, 0.5, 100.0):
        try:
            turned = answers(apply(scenario, path, other))
        except ScenarioError:  # out of the range of its field, which the sentence says
            continue
        if isinstance(turned, str):
            return True
        figures, said = turned
        dear = path.endswith(".price")  # that a what-if of hardware has no price is no effect of it
        if said != before[1] or any(figures[n] != before[0][n] for n in METRICS if dear or "usd" not in n):
            return True
    return False


def exempt(system: str, path: str) -> str | None:
    """Why a number of hardware may move nothing."""
    return next((text for key, text in EXEMPT.items() if fnmatch(f"{system}:{path}", key)), None)


ALIVE: dict[str, set[str]] = defaultdict(set)
"""Of each kind, the parameters of its model that some scenario moved with."""


@cache
def dead(system: str, times: int) -> tuple[dict[str, bool], set[str]]:
    """Hardware paths of a system and whether any scenario moves with each; model parameters that some moved with.

    What a system before it moved with, a family's other systems are not asked again.
    """
    found: dict[str, bool] = {}
    kind = kind_of(system)
    left = {f"model.{p.name}" for p in family(kind).parameters if ALL or f"{kind}.{p.name}" not in EXEMPT_MODEL}
    turn(system, scenarios(system, times), found, left)
    if ALL and not all(moved or exempt(system, path) for path, moved in found.items()):
        turn(system, scenarios(system, times), found, set(), FAR)
    return found, ALIVE[kind]


def turn(
    system: str,
    asked: Iterable[Scenario],
    found: dict[str, bool],
    left: set[str],
    factors: tuple[float, ...] = NEAR,
) -> None:
    """Turns what is idle in scenarios of a system until all moves; notes in ``found`` and `ALIVE` what did.

    Model parameters are turned where they are ``left``, exempt numbers by near factors alone.
    """
    alive = ALIVE[kind_of(system)]
    for scenario in asked:
        before = answers(scenario)
        if isinstance(before, str):
            continue
        for row in overridable(scenario):
            model = row.path.startswith("model.")
            if (row.path in alive) if model else found.get(row.path):
                continue
            if row.path not in left if model else not (ALL and factors is NEAR) and exempt(system, row.path):
                continue
            if row.path.startswith("devices.1.") and row.path in found and scenario.scheme == "single":
                continue  # the second part stands by
            moved = moves(scenario, before, row.path, row.si, factors)
            if not model:
                found[row.path] = moved
            elif moved:
                alive.add(row.path)
        if found and all(found.values()) and left <= alive:
            break


def kind_of(system: str) -> str:
    catalog = default_catalog()
    return catalog.device(catalog.system(system).devices[0].device).kind


ALL = EFFORT >= 5
FEW = (
    "xeon-8280l", "edge-core", "xeon-e5-2650-pair-tcp", "brainwave-server", "tpu-v3", "h100-sxm", "fb-node",
    "npu-rtl", "brainwave-a10", "dfx-u280", "agilio-cx",
)  # fmt: skip
"""Some of each family, those first whose parameters all or most of theirs move with, sockets that hand over too."""
IDS = [*FEW, *sorted(set(default_catalog().ids("systems")) - {*FEW})] if ALL else FEW
SYSTEMS = [id for kind in FAMILIES for id in IDS if kind_of(id) == kind]
"""Some of each family; all, and the node of cards at random, which takes minutes, in `make soak`."""
KINDS = [kind for kind in FAMILIES if ALL or kind != "card"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_number_of_hardware_moves_something_or_is_exempt_by_name(system: str) -> None:
    found, _ = dead(system, 3)
    idle = [path for path, moved in found.items() if not moved]
    why = {path: exempt(system, path) for path in idle}
    print(*(f"{system}:{path}: {text}" for path, text in why.items()), sep="\n")
    assert [path for path, text in why.items() if text is None] == []
    assert len(idle) < max(3, len(found) // 2)


SELDOM = (
    ("atom-x6425e", "gpt2-345m", {}, "devices.0.memory.l2.capacity", NEAR),  # each core's part of it
    ("snapdragon-855", "resnet50", {"tile": (1,)}, "devices.0.cpu.turbo", NEAR),
    ("rk3399-a53", "mlp-121m", {}, "devices.0.memory.dram.bandwidth", FAR),  # few lines in flight ask for less
    ("rk3588-a55", "mlp-121m", {}, "devices.0.memory.dram.bandwidth", FAR),
    ("fb-card", "dlrm-more-complex", {}, "devices.0.memory.lpddr.latency", FAR),  # rows are opened more slowly
    (
        "xeon-agilio-coprocessor",
        "binary-fc-4096",
        {"scheme": "split", "split": 0, "params": {"inputs": 16_384}},
        "devices.1.smartnic.memories.emem.nearest",
        NEAR,
    ),
)
"""Numbers that few scenarios move with: (system, network, what is set, path, factors)."""


@each(("system", "workload", "changes", "path", "factors"), SELDOM)
def test_a_number_acts_where_it_is_the_bound(
    system: str, workload: str, changes: dict[str, Any], path: str, factors: tuple[float, ...]
) -> None:
    scenario = default_scenario(system, workload).with_(**changes)
    value = next(row.si for row in overridable(scenario) if row.path == path)
    assert moves(scenario, answers(scenario), path, value, factors)


def test_what_is_drawn_is_seldom_refused() -> None:
    draw = random.Random(28)
    usual = [default_scenario("snapdragon-855", id) for id in WORKLOADS if why_not("snapdragon-855", id) is None]
    refused = [sentence for one in usual if isinstance(sentence := answers(drawn_of(one, draw)), str)]
    assert len(refused) <= 1, refused


EXEMPT_MODEL = {
    "dfx.interleaved_banks": "at half and at twice its 16, banks still hide a row's cycle; 1 does not",
    "gpu.feature_bytes": "moves boards with a port of their own; behind a host the catalog lists no port",
    "npu.feature_bytes": "a host parses records before they cross the network to this family",
    "cpu.power_cycles": "moves networks with local response normalisation, none of the few here",
    "cpu.winograd_transform": "moves what ncnn runs with windows of 3 x 3, none of the few here",
    **dict.fromkeys(("card.pool_cycles", "card.length_spread"), "moves random scenarios of fb-node, but not these"),
}
"""``kind.parameter`` of what may move nothing, each with why."""


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_parameter_of_a_family_moves_something_or_is_exempt_by_name(kind: str) -> None:
    alive: set[str] = set()
    for system in (id for id in SYSTEMS if kind_of(id) == kind):
        alive |= dead(system, 3)[1]
    idle = [p.name for p in family(kind).parameters if f"model.{p.name}" not in alive]
    print(*(f"{kind}.{name}: {EXEMPT_MODEL.get(f'{kind}.{name}')}" for name in idle), sep="\n")
    assert [name for name in idle if f"{kind}.{name}" not in EXEMPT_MODEL] == []


def test_a_host_that_runs_no_operator_shows_what_is_read_of_it_alone() -> None:
    card = default_scenario("fb-card", "dlrm-more-complex")
    shown = {row.path for row in overridable(card) if row.path.startswith("host.")}
    assert shown == {"host.power.max", "host.price", "host.cpu.cores", "host.cpu.clock"}
    (told,) = evaluate(apply(card, "host.memory.dram.bandwidth", 1e9)).without_effect
    assert UNREAD["host"] in told
    for system in ("fb-node", "agilio-cx"):  # lookups on it, the tail of a network behind the NIC
        scenario = default_scenario(system, next(id for id in WORKLOADS if why_not(system, id) is None))
        assert "host.memory.dram.bandwidth" in {row.path for row in overridable(scenario)}


def test_what_nothing_reads_is_not_shown_and_its_what_if_says_why() -> None:
    for system in ("xeon-8280l", "h100-sxm", "brainwave-s10", "dfx-u280", "fb-node", "agilio-cx"):
        scenario = default_scenario(system, next(id for id in WORKLOADS if why_not(system, id) is None))
        shown = {row.path for row in overridable(scenario)}
        assert {f"{part}.{path}" for part, path, _ in settable(bind(scenario))} <= shown
        device = bind(scenario).device
        gone = [path for path, _ in numbers(device) if f"devices.0.{path}" not in shown]
        assert gone
        assert system != "agilio-cx" or "smartnic.memories.emem.capacity" in gone
        for path in gone:
            assert path in UNREAD or path.split(".")[0] in UNREAD, path
            if path.startswith(("peak.", "sparse_peak.", "fpga.", "smartnic.")):
                value = dict(numbers(device))[path].si
                told = evaluate(apply(scenario, f"devices.0.{path}", value / 2)).without_effect
                assert len(told) == 1
                assert label(bind(scenario), f"devices.0.{path}") in told[0]
                assert UNREAD.get(path, UNREAD.get(path.split(".")[0])) in told[0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_switch_and_field_of_a_family_moves_something(kind: str) -> None:
    left = {f"switches.{switch.name}" for switch in family(kind).switches} | set(family(kind).fields)
    left -= {*PARALLEL, "numa"}  # of several devices, of two sockets: tests/laws/devices turns each
    left -= {"kv_format"} if kind == "dfx" else set()  # FP16 alone, its own, which is as good as nothing set
    for system in (id for id in SYSTEMS if kind_of(id) == kind):
        for scenario in scenarios(system, 3):
            offered = choices(scenario)
            turned = {f"switches.{s.name}": not scenario.switches.get(s.name, s.default) for s in offered.switches}
            turned |= {path: values[-1] for path, values in offered.by_family.items() if values}
            before = answers(scenario) if left & turned.keys() else ""
            if isinstance(before, str):
                continue
            for path in left & turned.keys():
                try:
                    after = answers(apply(scenario, path, turned[path]))
                except ScenarioError:
                    continue
                if not isinstance(after, str) and after != before:
                    left.discard(path)
    assert not left
