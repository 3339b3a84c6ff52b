"""A sweep is `evaluate` many times over: the same bits for every family, executor and chunk size, and physics holds."""

import csv
import pickle
import random
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from engine.cli.main import main
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario
from engine.resolve.presets import preset
from engine.scenario import ScenarioError, decode
from engine.sweep import (
    FIGURES,
    Axis,
    Space,
    SweepCancelled,
    figures_of,
    price,
    space_of,
    sweep,
    table_rows,
    write_rows,
)
from engine.sweep.sensitivity import knobs_of
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.effort import examples

PAIRS = (
    ("v100-appliance", "gpt2-345m"),
    ("h100-sxm", "resnet50"),
    ("h200-sxm", "gpt-oss-20b"),  # windows
    ("h100-sxm", "whisper-large-v3"),  # an encoder, and attention to what it left
    ("fb-node", "dlrm-less-complex"),
    ("xeon-e5-2650", "wide-deep-criteo"),
    ("brainwave-s10-isca18", "deepbench-gru-512"),
    ("dfx-u280", "gpt2-345m"),
    ("agilio-cx", "binary-mlp-mnist"),
    ("edge-core", "mobilenet-v2"),
    ("xeon-agilio-coprocessor", "vgg16-cifar-binary"),
)


def test_the_pairs_hold_every_family() -> None:
    systems = default_catalog()
    kinds = {systems.device(group.device).kind for s, _ in PAIRS for group in systems.system(s).devices}
    assert kinds == {"gpu", "card", "cpu", "npu", "dfx", "smartnic"}


