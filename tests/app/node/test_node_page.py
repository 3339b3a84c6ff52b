"""The Node page: topology, switches, core split (AppTest: no browser)."""

import pytest

from app.shared import cached
from app.shared import formats as fmt
from app.views.node import charts, facts
from app.views.node.tilings import tiled_product
from engine.analyses.node.tilings import products
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import decode, encode
from tests.app.pages import alive, key_of, opened, said
from tests.app.valid import valid

NODE = PRESETS["node-dlrm"].scenario
pytestmark = pytest.mark.timeout(300)  # the first run compiles the engine's kernels


@pytest.mark.parametrize("dark", [False, True])
def test_the_node_is_drawn_with_what_crosses_each_link(dark):
    report = cached.report(encode(NODE))
    fig = valid(charts.topology(report, dark))
    texts = " ".join(note.text for note in fig.layout.annotations)
    assert all(f"Card {i}" in texts for i in range(1, 7))
    assert "Card 7" not in texts
    assert all(f"<b>{name}</b>" in texts for name in ("Network", "Switch", bind(NODE).host.name))
    assert texts.count("busy") == 6  # both directions of three kinds of link
    widths = [t.line.width for t in fig.data]
    assert len(widths) == 2 + 6
    used = {row.role: row.utilisation for row in report.links}
    assert (widths[0] > widths[1]) == (used["network"] > used["host"])
    for note in fig.layout.annotations:
        assert fig.layout.xaxis.range[0] <= note.x <= fig.layout.xaxis.range[1]
        assert fig.layout.yaxis.range[0] <= note.y <= fig.layout.yaxis.range[1]


def test_gains_are_ratios_of_two_evaluations():
    together, rows = facts.gains(NODE, "throughput")
    off = dict.fromkeys(NODE.switches, False)
    now, bare = (cached.report(encode(NODE.with_(switches=s))) for s in (NODE.switches, off))
    assert together == now.throughput_per_s / bare.throughput_per_s
    row = next(r for r in rows if r.switch.name == "peer-to-peer")
    without = cached.report(encode(NODE.with_(switches={**NODE.switches, "peer-to-peer": False})))
    assert row.on
    assert row.beside == now.throughput_per_s / without.throughput_per_s
    assert rows == sorted(rows, key=lambda r: -(r.beside or 0.0))
    _, moved = facts.gains(NODE, "wires")
    assert next(r for r in moved if r.switch.name == "peer-to-peer").beside > 1


def test_the_page_answers_and_a_switch_can_be_turned():
    at = opened("node", NODE)
    assert "Speed-up of each optimisation" in said(at)
    table = at.dataframe[0].value
    assert set(table["Optimisation"]) == {r.switch.label for r in facts.gains(NODE, "throughput")[1]}
    row = next(i for i, r in enumerate(facts.gains(NODE, "throughput")[1]) if r.switch.name == "command-batching")
    at.session_state["node.switches"] = {"selection": {"rows": [row], "columns": [], "cells": []}}
    alive(at.run())
    at.button(key="node.turn").click().run()
    assert alive(at).session_state["scenario"].switches["command-batching"] is False
    shown = at.query_params["s"]
    assert decode(shown[0] if isinstance(shown, list) else shown) == at.session_state["scenario"]


@pytest.mark.parametrize("id", ["dfx-1.5b", "wide-deep-int8", "tonic-fc", "node-resnext"])
def test_what_is_no_node_says_so_and_opens_one(id):
    at = opened("node", PRESETS[id].scenario)
    assert len(at.info) == 1
    at.button(key="node.node-dlrm").click().run()
    assert alive(at).session_state["scenario"] == NODE
    assert "Speed-up of each optimisation" in said(at)


def test_a_pool_that_cannot_hold_its_network_says_so_and_not_that_it_is_none():
    report = cached.report(encode(default_scenario("npu-rtl", "alexnet")))
    at = opened("node", report.scenario)
    assert not report.fits
    head, _, rest = report.problems[0].partition(": ")
    assert [error.value for error in at.error] == [f"**{head}:** {fmt.plain(rest)}"]
    assert not at.info


@pytest.mark.parametrize("page", ["node", "traffic"])
def test_a_page_of_what_does_not_fit_offers_a_change_that_does(page):
    at = alive(opened(page, NODE.with_(devices=1)))
    assert at.error[0].value.startswith("**Does not fit:**")
    assert "Speed-up" not in said(at)
    assert at.button(key="fix.0").label == "Devices 6, not 1"
    at.button(key="fix.0").click().run()
    assert not alive(at).error
    assert at.session_state["scenario"] == NODE


def test_models_that_shard_no_tables_open_too():
    at = opened("node", PRESETS["node-xlmr"].scenario)
    assert "Speed-up of each optimisation" in said(at)


def test_a_system_on_the_network_shows_its_pool_and_the_clients_it_takes():
    at = opened("node", PRESETS["brainwave-gru"].scenario)
    figures = {m.label: m.value for m in at.metric}
    assert set(figures) == {"Pool, requests/s", "One client, requests/s", "Clients per instance", "Request to answer"}
    beside = {m.label: m.delta for m in at.metric}
    assert beside["Pool, requests/s"].startswith("8 instances, ")  # of the pool, whatever one client does
    assert beside["Pool, requests/s"].endswith("% busy")
    assert beside["One client, requests/s"] == "4 clients"
    before = float(figures["Clients per instance"])
    at.number_input(key=key_of(at, "w.pool.ms")).set_value(100.0).run()
    after = float({m.label: m.value for m in alive(at).metric}["Clients per instance"])
    assert after == pytest.approx(2 * before, rel=0.01)
    at.number_input(key=key_of(at, "w.pool.clients")).set_value(500).run()
    assert "queue grows without bound" in " ".join(m.delta for m in alive(at).metric)


def test_a_products_tilings_are_drawn_beside_their_bound():
    names = [op.name for _, op, _ in products(NODE)]
    tiled = tiled_product(NODE, names[0])
    best = tiled.product.best["latency"]
    assert {len(row) for row in tiled.bytes} == {len(tiled.columns)}
    assert len(tiled.bytes) == len(tiled.rows)
    assert min(v for row in tiled.bytes for v in row if v is not None) >= tiled.product.bounds[0]
    at = opened("node", NODE)
    assert best.words() not in said(at)
    next(t for t in at.toggle if t.label == "Search them").set_value(True).run()
    assert list(next(b for b in alive(at).selectbox if b.label == "Product").options) == list(names)
    assert fmt.plain(best.words()) in said(at)
    assert any({"Of cores, at least", "LPDDR, at least"} <= set(frame.value) for frame in at.dataframe)
