"""A user's own networks: YAML and ONNX files of their folder are in the zoo, and a bad one costs a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario
from engine.scenario import ScenarioError, decode, encode
from engine.sweep import FIGURES, sweep
from hardware_specs.catalog import Catalog, default_catalog
from model_zoo import WorkloadError, Zoo, default_zoo
from tests.catalog.onnx_files import FLOAT, INT64, conv, f32, model, node
from tests.each import each

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = (ROOT / "model_zoo" / "TEMPLATE.yaml").read_text()
SYSTEMS = Catalog().ids("systems")
ONLY = {
    "dfx-u280": "runs decoders made as GPT-2 or Llama is",
    "agilio-cx": "runs binary fully connected layers only",
}

# a 3x3 convolution of stride 2 from 3 x 12 x 12 to 8 x 6 x 6, ReLU, the mean, and 8 to 10
OUTPUTS = 8 * 6 * 6  # of the convolution
MACS = 6 * 6 * 8 * (3 * 3 * 3) + 8 * 10
PARAMETERS = 8 * 3 * 3 * 3 + 8 + 8 * 10 + 10


def sequence() -> bytes:
    nodes = [
        node("MatMul", ["x", "w"], ["a"], name="up"),
        node("Gelu", ["a"], ["b"], name="act"),
        node("MatMul", ["b", "v"], ["y"], name="down"),
    ]
    weights = {"w": f32(64, 256), "v": f32(256, 64)}
    return model(nodes, [("x", FLOAT, ["N", "T", 64])], [("y", FLOAT, ["N", "T", 64])], weights)


def sifted() -> bytes:
    return model([node("NonZero", ["x"], ["y"], name="sift")], [("x", FLOAT, ["N", 3])], [("y", INT64, [2, "M"])])


def filled(made: Path) -> Path:
    made.mkdir()
    (made / "my-net.onnx").write_bytes(conv())
    (made / "my-seq.onnx").write_bytes(sequence())
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled(tmp_path / "workloads")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """Of files that nobody changes: they are read once, by a process of its own."""
    return Zoo(guests=(filled(tmp_path_factory.mktemp("catalog") / "workloads"),))


@pytest.fixture
def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """The user's folder as everything that asks for the default zoo sees it."""
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(folder.parent))
    default_zoo.cache_clear()
    default_catalog.cache_clear()
    yield folder
    default_zoo.cache_clear()
    default_catalog.cache_clear()


def test_an_onnx_file_is_a_workload_with_hand_counted_work(zoo: Zoo) -> None:
    assert set(zoo.ids()) == {*Zoo().ids(), "my-net", "my-seq"}
    assert zoo.problems == ()
    entry, graph = zoo.workload("my-net"), zoo.graph("my-net")
    assert (entry.id, entry.name, entry.family, entry.params) == ("my-net", "my-net", "onnx", {})
    assert entry.summary == f"Read from my-net.onnx: 4 operators, {PARAMETERS} parameters."
    assert graph.parameters == PARAMETERS
    assert graph.macs() == MACS
    assert graph.flops() == 2 * MACS + 2 * OUTPUTS  # a ReLU and a sum each; biases start the sums
    assert zoo.graph("my-net") is graph
    assert zoo.is_guest("my-net")
    assert not zoo.is_guest("resnet50")


def test_the_length_is_asked_for_where_something_grows_with_it(zoo: Zoo) -> None:
    assert zoo.family("my-net").input_label is None
    assert zoo.family("my-seq").input_label == "Length"
    assert zoo.family("gpt2-345m").name == "transformer-decoder"
    shown = choices(default_scenario("a100-sxm-80gb", "my-seq", zoo=zoo), zoo=zoo)
    assert (shown.input_label, shown.output_label, shown.params) == ("Length", None, ())
    assert zoo.graph("my-seq").flops(1, 128) == 128 * zoo.graph("my-seq").flops(1, 1)


@each("system", SYSTEMS)
def test_every_system_answers_or_says_why_not(system: str, zoo: Zoo) -> None:
    if system in ONLY:
        with pytest.raises(Unsupported, match=ONLY[system]) as caught:
            evaluate(default_scenario(system, "my-net", zoo=zoo), zoo=zoo)
        assert "\n" not in str(caught.value)
        return
    scenario = default_scenario(system, "my-net", zoo=zoo)
    report = evaluate(scenario, zoo=zoo)
    assert report.fits
    assert report.latency_s > 0
    assert report.workload_name == "my-net"
    assert report.error_band.relative is None
    assert decode(encode(scenario)) == scenario


def test_nothing_is_adjustable(zoo: Zoo) -> None:
    scenario = default_scenario("fb-node", "my-net", zoo=zoo).with_(params={"image": 224})
    with pytest.raises(ScenarioError, match=r"params\.image = 224: not adjustable for my-net; adjustable: none"):
        evaluate(scenario, zoo=zoo)
    with pytest.raises(WorkloadError, match="parameter 'image' is not one of family 'onnx'; allowed: none"):
        zoo.graph("my-net", {"image": 224})


def test_a_token_of_somebody_elses_network_says_so(zoo: Zoo) -> None:
    scenario = decode(encode(default_scenario("fb-node", "my-net", zoo=zoo)))
    with pytest.raises(ScenarioError, match="workload 'my-net' is not in the catalog"):
        evaluate(scenario, zoo=Zoo())


