"""Every hardware YAML: well formed, in sane ranges, consistent with itself and with what its sources derive."""

import math
import re
from pathlib import Path

import pytest

import hardware_specs
from engine.devices import family
from hardware_specs import Device, System, default_catalog
from hardware_specs.catalog import quantities
from tests.each import each

ROOT = Path(hardware_specs.__file__).parent
CATALOG = default_catalog()
DEVICES = CATALOG.ids("devices")
SYSTEMS = CATALOG.ids("systems")
FILES = sorted(ROOT.glob("*/**/*.yaml"))
DOCUMENTED = (
    "fb-node", "fb-card", "xeon-d-2191", "brainwave-s10-pre", "brainwave-s10", "brainwave-s10-isca18", "brainwave-a10",
    "brainwave-sv", "xeon-8280l", "xeon-e5-2650", "xeon-e5-2650-pair-qpi", "xeon-e5-2650-pair-tcp", "xeon-e5-1630v3",
    "agilio-cx", "arm-edge", "dfx-u280", "v100-appliance", "tpu-v3",
)  # fmt: skip


def spec(path: Path):
    section = path.relative_to(ROOT).parts[0]
    return getattr(CATALOG, section.removesuffix("s"))(path.stem)


@each("path", FILES, ids=lambda path: path.stem)
def test_file(path):
    entry = spec(path)
    assert entry.id == path.stem
    used = {q.source for q in quantities(entry) if q.source}
    assert used == set(entry.sources), "every source is used, every used source is listed"
    text = path.read_text()
    assert not re.search(r"read_file|find_string|/work|TODO|\bseeds?/", text)
    assert not re.search(r"\b(?!1 )\d+ cycle\b", text), "a value is shown as its file has it: 3 cycles"
    assert not re.search(r"(?m)^\s*<<:|[:\s][&*][a-z]+\s*$", text), "no anchors, aliases or merges"
    for q in quantities(entry):
        assert math.isfinite(q.si)


@each("id", DEVICES)
def test_ranges(id):
    device = CATALOG.device(id)
    for peak in (*device.peak.values(), *device.peak_low.values(), *device.sparse_peak.values()):
        assert 1e10 <= peak.si <= 2e17
    assert device.peak
    assert device.memory
    assert len({level.name for level in device.memory}) == len(device.memory)
    for level in device.memory:
        low, high = (1e9, 1e12) if level.role == "offchip" else (2e4, 5e10)
        assert low <= level.capacity.si <= high
        if level.role == "offchip":
            assert 3e9 <= level.bandwidth.si <= 1e13  # boards with one channel of 32 bit and up
        if level.latency is not None:
            assert 1e-9 <= level.latency.si <= 1e-6
    roles = [level.role for level in device.memory]
    assert roles == sorted(roles), "off-chip levels first"
    assert device.power.max is not None
    assert 3 <= device.power.max.si <= 3e4
    for part in (device.power.idle, device.power.loaded):
        assert part is None or 0 <= part.si <= device.power.max.si  # 0: what is measured stands beside an idle machine
    if device.price is not None:
        assert 10 <= device.price.si <= 1e7
    assert 2010 <= device.launched.si <= 2027
    if device.host_link is not None:
        CATALOG.link(device.host_link)


@each("id", DEVICES)
def test_balance(id):
    """Peak over off-chip bandwidth lies where no machine of these years leaves it: a bit for a byte would."""
    device = CATALOG.device(id)
    if device.kind == "smartnic":
        return
    wide = max((device.peak[f].si for f in ("fp32", "bf16", "fp16") if f in device.peak), default=0.0)
    streams = [level.bandwidth.si for level in device.memory if level.role == "offchip"]
    if wide and streams:
        assert 0.8 <= wide / max(streams) <= 1000  # a Jetson Thor: 258 TFLOPS over 273 GB/s


@each("id", DEVICES)
def test_sparse_is_never_the_peak(id):
    device = CATALOG.device(id)
    for format, sparse in device.sparse_peak.items():
        assert 1.9 <= sparse.si / device.peak[format].si <= 8
    rates = [device.peak[f].si for f in ("fp32", "fp16", "fp8", "fp4") if f in device.peak]
    assert rates == sorted(rates), "a narrower float is never slower"


