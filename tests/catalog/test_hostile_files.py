"""Hostile files in a user's folders: each costs a sentence, whatever it is, and what is beside it stays."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from engine.cli.main import main
from hardware_specs.catalog import Catalog, default_catalog
from hardware_specs.quantity import SpecError, parse
from model_zoo import WorkloadError, Zoo, default_zoo
from model_zoo.families.family import Params
from model_zoo.importers.onnx.model import read_onnx
from model_zoo.importers.onnx.process import ImportProcess
from tests.catalog.onnx_files import FLOAT, conv, f32, model, node

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("devices", "systems", "links", "nics")
SYSTEM = {
    "schema_version": 1,
    "id": "mine",
    "name": "Mine",
    "summary": "My own.",
    "topology": "single",
    "devices": [{"device": "t4", "count": 1}],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder, which the catalog and the zoo of every command hold."""
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(tmp_path))
    default_zoo.cache_clear()
    default_catalog.cache_clear()
    yield tmp_path
    default_zoo.cache_clear()
    default_catalog.cache_clear()


def put(root: Path, section: str, id: str, data: object) -> None:
    (root / section).mkdir(exist_ok=True)
    (root / section / f"{id}.yaml").write_text(data if isinstance(data, str) else yaml.safe_dump(data))


@pytest.mark.timeout(240)
def test_a_pipe_is_no_file(home: Path, capsys) -> None:
    """Every command waited for ever for somebody to write into it."""
    for section in (*SECTIONS, "workloads"):
        (home / section).mkdir()
        os.mkfifo(home / section / f"{section}.yaml")
    for section in ("links", "workloads"):
        assert main(["list", section]) == 0
        said = capsys.readouterr().err.splitlines()
        assert {line.split(" (")[0] for line in said} == {f"{s}.yaml: not a file" for s in (*SECTIONS, "workloads")}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"devices": [{"device": "h100-sxn", "count": 1}]},
            "devices.0.device is 'h100-sxn', which is not in the catalog; nearest: h100-sxm",
        ),
        ({"host": {"device": "nope", "count": 1}}, "host.device is 'nope', which is not in the catalog"),
        ({"links": [{"link": "nope", "role": "host"}]}, "links.0.link is 'nope'"),
        ({"nic": "nope"}, "nic is 'nope'"),
        ({"rival": "nope-9"}, "rival is 'nope-9'"),
    ],
)
def test_a_system_of_missing_parts_is_left_out(tmp_path: Path, change: dict, said: str) -> None:
    """A missing device ended three pages for everybody, a missing host was listed, a missing NIC passed in silence."""
    put(tmp_path, "systems", "mine", SYSTEM | change)
    put(tmp_path, "systems", "good", SYSTEM | {"id": "good"})
    catalog = Catalog(guests=(tmp_path,))
    assert set(catalog.ids("systems")) == {*Catalog().ids("systems"), "good"}
    (problem,) = catalog.problems
    assert problem.startswith(f"mine.yaml: {said}")


def test_what_names_something_left_out_goes_with_it(tmp_path: Path) -> None:
    """A device of a missing link, and the system made of that device."""
    device = yaml.safe_load((ROOT / "hardware_specs" / "TEMPLATE.yaml").read_text())
    put(tmp_path, "devices", device["id"], device | {"host_link": "nope"})
    put(tmp_path, "systems", "mine", SYSTEM | {"devices": [{"device": device["id"], "count": 1}]})
    catalog = Catalog(guests=(tmp_path,))
    assert catalog.ids("systems") == Catalog().ids("systems")
    assert catalog.ids("devices") == Catalog().ids("devices")
    assert [problem.split(" is ")[0] for problem in catalog.problems] == [
        f"{device['id']}.yaml: host_link",
        "mine.yaml: devices.0.device",
    ]


LONG = {
    "decimal": "9" * 100_000,
    "400 digits": "9" * 400,
    "hexadecimal": "0x" + "f" * 100_000,
    "of time": "1" + ":1" * 50_000,
}