def random_space(system: str, workload: str, seed: int, numbers: int = 3):
    """Axes over what the pair offers and over numbers of its specs, some of them out of range."""
    draw = random.Random(f"{system} {workload} {seed}")
    base = default_scenario(system, workload)
    offered = choices(base)
    axes: dict = {"batch": sorted(draw.sample((1, 2, 3, 8, 33, 128), 2))}
    if offered.input_label:
        axes["inputs"] = [base.inputs, max(1, base.inputs // 2)]
    if offered.output_label:
        axes["outputs"] = [1, base.outputs]
    some = [
        ("precision", offered.formats),
        ("scheme", offered.schemes),
        ("devices", offered.device_counts),
        ("streams", (1, offered.max_streams + 1)),
        ("split", (0, len(offered.splits) // 2)),
        *((f"switches.{s.name}", (True, False)) for s in offered.switches),
        *((f"params.{p.name}", (p.default, p.low)) for p in offered.params),
    ]
    for path, values in draw.sample(some, min(2, len(some))):
        axes[path] = list(dict.fromkeys(draw.sample(list(values), min(2, len(values)))))
    known = knobs_of(base)
    for path in draw.sample(sorted(known), numbers):
        around = (draw.uniform(0.3, 3.0), draw.choice((0.5, 2.0)), draw.uniform(0.8, 1.2), draw.uniform(2.0, 4.0))
        axes[path] = [known[path], *(known[path] * f for f in around[: draw.randint(1, 4)])]  # sizes differ
    return space_of({"scenario": {"system": system, "workload": workload}, "axes": axes, "constraints": []})


def check_points(space, count: int, seed: int) -> int:
    """Compares designs with `evaluate`, every figure to the bit; returns how many ran."""
    values, bad, unfit = price(space)
    ran = 0
    for number in random.Random(seed).sample(range(space.size), min(count, space.size)):
        try:
            figures = figures_of(space, number)
        except (ScenarioError, Unsupported):
            assert bad[number], space.values(number)
            continue
        assert not bad[number], space.values(number)
        assert figures["fits"] == (not unfit[number]), space.values(number)
        for name, value in zip(FIGURES, values[:, number], strict=True):
            assert np.float64(figures[name]).tobytes() == np.float64(value).tobytes(), (name, space.values(number))
        ran += 1
    return ran


@pytest.mark.parametrize(("system", "workload"), PAIRS)
def test_sizes_in_any_number_sweep_as_they_are_evaluated(system: str, workload: str) -> None:
    """So many that operators are priced once for each size that occurs, and others design by design."""
    offered = choices(default_scenario(system, workload))
    axes: dict = {"batch": [1, 2, 3, 5, 8, 13, 21, 34]}
    axes |= {"inputs": [1, 2, 7, 16, 40, 41, 99]} if offered.input_label else {}
    axes |= {"outputs": [1, 2, 3, 9, 40, 64]} if offered.output_label else {}
    axes |= {"streams": [n for n in (1, 2, 3, 4, 7) if n <= offered.max_streams]}
    some = random.Random(workload).choice(sorted(knobs_of(default_scenario(system, workload))))
    known = knobs_of(default_scenario(system, workload))[some]
    axes[some] = [known, 1.5 * known]
    space = space_of({"scenario": {"system": system, "workload": workload}, "axes": axes, "constraints": []})
    assert check_points(space, 24, 7) > 6


SWEPT = {
    "a part that its family resizes, in a format that needs more logic": (
        {"system": "brainwave-s10-isca18", "workload": "deepbench-gru-512"},
        {"precision": ["ms-fp8", "ms-fp9"], "devices.0.npu.tiles": [4, 6, 8, 12], "devices.0.fpga.m20k": [6e3, 4e4]},
        9,
    ),
    "a placement over switches": (
        {"system": "brainwave-s10-isca18", "workload": "mlp-121m", "scheme": "pinned"},
        {"links.network.hops": [1, 3, 5], "devices": [2, 4], "links.network.latency": [1e-6, 2e-6]},
        12,
    ),
    "guessed tokens": (
        {"system": "h200-sxm", "workload": "deepseek-r1", "devices": 8, "scheme": "tensor"},
        {"params.guesses": [0, 1, 3], "params.acceptance": [0.5, 0.9], "outputs": [2, 65], "batch": [1, 8]},
        24,
    ),
    "load directions and schemes of a core": (
        {"system": "dfx-u280", "workload": "gpt2-345m", "scheme": "tensor", "devices": 2},
        {
            "scheme": ["tensor", "clusters", "pipelined"],
            "devices": [2, 3, 8],
            "load_direction": ["zigzag", "horizontal", "vertical"],
            "model.register_read": [1.0, 4.0, 8.0],
        },
        31,
    ),
    "devices that exchange nothing": (
        {"system": "fb-node", "workload": "dlrm-less-complex"},
        {"devices": [1, 6], "scheme": ["tables", "tensor"], "links.peer.bandwidth": [1e9, 4e9]},
        8,
    ),
    "stages that stream": (
        {"system": "npu-rtl", "workload": "deepbench-gru-2816", "scheme": "pinned"},
        {"inputs": [1, 2, 100], "devices": [1, 2, 4], "links.network.bandwidth": [1e8, 5e9]},
        18,
    ),
}
"""What is swept: its scenario, its axes, and how many of up to 40 of its designs run at least. [-]"""


@each("what", SWEPT)
def test_it_sweeps_as_it_is_evaluated(what: str) -> None:
    scenario, axes, least = SWEPT[what]
    assert check_points(space_of({"scenario": scenario, "axes": axes, "constraints": []}), 40, 1) >= least


@each("system", ["h100-sxm", "xeon-8480plus"])
def test_a_kv_format_sweeps_as_it_is_evaluated(system: str) -> None:
    formats, rates = ["as activations", "fp16", "fp8", "int8"], {"from": 1e11, "to": 4e12, "steps": 3}
    axes = {"batch": [1, 8, 64], "kv_format": formats, "inputs": [16, 900], "devices.0.memory.0.bandwidth": rates}
    scenario = {"system": system, "workload": "gpt2-345m"}
    assert check_points(space_of({"scenario": scenario, "axes": axes, "constraints": []}), 60, 1) == 60


def test_a_per_layer_plan_sweeps_as_it_is_evaluated() -> None:
    """On a family whose compiler leaves the graph as it is, too."""
    base = default_scenario("xeon-8280l", "resnet50", precision="int8")
    graph = default_zoo().graph("resnet50")
    layers = {op.name: "fp32" for op in graph.ops if op.contraction and op.stored}
    space = Space(base.with_(layers=layers), (Axis("batch", (1, 4)), Axis("streams", (1, 2))))
    assert check_points(space, 4, 1) == 4


def test_a_design_without_hyper_threads_is_itself_beside_those_with_them():
    """Eight designs are priced side by side: what one of them has changes no bit of another."""
    axes = {"model.threads_per_core": [1.0, 2.0], "batch": list(range(1, 65)), "params.image": [96, 224]}
    base = {"system": "xeon-8280l", "workload": "resnet50", "set": {"streams": 28}}
    assert check_points(space_of({"scenario": base, "axes": axes}), 256, 0) == 256


@pytest.mark.parametrize(("system", "workload"), PAIRS)
def test_sweep_is_evaluate(system: str, workload: str) -> None:
    """Of `make soak` up to 204,600 designs over all pairs."""
    seeds = range(100, 100 + examples(31))
    ran = sum(check_points(random_space(system, workload, seed), examples(150), seed) for seed in seeds)
    assert ran > 2 * len(seeds)


GRID = {
    "scenario": {"system": "v100-appliance", "workload": "gpt2-345m"},
    "axes": {
        "batch": [1, 2, 4, 8, 600],
        "precision": ["fp16", "fp32"],
        "devices.0.memory.hbm.bandwidth": {"from": 5e11, "to": 4e12, "steps": 12, "scale": "log"},
        "devices.0.peak.fp16": {"from": 5e13, "to": 1e15, "steps": 11, "scale": "log"},
        "devices.0.price": [11_458],  # no list has the other designs
        "costs.years": [1, 3],
    },
    "constraints": ["fits", "latency_s <= 2"],
    "objectives": ["latency_s:min", "throughput_per_w:max", "usd_per_million:min"],
}


def same(a, b) -> bool:
    arrays = (
        (a.front.numbers, b.front.numbers),
        (a.front.values, b.front.values),
        (a.cloud, b.cloud),
        (a.top.numbers, b.top.numbers),
        (a.top.values, b.top.values),
        (a.cloud_state, b.cloud_state),
    )
    counts = (a.counts.refused, a.counts.unfit, a.counts.kept, a.counts.missed.tolist())
    return all(x.tobytes() == y.tobytes() for x, y in arrays) and counts == (
        b.counts.refused,
        b.counts.unfit,
        b.counts.kept,
        b.counts.missed.tolist(),
    )


def test_chunks_and_threads_change_no_byte() -> None:
    whole = sweep(GRID)
    assert len(whole.front) > 1
    assert whole.counts.done == whole.counts.size == space_of(GRID).size
    for chunk in (1000, 77):
        assert same(whole, sweep(GRID, chunk=chunk))
    with ThreadPoolExecutor(1) as serial, ThreadPoolExecutor(3) as three:
        assert same(whole, sweep(GRID, executor=serial))
        assert same(whole, sweep(GRID, executor=three, chunk=64))


class Elsewhere(Executor):
    """Another process as a sweep sees one: what is sent to it and what it returns is pickled."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        asked, answer = pickle.loads(pickle.dumps((fn, args, kwargs))), Future[Any]()
        answer.set_result(pickle.loads(pickle.dumps(asked[0](*asked[1], **asked[2]))))
        return answer


def test_what_another_process_is_sent_and_returns_changes_no_byte() -> None:
    assert same(sweep(GRID), sweep(GRID, executor=Elsewhere(), chunk=500))


def test_front_is_that_of_every_design_priced() -> None:
    space = space_of(GRID)
    result = sweep(space)
    values, bad, unfit = price(space, [o.figure for o in space.objectives])
    cost = values * np.array([[o.sign] for o in space.objectives])
    able = np.flatnonzero(~bad & ~unfit & (values[0] <= 2))
    assert result.counts.kept == len(able)
    assert result.counts.unfit == int(unfit.sum())
    front = []
    for i in able:
        better = (cost[:, able] <= cost[:, [i]]).all(axis=0) & (cost[:, able] < cost[:, [i]]).any(axis=0)
        if not better.any():
            front.append(i)
    assert result.front.numbers.tolist() == front


@pytest.mark.parametrize("k", [0, 1, 7, 100_000])
def test_the_best_are_those_of_every_design_priced(k: int) -> None:
    space = space_of(GRID)
    values, bad, unfit = price(space, ["latency_s"])
    able = np.flatnonzero(~bad & ~unfit & (values[0] <= 2))
    order = able[np.lexsort((able, values[0][able]))][:k]
    for chunk in (1 << 15, 77):
        top = sweep(GRID, top=k, chunk=chunk).top
        assert top.numbers.tolist() == order.tolist()
        assert top.values[0].tolist() == values[0][order].tolist()
    if k == 7:
        assert [row["design"] for row in top.rows()] == order.tolist()


def test_each_token_is_its_row(tmp_path) -> None:
    result = sweep(GRID)
    write_rows(result.front.rows(), tmp_path / "front.csv")
    with (tmp_path / "front.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        report = evaluate(decode(row["token"]))
        for name in ("latency_s", "throughput_per_w", "usd_per_million"):
            assert getattr(report, name) == float(row[name])


def test_the_full_table_is_every_design(tmp_path) -> None:
    space = space_of(GRID | {"axes": {"batch": [1, 600], "precision": ["fp16", "ms-fp9"]}})
    write_rows(table_rows(space), tmp_path / "all.csv")
    with (tmp_path / "all.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["token"] != "" for row in rows] == [True, False, True, False]  # no unit for block floating point there
    for row in rows[::2]:
        report = evaluate(decode(row["token"]))
        assert float(row["latency_s"]) == report.latency_s
        assert row["fits"] == str(report.fits)
    with pytest.raises(ScenarioError, match="at most"):
        next(
            table_rows(
                space_of(
                    GRID
                    | {
                        "axes": {
                            "costs.years": {"from": 1, "to": 9, "steps": 2000},
                            "costs.pue": {"from": 1, "to": 2, "steps": 1000},
                        }
                    }
                )
            )
        )


def test_a_space_survives_its_token_and_its_file(tmp_path) -> None:
    space = space_of(GRID)
    assert space_of(space.token) == space
    file = tmp_path / "space.yaml"
    file.write_text(
        "scenario: {system: v100-appliance, workload: gpt2-345m}\naxes:\n  batch: [1, 2]\n  precision: [fp16, fp32]\n"
    )
    assert space_of(file).size == 4
    out = tmp_path / "front.csv"
    assert main(["sweep", str(file), "--out", str(out), "--pareto", "latency_s:min,capex_usd:min"]) == 0
    assert out.read_text().startswith("design,batch,precision,latency_s,capex_usd,token")


def test_a_system_axis_takes_what_each_system_offers() -> None:
    space = space_of(
        {
            "scenario": {"system": "v100-appliance", "workload": "gpt2-345m"},
            "axes": {"system": ["v100-appliance", "dfx-u280", "agilio-cx"], "batch": [1, 2]},
        }
    )
    result = sweep(space)
    assert result.counts.refused == 2  # the SmartNIC runs binary layers only
    assert any("binary" in text for text in result.counts.sentences)
    assert {space.scenario(n).system for n in range(4)} == {"v100-appliance", "dfx-u280"}


def test_no_design_is_on_the_front_for_a_rounding_alone() -> None:
    """Calls that take turns leave batches of 128 and 512 one latency; a quarter of the rate was on the front too."""
    axes = {"batch": [4, 128, 512], "devices.0.cpu.clock": ["1.65 GHz", "2.08 GHz"]}
    objectives = ["latency_s", "throughput_per_s"]
    front = sweep({"scenario": preset("wide-deep-int8").scenario, "axes": axes, "objectives": objectives}).front
    assert {row["batch"] for row in front.rows()} == {512}


def test_cancel_and_progress() -> None:
    seen = []
    sweep(GRID, chunk=300, progress=lambda done, size: seen.append((done, size)))
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
    assert seen[-1] == (space_of(GRID).size,) * 2
    with pytest.raises(SweepCancelled):
        sweep(GRID, chunk=300, cancelled=lambda: len(seen) > 0)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"axes": {"batch": []}}, "batch"),
        ({"axes": {"batch": {"from": 1}}}, "batch"),
        ({"axes": {"batch": [1], "system.batch": [1]}, "constraints": ["latency_s < 3"]}, "latency_s < 3"),
        ({"constraints": ["speed <= 3"]}, "speed"),
        ({"objectives": ["latency_s:fast"]}, "fast"),
        ({"objectives": ["a", "b"]}, "'a'"),
        ({"axis": {}}, "axis"),
        ({"axes": {"links.peer.bandwidth": [1e9], "links.peer": [1]}}, "links.peer"),
        ({"scenario": "1znonsense"}, "link"),
    ],
)
def test_bad_spaces_are_one_sentence(change, word) -> None:
    with pytest.raises(ScenarioError, match=word) as error:
        space_of(GRID | change)
    assert "\n" not in str(error.value)