def block_peak(device: Device, format: str, low: bool = False) -> float | None:
    """Peak that the family's block gives."""
    if device.cpu is not None:
        sockets = device.cpu.sockets.si if device.cpu.sockets else 1
        clock = device.cpu.vector_clock.get(format, device.cpu.clock).si
        return sockets * device.cpu.cores.si * device.cpu.flop_per_cycle[format].si * clock
    if device.card is not None:
        clock = device.card.clock.min if low else device.card.clock.max
        return 2 * device.card.cores.si * device.card.mac_per_cycle[format].si * clock.si
    if device.npu is not None:
        n = device.npu
        sharing = (n.batch_lanes.si if n.batch_lanes else 1) * (n.cores.si if n.cores else 1)
        return 2 * n.native_dim.si * n.lanes.si * n.tiles.si * n.clock.si * sharing
    if device.dfx is not None:
        return 2 * device.dfx.cores.si * device.dfx.d.si * device.dfx.l.si * device.dfx.clock.si
    if device.smartnic is not None:
        return 2 * 32 * device.smartnic.engines.si * device.smartnic.clock.si
    return family(device.kind).peak(device, format)


@pytest.mark.parametrize("id", [id for id in DEVICES if CATALOG.device(id).kind != "gpu"])
def test_peak_follows_from_the_block(id):
    device = CATALOG.device(id)
    for low, peaks in ((False, device.peak), (True, device.peak_low)):
        for format, peak in peaks.items():
            assert block_peak(device, format, low) == pytest.approx(peak.si, rel=4e-3)


@each("id", [id for id in DEVICES if CATALOG.device(id).gpu is not None])
def test_nobody_measured_more_than_the_peak(id):
    device = CATALOG.device(id)
    for format, rate in device.gpu.achieved_peak.items():
        assert 0.4 * device.peak[format].si < rate.si < device.peak[format].si


DERIVED = {
    "m20k-capacity": lambda d: d.fpga.m20k.si * 512 * 40 / 8,
    "m20k-bandwidth-600mhz": lambda d: d.fpga.m20k.si * 40 / 8 * 600e6,
    "multiply-accumulators": lambda d: d.npu.native_dim.si * d.npu.lanes.si * d.npu.tiles.si,
    "peak-ms-fp8": lambda d: block_peak(d, "ms-fp8"),
    "peak-int8": lambda d: block_peak(d, "int8"),
    "ops-per-watt": lambda d: max(p.si for p in d.peak.values()) / d.power.max.si,
    "clock-over-300mhz": lambda d: d.npu.clock.si / 300e6,
    "dma-bits-per-cycle": lambda d: d.dfx.d.si * d.dfx.l.si * 16,
    "hbm-channels-bandwidth": lambda d: d.dfx.channels.si * 14.375e9,
}


@pytest.mark.parametrize(
    ("id", "metric"), [(id, check.metric) for id in DEVICES for check in CATALOG.device(id).checks], ids=str
)
def test_device_checks(id, metric):
    device = CATALOG.device(id)
    check = next(c for c in device.checks if c.metric == metric)
    assert DERIVED[metric](device) == pytest.approx(check.value.si, rel=max(check.tolerance, 1e-12))


def test_dma_fills_the_channels_and_stays_below_the_memory():
    dfx = CATALOG.device("alveo-u280-dfx")
    assert dfx.dfx.channels.si * dfx.dfx.channel_bits.si == dfx.dfx.d.si * dfx.dfx.l.si * 16
    assert dfx.dfx.channels.si * dfx.dfx.channel_bits.si / 8 * dfx.dfx.clock.si < dfx.memory[0].bandwidth.si