@pytest.mark.parametrize("digits", LONG)
def test_an_integer_of_many_digits(tmp_path: Path, digits: str) -> None:
    """A traceback of every command; one in base 60 took seconds to read."""
    text = (ROOT / "hardware_specs" / "TEMPLATE.yaml").read_text()
    id = yaml.safe_load(text)["id"]
    assert "count: 1" not in text
    put(tmp_path, "devices", id, text.replace("schema_version: 1", f"schema_version: {LONG[digits]}"))
    put(tmp_path, "workloads", "mine", f"schema_version: {LONG[digits]}\nid: mine\n")
    begun = time.thread_time()
    (problem,) = Catalog(guests=(tmp_path,)).problems
    (other,) = Zoo(guests=(tmp_path / "workloads",)).problems
    assert time.thread_time() - begun < 2.0
    assert problem.startswith(f"{id}.yaml: not readable as YAML (")
    assert other.startswith("mine.yaml: not readable as YAML (")
    assert max(len(problem), len(other)) < 200
    with pytest.raises(SpecError, match="must be finite"):
        parse(10**400)
    with pytest.raises(SpecError, match="must be finite"):
        parse(-(10**5000))


def test_a_file_s_name_reaches_no_terminal(tmp_path: Path) -> None:
    name = "\x1b[2Jx\n.yaml"
    for section in ("devices", "workloads"):
        (tmp_path / section).mkdir()
        (tmp_path / section / name).write_text("a: 1")
    for problem in (*Catalog(guests=(tmp_path,)).problems, *Zoo(guests=(tmp_path / "workloads",)).problems):
        assert problem.startswith("?[2Jx?.yaml: ")
        assert problem.isprintable()


def test_many_bad_files_are_a_few_lines(home: Path, capsys) -> None:
    (home / "links").mkdir()
    for at in range(300):
        (home / "links" / f"bad{at}.yaml").write_text("[]")
    assert main(["list", "links"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "and 290 more files that can't be used"


IMAGE = [("x", FLOAT, ["N", 4, 8])]


def test_an_einsum_of_two_ellipses_is_refused_at_once() -> None:
    """ONNX's own inference took a minute over it."""
    for equation in ("...ij...->k", "ij...->......", "i.j->i"):
        data = model([node("Einsum", ["x"], ["y"], name="odd", equation=equation)], IMAGE, [("y", FLOAT, None)])
        with pytest.raises(WorkloadError, match=r"node 'odd' \(Einsum\) has a term with more than one '...'"):
            read_onnx(data)


def test_heads_share_their_width() -> None:
    """A thousand million heads of a width of eight had a depth of nothing: "can't be used (ValueError)"."""
    made = [node("Attention", ["x"] * 3, ["y"], name="odd", q_num_heads=n, kv_num_heads=n) for n in (2, 10**9)]
    good, bad = (model([one], IMAGE, [("y", FLOAT, None)], opset=23) for one in made)
    assert read_onnx(good).phases[0].ops[0].k.coef == 4
    with pytest.raises(WorkloadError, match=r"'odd'.* has 1000000000 heads over a width of 8: they must share it"):
        read_onnx(bad)


def test_an_onnx_file_is_read_apart(tmp_path: Path) -> None:
    """A file that takes too long, or more memory than there is, costs a sentence; the next one is read."""
    (tmp_path / "net.onnx").write_bytes(conv())
    apart = ImportProcess()
    _, family = apart.read(tmp_path / "net.onnx")
    assert family.build(Params({})).parameters == read_onnx(conv()).parameters
    first = apart._process
    assert first is not None
    (tmp_path / "bad.onnx").write_bytes(b"\xff" * 100)
    with pytest.raises(WorkloadError, match="not readable as an ONNX model"):
        apart.read(tmp_path / "bad.onnx")
    assert apart._process is first
    os.mkfifo(tmp_path / "pipe.onnx")
    apart.seconds = 0.5
    with pytest.raises(WorkloadError, match=r"takes more than the 0.5 s that are allowed"):
        apart.read(tmp_path / "pipe.onnx")
    assert first.poll() is not None
    apart.seconds = 60.0
    assert apart.read(tmp_path / "net.onnx")[0].id == "net"
    apart.stop()
    heavy = model([node("MatMul", ["x", "w"], ["y"])], IMAGE, [("y", FLOAT, None)], {"w": f32(8, 7 << 20)})
    (tmp_path / "big.onnx").write_bytes(heavy)
    small = ImportProcess(memory=450 << 20)
    with pytest.raises(WorkloadError, match=r"450 MiB"):
        small.read(tmp_path / "big.onnx")
    small.stop()
