"""A search finds the front of a space too large to try whole: with known spaces, against draws, and seed for seed."""

import csv
import sys

import numpy as np
import pytest
from pymoo.indicators.hv import HV

from engine.cli.main import main
from engine.scenario import ScenarioError
from engine.sweep import SweepCancelled, figures_of, search, space_of, sweep
from engine.sweep.search import Figures
from tests.bench.search_curve import KNOWN, share
from tests.random_draws import RandomDraws

SMALL = {
    "scenario": {"system": "h100-sxm", "workload": "gpt2-345m"},
    "axes": {
        "batch": {"from": 1, "to": 64, "steps": 64},
        "precision": ["fp16", "fp8", "ms-fp9"],
        "devices.0.memory.hbm.bandwidth": {"from": 1e12, "to": 8e12, "steps": 40, "scale": "log"},
        "devices.0.gpu.kernel_launch": {"from": 5e-7, "to": 5e-6, "steps": 10, "scale": "log"},
    },
    "constraints": ["fits", "latency_s <= 0.5"],
    "objectives": ["latency_s:min", "throughput_per_w:max"],
}


def test_a_search_is_evaluate_and_its_front_is_of_all_it_tried() -> None:
    space = space_of(SMALL)
    result = search(space, 400, seed=3, cloud=400)
    counts = result.counts
    assert counts.done == 400 == len(set(result.cloud_numbers.tolist()))
    assert counts.refused > 0
    assert any("ms-fp9" in text for text in counts.sentences)
    assert counts.kept == 400 - counts.refused - counts.unfit - int(counts.missed.sum())
    for i, number in enumerate(result.front.numbers):
        figures = figures_of(space, int(number))
        assert [figures["latency_s"], figures["throughput_per_w"]] == result.front.values[:, i].tolist()
        assert figures["latency_s"] <= 0.5
    tried = result.cloud[:, result.cloud_state == 0]
    x, y = (tried[result.figures.index(o.figure)] for o in space.objectives)
    for a, b in result.front.values.T:
        assert not ((x <= a) & (y >= b) & ((x < a) | (y > b)) & (x <= 0.5)).any()
    assert result.top.values[0, 0] == result.front.values[0].min()


def test_the_same_seed_finds_the_same_and_another_does_not() -> None:
    one, two, other = (search(SMALL, 150, seed=seed) for seed in (1, 1, 2))
    assert one.cloud_numbers.tobytes() == two.cloud_numbers.tobytes()
    assert one.cloud.tobytes() == two.cloud.tobytes()
    assert one.front.numbers.tobytes() == two.front.numbers.tobytes()
    assert one.cloud_numbers.tobytes() != other.cloud_numbers.tobytes()


def test_a_space_no_larger_than_the_search_is_swept() -> None:
    small = SMALL | {"axes": {"batch": [1, 2, 4], "precision": ["fp16", "fp8"]}}
    assert search(small, 6).front.numbers.tolist() == sweep(small).front.numbers.tolist()