def test_a_yaml_of_the_users_is_read_by_the_same_schema(folder: Path) -> None:
    (folder / "example-gpt.yaml").write_text(TEMPLATE)
    zoo = Zoo(guests=(folder,))
    assert zoo.problems == ()
    assert zoo.graph("example-gpt").parameters == pytest.approx(354.8e6, rel=1e-3)
    assert zoo.graph("example-gpt", {"layers": 12}).parameters < 300e6


BAD = {
    "broken.onnx": (conv()[:90], "not readable as an ONNX model"),
    "sifted.onnx": (sifted(), "sift"),
    "My_Net.onnx": (conv(), "lower-case letters, digits, dots and hyphens are allowed"),
    "odd\nname.onnx": (conv(), "lower-case letters"),
    "resnet50.onnx": (conv(), "id 'resnet50' is already taken"),
    "gpt2-345m.yaml": (TEMPLATE.encode(), "id 'gpt2-345m' is already taken"),
    "my-seq.yaml": (TEMPLATE.encode(), "id 'my-seq' is already taken"),
    "typo.yaml": (TEMPLATE.replace("precision: fp16", "precison: fp16").encode(), "precison: unknown key; allowed"),
    "other.yaml": (TEMPLATE.encode(), "id is 'example-gpt'"),
    "heads.yaml": (
        TEMPLATE.replace("example-gpt", "heads").replace("heads: {value: 16", "heads: {value: 15").encode(),
        "'heads' is 15",
    ),
    "fake.yaml": (
        TEMPLATE.replace("example-gpt", "fake").replace("transformer-decoder", "onnx").encode(),
        "family 'onnx' is not known",
    ),
    "deep.yaml": (b"[" * 100_000, "nested more than 20 deep"),
    "twice.yaml": (b"id: twice\nname: a\nname: b\n", "not readable as YAML (key 'name' is given twice, line 3)"),
    "binary.yaml": (b"\xff\x00", "not readable as YAML"),
    "empty.onnx": (b"", "no nodes"),
}


def test_a_bad_file_is_one_sentence_and_the_rest_lives(folder: Path) -> None:
    for name, (data, _) in BAD.items():
        (folder / name).write_bytes(data)
    zoo = Zoo(guests=(folder,))
    said = {name: [p for p in zoo.problems if p.startswith(f"{name.replace(chr(10), '?')}: ")] for name in BAD}
    assert len(zoo.problems) == len(BAD)
    for name, (_, reason) in BAD.items():
        (problem,) = said[name]
        assert problem.endswith(" (left out of the zoo)")
        assert reason in problem
        assert "\n" not in problem
    assert set(zoo.ids()) == {*Zoo().ids(), "my-net", "my-seq"}
    assert zoo.path("resnet50").parent.name == "cnn"


def test_a_folder_by_that_name_and_a_file_that_is_away_are_sentences(folder: Path) -> None:
    (folder / "room.onnx").mkdir()
    (folder / "away.onnx").symlink_to(folder / "nowhere")
    problems = Zoo(guests=(folder,)).problems
    assert [p.split(":", maxsplit=1)[0] for p in problems] == ["away.onnx", "room.onnx"]
    assert all("not a file" in p for p in problems)


def test_the_digest_holds_the_users_files(folder: Path) -> None:
    plain, before = Zoo().digest, Zoo(guests=(folder,)).digest
    assert plain != before
    assert Zoo(guests=(folder,)).digest == before
    (folder / "my-net.onnx").write_bytes(sequence())
    assert Zoo(guests=(folder,)).digest not in (plain, before)
    (folder / "my-net.onnx").unlink()
    (folder / "my-seq.onnx").unlink()
    assert Zoo(guests=(folder,)).digest == plain


def test_a_file_that_leaves_after_it_was_read_is_missed_by_nobody(folder: Path) -> None:
    zoo = Zoo(guests=(folder,))
    assert "my-net" in zoo.ids()
    (folder / "my-net.onnx").unlink()
    assert evaluate(default_scenario("fb-node", "my-net", zoo=zoo), zoo=zoo).latency_s > 0


def test_the_command_line_knows_them(at_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (at_home / "broken.onnx").write_bytes(b"no")
    assert main(["list", "workloads"]) == 0
    out, err = capsys.readouterr()
    assert "my-net" in out
    assert err.startswith("broken.onnx: not readable as an ONNX model")
    assert err.count("\n") == 1
    assert main(["evaluate", "--system", "fb-node", "--workload", "my-net"]) == 0
    assert "no evidence" in capsys.readouterr().out
    assert main(["evaluate", "--system", "dfx-u280", "--workload", "my-net"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_a_sweep_takes_them(at_home: Path) -> None:
    base = default_scenario("a100-sxm-80gb", "my-net")
    result = sweep({"scenario": base.model_dump(), "axes": {"workload": ["my-net", "my-seq"], "batch": [1, 2, 4]}})
    told = [
        evaluate(base.with_(workload=id, batch=batch)).latency_s for id in ("my-net", "my-seq") for batch in (1, 2, 4)
    ]
    assert sorted(result.cloud[FIGURES.index("latency_s")]) == sorted(told)


def test_onnx_is_imported_in_a_process_of_its_own_alone(tmp_path: Path, folder: Path) -> None:
    code = "import sys; from model_zoo import default_zoo; default_zoo().problems; print('onnx' in sys.modules)"
    for root in (tmp_path / "nowhere", folder.parent):
        env = {"INFERSCAPE_CATALOG": str(root), "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"
