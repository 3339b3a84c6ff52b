"""Work of a host before an accelerator can begin: whose cores do it, and what goes on meanwhile."""

import pytest

from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario, why_not
from hardware_specs.catalog import default_catalog
from tests.each import each

WORKLOAD = "wide-deep-criteo"
SYSTEMS = [id for id in default_catalog().ids("systems") if why_not(id, WORKLOAD) is None]
BOARDS = [id for id in SYSTEMS if default_catalog().device(default_catalog().system(id).devices[0].device).own_cpu]


def _parsed_s(report) -> float:
    return sum(row.time_s for row in report.other if row.name == "features parsed and hashed by the host")


@each("id", SYSTEMS)
def test_a_host_parses_while_its_device_works(id: str) -> None:
    """The slower of the two sets the rate, their sum the latency; streams share the cores that parse."""
    report = evaluate(default_scenario(id, WORKLOAD, batch=512))
    scenario = report.scenario
    parsed = _parsed_s(report)
    device, interval = report.latency_s - parsed, 512 * scenario.streams / report.throughput_per_s
    pipelined = report.breakdown["links"]  # where transfers go on beside the device too
    assert interval <= max(device, parsed * scenario.streams) * (1 + 1e-9)
    assert interval >= max(device - pipelined, parsed * scenario.streams) * (1 - 1e-9)


@each("id", BOARDS)
def test_a_board_parses_on_its_own_cores(id: str) -> None:
    """As many cycles a feature as any host's, on as many cores as it has: half the cores or clock, twice the time."""
    base = default_scenario(id, WORKLOAD, batch=512)
    own = default_catalog().device(default_catalog().system(id).devices[0].device).own_cpu
    spent = _parsed_s(evaluate(base))
    assert spent == pytest.approx(_parsed_s(evaluate(default_scenario("l4", WORKLOAD, batch=512)))
                                  * 8 * 2.5e9 / (own.cores.si * own.clock.si))  # fmt: skip
    for path, value in (("cores", own.cores.si / 2), ("clock", own.clock.si / 2)):
        half = base.with_(overrides={f"devices.0.own_cpu.{path}": value})
        assert _parsed_s(evaluate(half)) == pytest.approx(2 * spent)


HOSTED = [id for id in SYSTEMS if default_catalog().system(id).host_power_counted]


@each("id", HOSTED)
def test_devices_parse_on_no_more_cores_than_their_host_has(id: str) -> None:
    """However many cores are set aside for each device: what all of them parse in a second takes all cores at most."""
    catalog, system = default_catalog(), default_catalog().system(id)
    base = default_scenario(id, WORKLOAD, batch=512)
    for devices in system.devices[0].counts or (1,):
        scheme = "replicas" if devices > 1 else "single"
        for wanted in (1.0, 8.0, 32.0):
            for cores in (1, catalog.device(system.host.device).cpu.cores.si, 64):
                overrides = {"model.parsing_cores": wanted, "host.cpu.cores": cores}
                report = evaluate(base.with_(devices=devices, scheme=scheme, overrides=overrides))
                core_s = _parsed_s(report) * min(wanted, cores) / 512
                assert core_s == pytest.approx(39 * (94e-9 + 20 * 1.4e-9) + 26 * 12.8e-9), (devices, wanted, cores)
                assert report.throughput_per_s * core_s <= cores * (1 + 1e-9), (devices, wanted, cores)


@each("id", BOARDS)
def test_requests_of_a_board_come_over_its_own_port(id: str) -> None:
    """A record is 780 B whatever the format of the network: no board answers more than its port brings in."""
    for precision in choices(default_scenario(id, WORKLOAD)).formats:
        report = evaluate(default_scenario(id, WORKLOAD, batch=512, precision=precision))
        (port,) = (link for link in report.links if link.role == "network")
        assert port.bytes_per_request >= 512 * 39 * 20.0
        assert report.throughput_per_s * 39 * 20.0 <= port.bandwidth * (1 + 1e-9)
        slow = default_scenario(id, WORKLOAD, batch=512).with_(overrides={"links.network.bandwidth": "0.1 Gbps"})
        assert evaluate(slow).bound == "links"