def test_progress_and_cancel() -> None:
    seen = []
    search(SMALL, 150, progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (150, 150)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
    with pytest.raises(SweepCancelled) as stopped:
        search(SMALL, 150, cancelled=lambda: len(seen) > 250 or seen.append(None))
    assert stopped.value.result is not None
    assert 0 < stopped.value.result.counts.done < 150
    assert len(stopped.value.result.front)


def test_a_space_of_ten_to_the_fifteen_is_searched_and_one_larger_is_refused() -> None:
    def wide(steps: int) -> dict:
        paths = ("devices.0.memory.hbm.bandwidth", "devices.0.gpu.kernel_launch", "links.peer.bandwidth")
        spans = ((1e12, 8e12), (5e-7, 5e-6), (1e11, 1e12))
        axes = {p: {"from": a, "to": b, "steps": steps} for p, (a, b) in zip(paths, spans, strict=True)}
        return SMALL | {"axes": axes}

    result = search(wide(100_000), 200)
    assert result.counts.size == 10**15
    assert len(result.front)
    with pytest.raises(ScenarioError, match=r"2\.00e\+15 designs: at most 1e\+15"):
        space_of(wide(100_000) | {"axes": wide(100_000)["axes"] | {"batch": [1, 2]}})


def test_a_skipped_design_is_tried_as_the_one_that_stands_for_it() -> None:
    axes = {"system": ["h100-sxm", "dfx-u280"], "tile": ["auto", "64x16"], "batch": list(range(1, 33))}
    result = search({"scenario": {"system": "h100-sxm", "workload": "gpt2-345m"}, "axes": axes}, 90, cloud=90)
    assert result.counts.refused == 0
    assert not {n for n in result.cloud_numbers.tolist() if 32 <= n < 64}


@pytest.mark.parametrize(
    ("change", "count", "words"),
    [
        ({}, 0, "search is 0"),
        (
            {"axes": {"batch": {"from": 70000, "to": 90000, "steps": 500}}},
            20,
            "none of 20 designs tried can run: batch",
        ),
        ({"objectives": ["ttft_s:min"], "scenario": {"system": "h100-sxm", "workload": "resnet50"}}, 20, "ttft_s"),
    ],
)
def test_bad_searches_are_one_sentence(change, count, words) -> None:
    with pytest.raises(ScenarioError, match=words) as error:
        search(SMALL | change, count)
    assert "\n" not in str(error.value)
    with pytest.raises(ScenarioError, match="seed is -1: a whole number of at least 0 is allowed"):
        search(SMALL, 20, seed=-1)


def test_without_the_optimiser_one_sentence_says_what_to_install(monkeypatch, tmp_path, capsys) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pymoo"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymoo", None)
    file = tmp_path / "space.yaml"
    file.write_text("scenario: {system: h100-sxm, workload: resnet50}\naxes: {batch: {from: 1, to: 99, steps: 99}}\n")
    assert main(["sweep", str(file), "--search", "50"]) == 2
    said = capsys.readouterr().err
    assert "pip install pymoo" in said
    assert "Traceback" not in said


def test_the_command_searches(tmp_path, capsys) -> None:
    file, out = tmp_path / "space.yaml", tmp_path / "front.csv"
    file.write_text(
        "scenario: {system: h100-sxm, workload: gpt2-345m}\n"
        "axes: {batch: {from: 1, to: 64, steps: 64}, links.peer.latency: {from: 1e-7, to: 1e-5, steps: 90000}}\n"
    )
    assert main(["sweep", str(file), "--search", "120", "--seed", "5", "--out", str(out)]) == 0
    assert "120 designs in" in (said := capsys.readouterr().out)
    assert "of 5,760,000" in said
    with out.open() as lines:
        rows = list(csv.DictReader(lines))
    assert rows
    assert all(row["token"] and row["engine_version"] for row in rows)


def test_hypervolume_counts_what_a_front_covers() -> None:
    true = np.array([[1.0, 2.0, 4.0], [4.0, 2.0, 1.0]])
    assert share(true, true) == 1.0
    assert share(true[:, 1:], true) < 1.0
    assert HV(ref_point=np.array([1.1, 1.1]))(np.zeros((1, 2))) == pytest.approx(1.21)


def test_a_search_finds_99_percent_of_a_known_front_of_ten_to_the_eight(monkeypatch) -> None:
    """Faster links and launches cost nothing here: the whole front lies among designs with an end of each."""
    space = space_of(KNOWN)
    assert space.size >= 10**8
    free = ("devices.0.gpu.kernel_launch", "links.peer.bandwidth", "links.peer.latency")
    ends = {path: KNOWN["axes"][path] | {"steps": 2} for path in free}
    signs = np.array([[o.sign] for o in space.objectives])
    whole = sweep(space_of(KNOWN | {"axes": KNOWN["axes"] | ends}))
    assert whole.counts.done == space.size * 2**3 // (32 * 16 * 8)
    true = np.unique(whole.front.values * signs, axis=1)
    monkeypatch.setattr(sys.modules[Figures.__module__], "_TABLE_FROM", 1)  # all from tables, for both: the same bits
    figures = Figures(space)
    found = search(space, 5000, seed=0, figures=figures).front.values * signs
    drawn = search(space, 5000, seed=0, optimiser=RandomDraws, figures=figures).front.values * signs
    assert share(found, true) >= 0.99
    assert share(drawn, true) < 0.99
    for other in (found, drawn):  # none beats the front that is known
        assert share(np.concatenate([true, other], axis=1), true) == pytest.approx(1.0, abs=1e-12)
