"""The benchmarks are gathered whatever one of them does, and nothing runs where no answer can be written."""

import pytest

from tests.tools import bench


def test_every_benchmark_has_rows():
    """Two that had none ended `bench` before the last file, and with it every row measured until then."""
    files = sorted(bench.FOLDER.glob("bench_*.py"))
    assert len(files) > 8
    assert [file.name for file in files if "\ndef rows() -> " not in file.read_text()] == []


def test_a_benchmark_that_fails_is_a_row_and_the_others_stay(tmp_path, monkeypatch):
    row = '{"name": %r, "value": 1.0, "unit": "s", "against": "b", "ratio": 1.0, "goal": "reported", "met": None}'
    (tmp_path / "bench_1.py").write_text("def rows() -> list[dict]:\n    return [" + row % "first" + "]\n")
    (tmp_path / "bench_2.py").write_text(
        "def rows():\n    yield " + row % "second" + "\n    raise AssertionError('the two disagree')\n"
    )
    (tmp_path / "bench_3.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "bench_4.py").write_text("def rows() -> list[dict]:\n    return [" + row % "last" + "]\n")
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    found = bench.collect()
    assert [r["name"] for r in found] == ["first", "second", "bench_2", "bench_3", "last"]
    assert found[2]["against"] == "failed, AssertionError: the two disagree"
    assert "nothing_of_that_name" in found[3]["against"]
    assert [r["met"] for r in found] == [None, None, False, False, None]
    assert bench.markdown(found).count("| **no** |") == 2


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--only", "nothing-like-it"], "no benchmark matches 'nothing-like-it'"),
        (["--only", "gemm", "--markdown", "/nope/x.md"], "'/nope/x.md' can't be written"),
    ],
)
def test_what_cannot_be_gathered_is_one_sentence(capsys, monkeypatch, argv, said):
    monkeypatch.setattr(bench, "run_path", lambda *_: pytest.fail("the benchmarks ran"))
    assert bench.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1