def test_stratix_generations():
    """The document's ratios of Stratix 10 280 to Stratix V D5: 5.4x logic, 3.6x DSP, 5.8x memory, 3x clock."""
    new, old = CATALOG.device("stratix-10-280-brainwave"), CATALOG.device("stratix-v-d5-brainwave")
    assert round(new.fpga.alm.si / old.fpga.alm.si, 1) == 5.4
    assert round(new.fpga.dsp.si / old.fpga.dsp.si, 1) == 3.6
    assert round(new.fpga.m20k.si / old.fpga.m20k.si, 1) == 5.8
    for id in DEVICES:
        if (part := CATALOG.device(id)).npu is not None:
            memory = next(level for level in part.memory if level.role == "onchip")
            assert memory.bandwidth.si == pytest.approx(part.fpga.m20k.si * 5 * part.npu.clock.si, rel=0.01)
            assert memory.capacity.si == pytest.approx(part.fpga.m20k.si * 2560, rel=0.001)


def system_figure(system: System, metric: str) -> float:
    """Sum over the devices in place; power also counts what the system draws at any load."""
    total = 0.0
    for group in system.devices:
        device = CATALOG.device(group.device)
        if metric == "power":
            one = device.power.loaded.si
        elif metric == "price":
            one = device.price.si
        elif metric == "memory":
            one = sum(level.capacity.si for level in device.memory if level.role == "offchip")
        else:
            peaks, format = (
                (device.peak_low, metric[9:]) if metric.startswith("peak-low-") else (device.peak, metric[5:])
            )
            one = peaks[format].si
        total += group.count * one
    extra = system.extra_power.si if metric == "power" and system.extra_power else 0.0
    return total + extra


@pytest.mark.parametrize(
    ("id", "metric"), [(id, check.metric) for id in SYSTEMS for check in CATALOG.system(id).checks], ids=str
)
def test_system_checks(id, metric):
    system = CATALOG.system(id)
    check = next(c for c in system.checks if c.metric == metric)
    assert system_figure(system, metric) == pytest.approx(check.value.si, rel=max(check.tolerance, 1e-12))


def test_memory_of_cards_and_host_is_160_gb():
    node = CATALOG.system("fb-node")
    host = CATALOG.device(node.host.device).memory[0].capacity.si
    assert system_figure(node, "memory") + host == pytest.approx(160e9)
    watts = system_figure(node, "power")
    assert round(system_figure(node, "peak-low-int8") / watts / 1e12, 2) == 1.98
    assert round(system_figure(node, "peak-int8") / watts / 1e12, 2) == 2.97


@each("id", SYSTEMS)
def test_system_refers_to_what_exists(id):
    system = CATALOG.system(id)
    for group in (*system.devices, *([system.host] if system.host else [])):
        CATALOG.device(group.device)
        assert not group.counts or (group.count in group.counts and list(group.counts) == sorted(set(group.counts)))
    for use in system.links:
        CATALOG.link(use.link)
    if system.nic:
        CATALOG.nic(system.nic)
    if system.rival:
        CATALOG.system(system.rival)
    assert "single" in system.schemes
    several = any(max(group.counts or (group.count,)) > 1 for group in system.devices) or len(system.devices) > 1
    if {"tensor", "tables", "pinned", "split"} & set(system.schemes) and system.topology != "on-path":
        assert several
        assert any(use.role in ("peer", "network") for use in system.links)


@each("id", CATALOG.ids("links"))
def test_link(id):
    link = CATALOG.link(id)
    assert 1e8 <= link.bandwidth.si <= 1e12
    assert 1e-8 <= link.latency.si <= 2e-2  # a way to a datacenter 500 km off is a link too
    assert link.payload is None or 0.5 < link.payload.si <= 1


def test_pcie_rates_follow_from_the_lanes():
    for id, gigatransfers, lanes in (
        ("pcie-gen3-x4", 8, 4),
        ("pcie-gen3-x8", 8, 8),
        ("pcie-gen3-x16", 8, 16),
        ("pcie-gen4-x16", 16, 16),
        ("pcie-gen5-x16", 32, 16),
    ):
        assert CATALOG.link(id).bandwidth.si == pytest.approx(gigatransfers * 1e9 * lanes / 8 * 128 / 130, rel=2e-3)


def test_the_documents_have_their_systems():
    assert set(DOCUMENTED) <= set(SYSTEMS)
    assert {CATALOG.system(id).document for id in DOCUMENTED} == {"000", "001", "002", "003", "004"}
    used = {group.device for id in SYSTEMS for group in CATALOG.system(id).devices}
    assert used == set(DEVICES), "every device can be chosen"
