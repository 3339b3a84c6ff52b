"""Designs worked out together have the bits of each by itself; what is no arithmetic takes them apart."""

import contextlib
import math
import random

import numpy as np
import pytest

from engine.cost.best_plan import make_plan
from engine.devices import family
from engine.devices.common.column import (
    Column,
    NotAlike,
    arrays_of,
    as_doubles,
    exceeds,
    larger,
    largest,
    numbers,
    one_by_one,
    smaller,
)
from engine.devices.common.contract import Unsupported
from engine.devices.common.counts import records
from engine.devices.npu import family as npu_family
from engine.evaluate import evaluate
from engine.kernels.jit import kernel
from engine.plan.jobs import job_of
from engine.resolve.bind import bind, named
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from engine.sweep import price, space_of
from engine.sweep.pricing import structure, tables
from engine.sweep.pricing.blocks import blocks
from engine.sweep.pricing.structure import between, read_setting, with_value
from engine.sweep.sensitivity import knobs_of
from hardware_specs import default_catalog
from tests.effort import EFFORT
from tests.laws.sweep.test_sweep import PAIRS

STEPS = 3


@kernel
def total(a, b):
    return a + b


@pytest.mark.parametrize(("system", "workload"), PAIRS)
def test_designs_taken_together_have_the_bits_of_each_by_itself(
    system: str, workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = knobs_of(default_scenario(system, workload))
    draw = random.Random(f"{system} {workload}")
    whole = tables._tabulate_part

    def apart(fam, piece, of):
        """Every design of a part by itself."""
        wide = [a for a, (lo, hi) in enumerate(of) if hi - lo > 1]
        return tables._apart(fam, piece, of, wide[0], True) if wide else whole(fam, piece, of)

    for _ in range(2 if EFFORT >= 5 else 1):
        paths = draw.sample(sorted(known), 2)
        axes = {path: [known[path] * (1 + 0.3 * i) for i in range(STEPS)] for path in paths}
        space = space_of(
            {
                "scenario": {"system": system, "workload": workload},
                "axes": axes | {"costs.years": [1, 2, 3, 30], "costs.pue": [1.1, 1.3]},
                "constraints": [],
            }
        )
        together = price(space)

        with monkeypatch.context() as patched:
            patched.setattr(tables, "_tabulate_part", apart)
            alone = price(space)
        for a, b in zip(together, alone, strict=True):
            assert a.tobytes() == b.tobytes()
        assert alone[1].any()  # thirty years are refused
        assert not alone[1].all()


def test_a_column_is_its_values_one_by_one() -> None:
    draw = np.random.default_rng(3)
    a, b = draw.lognormal(0, 30, 200), draw.lognormal(0, 30, 200)

    def of(x, y):
        return (
            (2 * x + y / 3.0) / (y - x * 1e-7) - (-x) * 0.1,
            1 / x + (y - 4),
            max(x, -1.0),
            7,
            math.ceil(x) * np.float64(3.0),
            x // 3.0,
            larger(x, y),
            smaller(x, 2.0),
            largest((x, 1.0, y)),
            exceeds(x, y),
            np.ceil(y),
            one_by_one(math.log2, x),
            one_by_one(math.hypot, x, y),
            (np.array([1.0, 2.0]) * x).sum(),
        )

    rows = np.stack([np.broadcast_to(one, 200) for one in arrays_of(of(Column(a), Column(b)))], axis=-1)
    assert rows.tolist() == [[float(v) for v in of(x, y)] for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_columns_of_two_axes_spread_over_their_product() -> None:
    a, b = Column(np.reshape([1.0, 2.0, 3.0], (3, 1))), Column(np.reshape([5.0, 7.0], (1, 2)))
    assert arrays_of([larger(a * b, 10.0), a])[0].tolist() == [[10.0, 10.0], [10.0, 14.0], [15.0, 21.0]]
    with pytest.raises(NotAlike) as found:
        assert a * b > 10.0
    assert found.value.axes == (0, 1)
    with pytest.raises(NotAlike) as found:
        assert b > 6.0
    assert found.value.axes == (1,)
    assert (a * True + False).values.tolist() == a.values.tolist()  # an answer counts as the 1 or 0 that it is
    held = numbers((2,))
    assert as_doubles(held).dtype == np.float64
    held[1] += b
    assert as_doubles(held)[1].values.tolist() == [[5.0, 7.0]]


@pytest.mark.parametrize(
    "work",
    [
        float,
        int,
        str,
        hash,
        math.sqrt,
        abs,
        round,
        math.floor,
        lambda c: c**2,
        lambda c: c % 2,
        lambda c: 1 / c,
        lambda c: c < 1.0,
        lambda c: min(c, 1.0),
        bool,
        lambda c: c == 1.0,
        lambda c: c * (1 << 60),
        lambda c: c + "1",
        lambda c: {c: 1},
        np.sqrt,
        np.log2,
        lambda c: np.maximum(c, 1.0),
        lambda c: np.array([c], dtype=float),
        range,
        lambda c: total(1.0, c),
    ],
)
def test_what_is_no_arithmetic_alike_for_all_is_refused(work) -> None:
    with pytest.raises(NotAlike):
        work(Column([0.0, 1.0, 2.0]))


def test_a_constant_that_the_compiler_does_not_read_parts_no_family() -> None:
    base = {"scenario": {"system": "fb-node", "workload": "dlrm-less-complex"}, "constraints": []}
    made = {
        path: list(blocks(space_of(base | {"axes": {"batch": [8, 16], path: values}})))
        for path, values in (("model.kernel_start", [1e-6, 2e-6]), ("model.user_share", [0.25, 0.5]))
    }
    assert {path: len(found) for path, found in made.items()} == {"model.kernel_start": 1, "model.user_share": 2}


@pytest.mark.parametrize("precision", ["fp16", "w8a16", "int8"])
def test_a_core_is_taken_apart_by_none_of_its_numbers(precision: str) -> None:
    base = default_scenario("dfx-u280", "gpt2-345m", precision=precision)
    knobs = {path: value for path, value in knobs_of(base).items() if "dfx." in path and "cores" not in path}
    assert len(knobs) > 10
    parts = {}
    for path, value in knobs.items():
        axes = {"batch": [1, 8], path: [value * (0.9 + 0.02 * i) for i in range(6)]}
        with pytest.MonkeyPatch.context() as patch:
            taken, work = [], tables._tabulate_part
            patch.setattr(tables, "_tabulate_part", lambda *given, t=taken, w=work: t.append(given) or w(*given))
            scenario = {"system": "dfx-u280", "workload": "gpt2-345m", "precision": precision}
            list(blocks(space_of({"scenario": scenario, "axes": axes, "constraints": []})))
        parts[path] = len(taken)
    assert len(set(parts.values())) == 1, parts  # each piece once


@pytest.mark.parametrize("part", ["power.max", "peak.bf16", "memory.hbm.bandwidth", "memory.l2.capacity"])
def test_hardware_of_a_measured_gpu_is_not_taken_apart_value_by_value(part: str, monkeypatch) -> None:
    path = f"devices.0.{part}"
    base = default_scenario("h100-sxm", "llama3.1-8b")
    known = knobs_of(base)
    if path not in known:
        pytest.skip(f"the catalog gives no {part} of an H100")
    axes = {"batch": [1, 8], path: [known[path] * (0.5 + 0.05 * i) for i in range(20)]}
    space = space_of({"scenario": {"system": "h100-sxm", "workload": "llama3.1-8b"}, "axes": axes, "constraints": []})
    wholly = []
    monkeypatch.setattr(tables, "_apart", lambda fam, piece, of, axis, apart: wholly.append(of) or 1 / 0)
    made = list(blocks(space))
    assert len(made) == 1
    assert not wholly


def test_sizes_on_no_gpu_are_taken_apart_value_by_value(monkeypatch) -> None:
    """Whatever the system hangs its GPUs on: wires of their own, a switch, a host beside them."""
    catalog = default_catalog()
    systems = [
        name for name in catalog.ids("systems") if catalog.device(catalog.system(name).devices[0].device).kind == "gpu"
    ]
    axes = {"system": systems, "batch": [1, 8, 64], "inputs": [64, 256, 2048], "outputs": [1, 32, 1024]}
    space = space_of({"scenario": {"system": "h100-sxm", "workload": "gpt2-345m"}, "axes": axes, "constraints": []})
    apart, work = set(), tables._apart
    monkeypatch.setattr(tables, "_apart", lambda fam, *given: apart.add(fam.base.system.id) or work(fam, *given))
    assert len(list(blocks(space))) == len(systems) > 30
    assert apart == set()


@pytest.mark.parametrize(("system", "workload"), PAIRS)
def test_a_number_between_two_allowed_ones_sets_what_it_sets_by_itself(system: str, workload: str) -> None:
    """Every number of hardware and model: the range's ends are validated, what lies between is set as each would be."""
    scenario = default_scenario(system, workload)
    base, held = named(scenario), 0
    for path, known in knobs_of(scenario).items():
        values = [known * f for f in (1e-6, 1e-3, 0.5, 0.9, 1, 1.1, 2, 1e3, 1e6) if known > 0]
        ran = []
        for value in values:
            with contextlib.suppress(ValueError):
                ran.append((value, read_setting(scenario, base, path, value)))
        if not between(path, values):
            continue
        assert [one for one, _ in ran] == values[values.index(ran[0][0]) :][: len(ran)]  # what is allowed is a range
        for value, one in ran:
            kind, where, put = with_value(ran[0][1], value)
            assert (kind, where, put) == one, path
            if kind == "spec":
                assert put.si == value
            held += 1
    assert held > 20


def test_a_fine_axis_of_hardware_is_read_at_its_ends(monkeypatch) -> None:
    read = []
    work = structure.read_setting
    monkeypatch.setattr(structure, "read_setting", lambda *given: read.append(given[3]) or work(*given))
    axes = {"devices.0.peak.bf16": {"from": 1e14, "to": 1e15, "steps": 400}}
    space = space_of({"scenario": {"system": "h100-sxm", "workload": "llama3.1-8b"}, "axes": axes, "constraints": []})
    assert len(list(blocks(space))) == 1
    assert read == [1e14, 1e15]


def test_lengths_on_dfx_are_taken_apart_for_the_first_token_alone(monkeypatch) -> None:
    """A program is timed for all lengths at once; a piece that reads designs one by one makes a table of each."""
    axes = {"inputs": list(range(1, 33)), "outputs": list(range(1, 17))}
    space = space_of({"scenario": {"system": "dfx-u280", "workload": "gpt2-1.5b"}, "axes": axes, "constraints": []})
    taken, work = [], tables._tabulate_part
    monkeypatch.setattr(tables, "_tabulate_part", lambda *given: taken.append(given) or work(*given))
    assert len(list(blocks(space))) == 1
    assert len(taken) < 100


def test_sizes_of_a_soft_processor_are_priced_in_few_passes(monkeypatch) -> None:
    """Bars of a step, which a report alone draws, took designs of other sizes apart one by one."""
    sizes = {"lanes": [10, 20, 30, 40, 50], "tiles": [3, 6, 9, 12, 16], "native_dim": [100, 200, 300, 400]}
    sizes["clock"] = [1e8, 2e8, 4e8]
    axes = {f"devices.0.npu.{name}": values for name, values in sizes.items()}
    scenario = {"system": "brainwave-s10-isca18", "workload": "deepbench-gru-2048"}
    passes, work = [], npu_family.pass_cost
    monkeypatch.setattr(npu_family, "pass_cost", lambda job: passes.append(job) or work(job))
    assert len(list(blocks(space_of({"scenario": scenario, "axes": axes, "constraints": []})))) == 1
    assert len(passes) < 5


@pytest.mark.parametrize(
    ("given", "axes"),
    [
        (
            {"system": "dfx-u280", "workload": "gpt2-345m", "tile": [64, 16], "devices": 2},
            {"tile.0": [8, 64, 128], "tile.1": [8, 16, 64, 128], "devices.0.dfx.clock": ["100 MHz", "200 MHz"]},
        ),
        (
            {"system": "fb-node", "workload": "dlrm-more-complex", "tile": [11]},
            {"tile.0": [1, 5, 11], "batch": [1, 2]},
        ),
        (
            {"system": "xeon-8280l", "workload": "resnet50", "tile": [28]},
            {"tile.0": [1, 7, 28], "devices.0.cpu.clock": ["2 GHz", "3 GHz"]},
        ),
    ],
)
def test_tiles_are_one_structure_with_the_bits_of_each_by_itself(given, axes) -> None:
    """Every tile was bound, planned and tabulated apart: 1,200 designs of an appliance took 8 s of a core."""
    space = space_of({"scenario": given, "axes": axes})
    (_,) = blocks(space)
    (latency, rate), bad, unfit = price(space, ["latency_s", "throughput_per_s"])
    for number in range(space.size):
        with contextlib.suppress(ScenarioError, Unsupported):
            report = evaluate(space.scenario(number))
            assert (latency[number], rate[number], not unfit[number]) == (
                report.latency_s,
                report.throughput_per_s,
                report.fits,
            )
            continue
        assert bad[number]
    assert bad.any() == (given["system"] == "dfx-u280")  # a tile of 128 x 128 asks for more slices than there are


def test_designs_beside_each_other_have_the_bits_of_each_by_itself() -> None:
    """Of a GPU's price: blocks of any length and offset, records that vary, that do not, and sizes that do."""
    draw = np.random.default_rng(7)
    for system, workload in (("h200-sxm", "gpt-oss-20b"), ("v100-appliance", "vgg16")):
        bound = bind(default_scenario(system, workload))
        stage = make_plan(bound).stages[0]
        compiled = family("gpu").compiled
        assert compiled is not None
        for phase in bound.graph.phases:
            job = job_of(bound, stage, family("gpu"), phase)
            table, rows, n = compiled.tables(job)[0], job.rows, 203
            times = draw.integers(1, 5, len(rows)).astype(np.float64)
            record = np.repeat(np.array(compiled.record(job))[:, None], n, axis=1)
            for field in draw.permutation(len(record))[:9]:
                record[field] *= draw.choice([0.5, 1.0, 1.0, 1.3], n)
            sizes = np.repeat([[8.0], [job.length], [job.context], [job.span]], n, axis=1)
            sizes[0, 150:] = draw.integers(1, 9, n - 150)
            whole = np.zeros((7, n))  # seconds by resource, and joules
            compiled.points(0, n, rows, times, table, float(job.ways), sizes, records(record.T), whole)
            for at in draw.integers(0, n, 40):
                one = np.zeros((7, 1))
                own = np.ascontiguousarray(sizes[:, [at]])
                compiled.points(0, 1, rows, times, table, float(job.ways), own, records(record[:, at : at + 1].T), one)
                assert whole[:, at].tobytes() == one.tobytes()


def test_what_is_nothing_for_every_value_is_a_number_again():
    """All that came of an operator without weights was worked out a thousand times over, as zeros."""
    sizes = Column([1.0, 2.0, 3.0])
    assert [sizes * 0.0, 0.0 * sizes, 0.0 / sizes, 0 * sizes, larger(-sizes, 0.0)] == [0.0] * 5
    assert all(one is sizes for one in (sizes + 0.0, 0 + sizes, sizes - 0.0, sizes * 1.0, 1 * sizes, sizes / 1.0))
    assert [one.values.tolist() for one in (0.0 - sizes, 1.0 / sizes)] == [[-1.0, -2.0, -3.0], [1.0, 1 / 2, 1 / 3]]
    with np.errstate(invalid="ignore"):
        never = Column([0.0, np.inf]) * 0.0
    assert np.isnan(never.values[1]), "no number that was not one is lost"
