"""What the five documents print of their hardware, read beside the catalog entry that carries it."""

from functools import reduce

from hardware_specs import default_catalog, parse
from tests.each import each

CATALOG = default_catalog()

PRINTED = [
    ("FB-001", "devices", "m2-card", "peak.int8", "45 TOPS"),
    ("FB-001", "devices", "m2-card", "peak_low.int8", "30 TOPS"),
    ("FB-002", "devices", "m2-card", "peak.fp16", "6 TFLOPS"),
    ("FB-002", "devices", "m2-card", "peak_low.fp16", "4 TFLOPS"),
    ("FB-003", "devices", "m2-card", "memory.lpddr.capacity", "16 GB"),
    ("FB-004", "devices", "m2-card", "power.loaded", "13 W"),
    ("FB-059", "devices", "xeon-d-2191", "memory.dram.capacity", "64 GB"),
    ("FB-060", "nics", "nic-50g-shared", "shared_by", "2"),
    ("FB-063", "systems", "fb-node", "extra_power", "13 W"),
    ("FB-064", "links", "nic-50g-shared", "bandwidth", "50 Gbps"),
    ("BW-003", "links", "datacenter-40g", "latency", "2 us"),
    ("BW-004", "links", "datacenter-40g", "bandwidth", "40 Gbps"),
    ("BW-012", "devices", "stratix-10-280-brainwave", "fpga.m20k", "11,721"),
    ("BW-035", "devices", "stratix-10-280-brainwave-pre", "npu.clock", "300 MHz"),
    ("BW-042", "devices", "stratix-10-280-brainwave", "npu.clock", "550 MHz"),
    ("BW-044", "devices", "stratix-10-280-brainwave", "power.max", "125 W"),
    ("5G-013", "devices", "xeon-e5-2650", "cpu.cores", "8"),
    ("5G-013", "devices", "xeon-e5-2650", "cpu.clock", "2.4 GHz"),
    ("5G-014", "devices", "xeon-e5-2650", "memory.l3.capacity", "20 MiB"),
    ("5G-014", "devices", "xeon-e5-2650", "memory.l2.capacity", "256 KiB"),
    ("5G-015", "devices", "xeon-e5-2650", "memory.dram.capacity", "16 GB"),
    ("5G-024", "links", "tcp-nic-loop", "per_transfer", "300 us"),
    ("5G-032", "devices", "agilio-cx-2x40", "smartnic.threads_per_engine", "8"),
    ("5G-036", "devices", "agilio-cx-2x40", "memory.imem.capacity", "4 MiB"),
    ("5G-037", "devices", "agilio-cx-2x40", "memory.emem-cache.capacity", "6 MiB"),
    ("5G-038", "devices", "agilio-cx-2x40", "smartnic.clock", "800 MHz"),
    ("5G-039", "devices", "agilio-cx-2x40", "smartnic.port_rate", "40 Gbps"),
    ("5G-040", "devices", "xeon-e5-1630v3", "cpu.clock", "3.7 GHz"),
    ("5G-041", "devices", "agilio-cx-2x40", "smartnic.executors", "256"),
    ("5G-053", "systems", "xeon-e5-1630v3", "extra_power", "69.4 W"),
    ("5G-057", "devices", "agilio-cx-2x40", "power.loaded", "0.8 W"),
    ("DFX-015", "links", "qsfp-100g-aurora", "bandwidth", "100 Gb/s"),
    ("DFX-017", "devices", "alveo-u280-dfx", "memory.hbm.capacity", "8 GB"),
    ("DFX-017", "devices", "alveo-u280-dfx", "memory.hbm.bandwidth", "460 GB/s"),
    ("DFX-018", "devices", "alveo-u280-dfx", "memory.ddr.capacity", "32 GB"),
    ("DFX-018", "devices", "alveo-u280-dfx", "memory.ddr.bandwidth", "38 GB/s"),
    ("DFX-031", "devices", "alveo-u280-dfx", "dfx.clock", "200 MHz"),
    ("DFX-059", "devices", "v100-32gb", "price", "11,458 USD"),
    ("DFX-060", "devices", "alveo-u280-dfx", "price", "7,795 USD"),
    ("DFX-066", "devices", "v100-32gb", "memory.hbm.capacity", "32 GB"),
    ("DFX-066", "devices", "v100-32gb", "memory.hbm.bandwidth", "900 GB/s"),
]


def step(node, name):
    if isinstance(node, tuple):
        return next(item for item in node if item.name == name)
    return node[name] if isinstance(node, dict) else getattr(node, name)


@each(("claim", "section", "id", "field", "printed"), PRINTED)
def test_catalog_says_what_the_document_prints(claim, section, id, field, printed):
    entry = getattr(CATALOG, section.removesuffix("s"))(id)
    found = reduce(step, field.split("."), entry)
    assert (found.si, found.dimension) == parse(printed), claim
    assert found.basis in ("published", "measured"), f"{claim} is printed, so it is not assumed"


def test_wide_and_deep_socket():
    """Document 002: 28 cores, 12 slots of 32 GB."""
    socket = CATALOG.device("xeon-8280l")
    assert socket.cpu.cores.si == 28
    assert socket.memory[0].capacity.si == 12 * 32e9


def test_stored_bits_follow_from_the_mantissas():
    """BW-016 and BW-017: two or three mantissa bits, plus a sign; the exponent is shared."""
    assert CATALOG.device("stratix-10-280-brainwave").npu.weight_bits.si == 1 + 2
    assert CATALOG.device("stratix-v-d5-brainwave").npu.weight_bits.si == 1 + 3


def test_executors_are_the_printed_threads():
    """5G-041: six threads of 42 engines and four of one more; engines in use fit the part."""
    nic = CATALOG.device("agilio-cx-2x40").smartnic
    assert nic.executors.si == 6 * 42 + 4
    assert nic.engines.si >= 43
    assert nic.executors.si <= nic.engines.si * nic.threads_per_engine.si
