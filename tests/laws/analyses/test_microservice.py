"""A pool behind the network: rates that add up, waits that grow, clients that fill it, and the simulation's word."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analyses.microservice import Client, microservice, waits
from engine.cli.main import main
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS, preset
from engine.scenario import ScenarioError
from engine.traffic import NoBatching, Poisson, simulate, single
from engine.traffic.scenario_load import inferences_of, service_table
from tests.effort import examples

GRU = preset("brainwave-gru").scenario


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 64), st.floats(1e-3, 0.5))
def test_rates_add_up(devices, clients, cores, query_s):
    service = microservice(GRU, devices, clients, Client(cores, query_s))
    assert service.pool_qps == pytest.approx(devices * service.instance_qps)
    assert service.clients_per_instance * service.client_qps == pytest.approx(service.instance_qps)
    assert service.utilisation == pytest.approx(clients * cores / query_s / service.pool_qps)
    assert (service.p95_s is None) == (service.utilisation >= 0.999)
    assert service.most_clients * service.client_qps < service.pool_qps
    assert (clients <= service.most_clients) == (service.p95_s is not None)
    assert (service.clients_per_instance > 1) == (query_s > service.shared_above_s)


def test_waits_grow_with_clients_and_shrink_with_devices():
    curve = [round(seconds, 12) for _, seconds in waits(GRU, 8, Client(1, 20e-3))]
    assert curve == sorted(curve)
    assert curve[0] >= evaluate(GRU).latency_s * (1 - 1e-9)
    for clients in (10, 100):
        small, large = (microservice(GRU, n, clients, Client(1, 20e-3)).p95_s for n in (8, 16))
        assert large <= small


def test_a_limit_on_the_wait_costs_clients():
    client = Client(1, 20e-3)
    free, bound = (microservice(GRU, 4, 1, client, p95_s=limit).most_clients for limit in (None, 1.2e-3))
    assert 0 < bound < free
    assert microservice(GRU, 4, bound, client).p95_s <= 1.2e-3 < microservice(GRU, 4, bound + 1, client).p95_s


def test_an_instance_of_several_devices_leaves_the_rest_idle():
    scenario = default_scenario("brainwave-sv", "gru-3200x2400", devices=4, scheme="pinned")
    service = microservice(scenario, 11)
    assert (service.instances, service.idle_devices) == (2, 3)
    assert service.instance_qps == pytest.approx(evaluate(scenario).throughput_per_s, rel=0.02)


def test_one_instance_waits_as_the_simulation_does():
    client = Client(1, 1.0)  # a request a second each
    service = microservice(GRU, 1, 700, client)
    system = single(service_table(GRU), NoBatching())
    seen = simulate(system, Poisson(700.0), requests=200_000, seed=3)
    assert service.mean_s == pytest.approx(seen.latency.mean.value, rel=0.02)
    assert service.p95_s == pytest.approx(seen.latency.p95.value, rel=0.04)


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"devices": 0}, "devices of the pool is 0"), ({"clients": 0}, "clients is 0"), ({"p95_s": -1.0}, "p95_s is -1")],
)
def test_bad_input_gets_one_sentence(changes, word):
    with pytest.raises(ScenarioError, match=word):
        microservice(GRU, **({"devices": 4} | changes))
    with pytest.raises(ScenarioError, match="client cores is 0"):
        Client(0)


def test_the_command_line(capsys):
    assert main(["microservice", "preset:brainwave-tp1", "--pool", "3", "--client-ms", "100", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["instances"] == 3
    assert data["clients_per_instance"] > 1
    assert main(["microservice", "preset:brainwave-tp1", "--pool", "3", "--client-ms", "nan"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("id", [id for id, entry in PRESETS.items() if entry.scenario.scheme == "replicas"])
def test_a_pool_of_a_nodes_cards_carries_what_the_node_does(id):
    """Where the host decodes video the pool carried six times as much as the node that it is made of."""
    scenario = preset(id).scenario
    node = evaluate(scenario)
    pool = microservice(scenario, scenario.devices)
    assert pool.pool_qps * inferences_of(scenario) == pytest.approx(node.throughput_per_s)
