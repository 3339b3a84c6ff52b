"""Wherever a sweep runs, it finds the same bytes; it stops when it is told to, also while its tables are made."""

import csv
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyarrow.parquet import read_table

from engine.cli.main import main
from engine.cost.best_plan import make_plan
from engine.cost.figures import column_sums
from engine.devices import family
from engine.devices.common.counts import records
from engine.devices.common.job import Job
from engine.devices.gpu import layout
from engine.devices.gpu.record import record
from engine.evaluate import evaluate
from engine.plan.jobs import job_of
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError, decode
from engine.sweep import SweepCancelled, price, space_of, sweep, write_rows
from engine.sweep.pricing.blocks import blocks
from tests.effort import EFFORT
from tests.laws.law_grids import ONE_OF_EACH

GOALS = "latency_s:min,throughput_per_w:max,capex_usd:min"
SPACE = """
scenario: {system: v100-appliance, workload: gpt2-345m}
axes:
  batch: [1, 2, 8, 600]
  devices: [1, 2, 4]
  scheme: [tensor]
  precision: [fp16, fp32]
  devices.0.memory.hbm.bandwidth: {from: 5e11, to: 4e12, steps: 9, scale: log}
  devices.0.peak.fp16: {from: 5e13, to: 1e15, steps: 7, scale: log}
  devices.0.price: {from: 2000, to: 9000, by: 1750}
constraints: [fits, latency_s <= 3]
"""
CORES = {
    "scenario": {"system": "xeon-8280l", "workload": "wide-deep-criteo"},
    "axes": {
        "batch": [64, 512],
        "devices.0.cpu.clock": {"from": 2e9, "to": 4e9, "steps": 9},
        "devices.0.memory.dram.bandwidth": {"from": 1e11, "to": 4e11, "steps": 8},
        "streams": [1, 4],
    },
    "objectives": ["latency_s:min", "throughput_per_s:max"],
}  # what a CPU's price depends on: no part of it is a table
CARDS = {
    "scenario": {"system": "fb-node", "workload": "dlrm-less-complex"},
    "axes": {
        "batch": [16, 64],
        "devices.0.memory.lpddr.bandwidth": {"from": 3e10, "to": 1.2e11, "steps": 5},
        "devices.0.card.clock.max": {"from": 3.2e8, "to": 8e8, "steps": 5},
        "links.peer.bandwidth": {"from": 1e9, "to": 16e9, "steps": 3},
    },
    "objectives": ["latency_s:min", "throughput_per_s:max"],
}


def front(path: Path, executor: str, space: Path) -> bytes:
    """Bytes of the front and of the best designs."""
    best, goals = path.with_suffix(".best"), ("--pareto", GOALS, "--executor", executor)
    assert main(["sweep", str(space), "--out", str(path), "--top-out", f"{best}.csv", *goals]) == 0
    return path.read_bytes() + Path(f"{best}.csv").read_bytes()


@pytest.fixture
def space(tmp_path: Path) -> Path:
    (tmp_path / "space.yaml").write_text(SPACE)
    return tmp_path / "space.yaml"


def test_one_thread_and_all_write_the_same_bytes_and_each_row_is_its_token(space: Path, tmp_path: Path) -> None:
    told = front(tmp_path / "threads.csv", "threads", space)
    assert told == front(tmp_path / "serial.csv", "serial", space)
    rows = list(csv.DictReader((tmp_path / "threads.csv").open()))
    assert len(rows) > 3
    for row in rows:
        report = evaluate(decode(row["token"]))
        for goal in GOALS.split(","):
            name = goal.split(":")[0]
            assert np.float64(row[name]).tobytes() == np.float64(getattr(report, name)).tobytes(), row


@pytest.mark.timeout(600)
def test_processes_write_the_same_bytes(space: Path, tmp_path: Path) -> None:
    assert front(tmp_path / "p.csv", "processes", space) == front(tmp_path / "t.csv", "threads", space)


@pytest.mark.timeout(600)
def test_dask_writes_the_same_bytes(space: Path, tmp_path: Path) -> None:
    assert front(tmp_path / "d.csv", "dask", space) == front(tmp_path / "t.csv", "threads", space)


