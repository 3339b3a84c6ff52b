"""Document 003: what was fitted and what is predicted with it."""

import pytest

from engine.evaluate import evaluate
from engine.published import claims, predictions
from engine.published.prediction import value_of
from engine.published.smartnic_edge import BNN_EXEC, QPI, TCP, overheads


def test_tonic_rate_within_five_percent():
    assert predictions()["5G-058"].value() == pytest.approx(1344, rel=0.05)


@pytest.mark.parametrize("id", ["5G-055", "5G-056", "5G-058", "5G-059", "5G-062", "5G-064", "5G-065", "5G-066"])
def test_rates_efficiencies_and_end_to_end_within_seven_percent(id):
    (printed,) = (claim["value"] for claim in claims() if claim["id"] == id)
    assert value_of(predictions(), id) == pytest.approx(printed, rel=0.07)


@pytest.mark.parametrize("system", [QPI, TCP])
def test_split_overhead_peaks_after_the_layer_with_the_largest_output(system):
    found = overheads(system)
    largest = max(size for size, _ in found.values())
    peak = max(percent for _, percent in found.values())
    for size, percent in found.values():
        assert (percent > 0.999 * peak) == (size == largest)
    ranked = [percent for _, percent in sorted(found.values())]
    assert ranked == sorted(ranked)


@pytest.mark.parametrize(("id", "system"), [("5G-021", QPI), ("5G-023", TCP)])
def test_a_claim_of_the_largest_overhead_opens_the_cut_that_has_it(id, system):
    percents, scenario = [percent for _, percent in overheads(system).values()], predictions()[id].scenario()
    assert scenario.system == system
    assert percents[scenario.split - 1] == max(percents)


def test_tcp_costs_more_than_qpi_at_every_split():
    qpi, tcp = overheads(QPI), overheads(TCP)
    assert all(tcp[name][1] > qpi[name][1] for name in qpi)
    assert all(0 <= percent <= 8.5 for _, percent in qpi.values())
    assert all(percent <= 12 for _, percent in tcp.values())


@pytest.mark.parametrize(("neurons", "batch"), [(2048, 64), (4096, 32), (8192, 16), (16384, 8)])
def test_batches_the_document_chose_are_the_largest_powers_of_two_under_its_latency_limit(neurons, batch):
    """Each core runs a batch of its own under 7 ms: 64, 32, 16 and 8 follow from the model."""
    latency = {
        size: evaluate(BNN_EXEC.with_(batch=size, params={"neurons": neurons})).latency_s for size in (batch, 2 * batch)
    }
    assert latency[batch] <= 7e-3 < latency[2 * batch]