def test_dask_that_is_missing_is_one_sentence(space: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    assert main(["sweep", str(space), "--executor", "dask"]) == 2
    told = capsys.readouterr().err.strip()
    assert "distributed" in told
    assert "\n" not in told


def test_parquet_holds_what_csv_holds(tmp_path: Path) -> None:
    result = sweep(CORES)
    write_rows(result.front.rows(), tmp_path / "f.csv")
    write_rows(result.front.rows(), tmp_path / "f.parquet")
    rows = list(csv.DictReader((tmp_path / "f.csv").open()))
    kept = read_table(tmp_path / "f.parquet").to_pylist()
    assert [r["token"] for r in rows] == [r["token"] for r in kept]
    for text, row in zip(rows, kept, strict=True):
        assert float(text["latency_s"]) == row["latency_s"] == evaluate(decode(row["token"])).latency_s
    with pytest.raises(ScenarioError, match="xlsx"):
        write_rows(result.front.rows(), tmp_path / "f.xlsx")


def test_the_command_line_tells_and_writes_a_whole_table(space: Path, tmp_path: Path, capsys) -> None:
    space.write_text(SPACE.replace("steps: 9", "steps: 3").replace("steps: 7", "steps: 2"))
    assert main(["sweep", str(space), "--json", "--table", str(tmp_path / "all.csv")]) == 0
    told = json.loads(capsys.readouterr().out)
    with (tmp_path / "all.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert told["designs"] == len(rows) == space_of(space).size
    kept = [r for r in rows if r["fits"] == "True" and float(r["latency_s"]) <= 3]
    assert told["kept"] == len(kept)
    assert min(float(r["latency_s"]) for r in kept) == min(r["latency_s"] for r in told["front"])


@pytest.mark.parametrize("given", [CORES, CARDS], ids=["CPU", "cards with an open tile"])
def test_what_is_priced_design_by_design_is_evaluate(given) -> None:
    space = space_of(given)
    block = next(iter(blocks(space)))
    assert all(table.live for table in block.tables)  # not a table of prices
    values, bad, _ = price(space, ["latency_s", "throughput_per_s"])
    for number in range(0, space.size, 23):
        report = evaluate(space.scenario(number))
        assert not bad[number]
        assert values[:, number].tolist() == [report.latency_s, report.throughput_per_s]
    whole = block.fill(0, block.size, ["latency_s"])[0]
    parts = [block.fill(lo, min(31, block.size - lo), ["latency_s"])[0] for lo in range(0, block.size, 31)]
    assert whole.tobytes() == np.concatenate(parts, axis=1).tobytes()


def test_an_open_tile_is_the_one_evaluate_takes() -> None:
    space = space_of(CARDS | {"axes": CARDS["axes"] | {"tile": [(n,) for n in (1, 4, 8, 11)]}})
    free, pinned = price(space_of(CARDS), ["latency_s", "throughput_per_s"])[0], price(space, ["throughput_per_s"])[0]
    least = pinned.reshape(-1, 4).max(axis=1)
    assert (free[1] >= least).all()  # no pinned tile beats the open one
    assert (free[1] == least).any()
    (block,) = blocks(space_of(CARDS))
    assert [table.options for table in block.tables] == [11]  # every tile in one set of tables


def test_a_sweep_is_cancelled_while_its_tables_are_made() -> None:
    asked = []

    def preparing(at: int, of: int) -> None:
        asked.append((at, of))

    given = CORES | {"axes": {"devices.0.npu.clock": [f"{200 + n} MHz" for n in range(400)]}}  # read one by one
    given |= {"scenario": {"system": "brainwave-s10-isca18", "workload": "deepbench-gru-512"}}
    with pytest.raises(SweepCancelled) as stopped:
        sweep(given, preparing=preparing, cancelled=lambda: (99, 400) in asked)
    assert asked[-1] == (99, 400)
    assert stopped.value.result.counts.done == 0


class _AtRequest(ThreadPoolExecutor):
    """Begins a piece of work when its result is asked for: all threads of a busy server are taken."""

    handed = 0

    def submit(self, fn: Any, /, *args: Any, **named: Any) -> Any:
        self.handed += 1
        return SimpleNamespace(result=lambda: fn(*args, **named), cancel=lambda: True)


def test_a_cancelled_sweep_begins_no_more_of_what_was_handed_out() -> None:
    executor = _AtRequest(1)
    with pytest.raises(SweepCancelled, match="cancelled after 0 of"):
        sweep(CORES, chunk=16, executor=executor, cancelled=lambda: executor.handed == 3)


def test_a_cancelled_sweep_keeps_what_was_done_and_its_cloud_covers_that() -> None:
    seen: list[int] = []
    with pytest.raises(SweepCancelled, match=r"cancelled after \d+ of") as stopped:
        sweep(CORES, chunk=16, progress=lambda done, _: seen.append(done), cancelled=lambda: len(seen) >= 2)
    result = stopped.value.result
    assert 32 <= result.counts.done == seen[-1] < space_of(CORES).size
    assert len(result.cloud_numbers) == result.counts.done  # a small space is drawn whole
    assert len(result.front) >= 1
    for i, number in enumerate(result.front.numbers.tolist()):
        assert evaluate(result.space.scenario(number)).latency_s == result.front.values[0, i]


def test_a_sweep_of_milliseconds_is_dealt_to_several_threads() -> None:
    """57,596 batches and streams of Wide & Deep take 50 ms: one chunk would leave all cores idle but one."""
    axes = {"batch": {"from": 1, "to": 2057, "by": 1}, "streams": list(range(1, 29))}
    handed = []

    class Counting(ThreadPoolExecutor):
        def submit(self, *given: Any) -> Any:
            handed.append(given)
            return super().submit(*given)

    with Counting(1) as executor:
        result = sweep({**CORES, "axes": axes}, executor=executor)
    assert result.counts.done == 57_596
    assert len(handed) >= 4


def test_a_chunk_of_a_costly_price_is_short() -> None:
    block = next(iter(blocks(space_of(CARDS))))
    start = time.thread_time()
    block.fill(0, min(block.size, block.chunk), ["latency_s"])
    assert time.thread_time() - start < 2.0  # what Cancel waits for at most, compilation included


@pytest.mark.parametrize("id", sorted(PRESETS))
def test_a_price_without_detail_is_the_price(id: str) -> None:
    bound = bind(PRESETS[id].scenario)
    for stage in make_plan(bound).stages:
        fam = family(stage.device.kind)
        for phase in bound.graph.phases:
            job = job_of(bound, stage, fam, phase)
            if not job.ops or phase.repeat.at(bound.scenario.inputs, bound.scenario.outputs) <= 0:
                continue
            cost = fam.price(job)
            if fam.compiled is None:
                without = fam.price(job, detail=False)
                assert without.seconds.tobytes() == cost.seconds.tobytes()
                assert without.overheads == cost.overheads
            else:
                sizes = np.array([job.sizes] * 2, dtype=np.float64).T.copy()
                record, groups = records([fam.compiled.record(job)] * 2), fam.groups(job)
                totals = np.zeros((6, 2))
                for group in groups:
                    part, tables = np.zeros((6, 2)), fam.compiled.tables(job)
                    fam.compiled.points(0, 2, group.rows, group.times, *tables, float(job.ways), sizes, record, part)
                    totals += part
                detail = column_sums(cost.seconds, groups, job.rows)
                assert totals[:, 0].tobytes() == totals[:, 1].tobytes() == detail.tobytes()
                assert detail == pytest.approx(cost.seconds.sum(axis=0), rel=1e-12, abs=0)


@pytest.mark.parametrize("count", [65, 130])
@pytest.mark.parametrize("id", sorted(PRESETS))
def test_designs_of_several_batches_are_priced_as_each_alone(id: str, count: int) -> None:
    """Batches take turns, so that designs side by side differ, and what is left over is a design of the first batch."""
    bound = bind(PRESETS[id].scenario)
    for stage in make_plan(bound).stages:
        fam = family(stage.device.kind)
        job = job_of(bound, stage, fam, bound.graph.phases[0])
        if fam.compiled is None or not job.ops:
            continue
        turns = [job, replace(job, batch=job.batch + 1)]
        sizes = np.array([turns[at % 2].sizes for at in range(count)], dtype=np.float64).T
        together = _seconds(job, sizes)
        for at in (0, 1, 63, 64, count - 1):
            assert together[:, at].tobytes() == _seconds(job, sizes[:, at : at + 1]).tobytes(), at


@pytest.mark.parametrize("pair", [("a100-sxm-80gb", "resnet50"), ("h100-sxm", "llama3.1-8b"), ("l4", "mixtral-8x7b")])
@pytest.mark.parametrize("ordered", [True, False])
def test_parts_side_by_side_take_the_tiles_that_each_takes_alone(pair: tuple[str, str], ordered: bool) -> None:
    """Tiles that no part of a stretch takes are left out of it: of parts alike and of parts as different as can be."""
    bound = bind(default_scenario(*pair))
    stage = make_plan(bound).stages[0]
    job, draw = job_of(bound, stage, family("gpu"), bound.graph.phases[0]), np.random.default_rng(15)
    factors = draw.lognormal(0.0, 1.0, (300, layout.FIELDS))
    factors = np.sort(factors, axis=0) if ordered else factors
    each = np.array(record(job)) * np.where(layout.STEADY, 1.0, factors)
    sizes = np.array([job.sizes] * 300, dtype=np.float64).T
    together = _seconds(job, sizes, each)
    for at in (0, 1, 63, 127, 128, 200, 255, 256, 299):
        alone = _seconds(job, sizes[:, at : at + 1], each[at : at + 1])
        assert together[:, at].tobytes() == alone.tobytes(), at


def _seconds(job: Job, sizes: np.ndarray, each: Any = None) -> np.ndarray:
    """Seconds by resource of a job's operators at designs of those sizes and, where given, records, (6, n)."""
    fam, found = family(job.device.kind), np.zeros((6, sizes.shape[1]))
    assert fam.compiled is not None
    each = records([fam.compiled.record(job)] * sizes.shape[1] if each is None else each)
    tables = fam.compiled.tables(job)
    for group in fam.groups(job):
        given = *tables, float(job.ways), np.ascontiguousarray(sizes), each, found
        fam.compiled.points(0, sizes.shape[1], group.rows, group.times, *given)
    return found


@pytest.mark.parametrize("id", sorted(PRESETS) if EFFORT >= 5 else ONE_OF_EACH)
def test_what_is_remembered_of_a_job_is_what_is_worked_out(id: str) -> None:
    bound = bind(PRESETS[id].scenario)
    for stage in make_plan(bound).stages:
        fam = family(stage.device.kind)
        job = job_of(bound, stage, fam, bound.graph.phases[0])
        others = [{"batch": 3 * job.batch + 1}, {"length": job.length + 9.0, "context": job.context + 9.0}]
        others += [{"max_context": 7.0 * job.max_context}, {"streams": job.streams + 1}, {"ways": job.ways + 1}]
        changes = [{"model": dict(job.model) | {name: 0.9 * value}} for name, value in job.model.items() if value]
        changes += [{"switches": dict(job.switches) | {name: not on}} for name, on in job.switches.items()]
        remembered = [fam.place, *((fam.compiled.record, fam.compiled.tables) if fam.compiled else ())]
        for work in (one for one in remembered if hasattr(one, "__wrapped__")):
            work(job)
            for change in ({}, *others, *changes):
                other = replace(job, **change)
                assert repr(work(other)) == repr(work.__wrapped__(other)), change


def test_a_report_names_the_tile_it_runs_with() -> None:
    for id in ("dfx-1.5b", "wide-deep-int8", "tonic-fc", "node-dlrm"):
        free = evaluate(PRESETS[id].scenario.with_(tile=()))
        assert free.tile
        assert all(value > 0 for _, value in free.tile)
        pinned = evaluate(PRESETS[id].scenario.with_(tile=tuple(value for _, value in free.tile)))
        assert pinned.tile == free.tile
        assert pinned.latency_s == free.latency_s  # it is the tile that ran


def test_a_sweep_takes_the_same_way_to_pin_as_an_evaluation():
    """Counts of devices, sizes, a clock and a memory: of each design the pieces or parts that `evaluate` would take."""
    axes = {
        "devices": [2, 8],
        "params.layers": [1, 4],
        "inputs": [1, 400],
        "devices.0.npu.clock": [1e8, 6e8],
        "devices.0.memory.m20k.capacity": [2e6, 4e7],
    }
    base = {"system": "brainwave-s10", "workload": "deepbench-gru-1024", "scheme": "pinned", "devices": 2}
    space = space_of({"scenario": base, "axes": axes, "constraints": []})
    names = ["latency_s", "throughput_per_s", "power_w"]
    found = price(space, names)[0]
    used = set()
    for n, row in enumerate(zip(*found, strict=True)):
        report = evaluate(space.scenario(n))
        used.add((space.scenario(n).devices, report.devices_used))
        assert row == tuple(getattr(report, name) for name in names)
    assert len(used) > 3  # pieces, parts and devices left out are all there
