"""Every workload file: sane, complete, and its published figures re-derived from its parameters."""

import shutil
from pathlib import Path

import pytest

from model_zoo import FAMILIES, Graph, Op, WorkloadError, Zoo, read_workload
from model_zoo import table as T
from model_zoo.families.blocks import elementwise
from model_zoo.ops import CONTRACTIONS, KINDS, Dim
from tests.each import each

ZOO = Zoo()
ROOT = Path(__file__).resolve().parents[2] / "model_zoo"

NAMED = {
    "000": {
        "dlrm-less-complex",
        "dlrm-more-complex",
        "resnext101-32x4d",
        "regnety-128gf",
        "fbnetv3-detection",
        "resnext3d-101",
        "xlm-r-large",
    },
    "001": {"gru-3200x2400", "tp1-lstm", "tp1-gru-cpu", "deepscan", "deepscan-cpu"},
    "002": {"wide-deep-criteo"},
    "003": {
        "alexnet",
        "mlp-121m",
        "mlp-mnist",
        "binary-fc-4096",
        "binary-mlp-mnist",
        "vgg16-cifar-binary",
        "resnet152",
        "densenet161",
        "mobilenet-v1",
        "mobilenet-v2",
    },
    "004": {"gpt2-345m", "gpt2-774m", "gpt2-1.5b", "gpt2-1.5b-openai"},
}


def derived(graph: Graph, metric: str, inputs: int, outputs: int) -> float:
    """The figure a paper would print for one request of batch 1."""
    if metric == "parameters":
        return graph.parameters
    if metric == "activations":
        phase = graph.phases[0]
        return sum(op.writes.at(1, inputs, inputs) * op.layers for op in phase.ops if op.contraction)
    macs = graph.macs(1, inputs, outputs)
    return {"macs": macs, "flops": 2 * macs}[metric]


def ops_of(graph: Graph) -> dict[str, Op]:
    return {op.name: op for op in graph.ops}


CHECKS = [
    pytest.param(id, check, id=f"{id}-{check.metric}-{n}")
    for id in ZOO.ids()
    for n, check in enumerate(ZOO.workload(id).checks)
]


@each(("id", "check"), CHECKS)
def test_published_figure_is_rederived(id, check):
    request = ZOO.workload(id).request
    value = derived(ZOO.graph(id), check.metric, request.inputs, request.outputs)
    error = abs(value / check.value.value - 1)
    if check.explained is None:
        assert check.tolerance <= 0.01
    assert error <= check.tolerance


@each("id", ZOO.ids())
def test_explanations_are_needed(id):
    request = ZOO.workload(id).request
    for check in ZOO.workload(id).checks:
        if check.explained:
            value = derived(ZOO.graph(id), check.metric, request.inputs, request.outputs)
            assert abs(value / check.value.value - 1) > 0.01, f"{check.metric} needs no explanation"


@each("id", ZOO.ids())
def test_file(id):
    workload = ZOO.workload(id)
    path = ZOO.path(id)
    assert path.parent.name == workload.family
    used = {n.source for n in [*workload.params.values(), *(c.value for c in workload.checks)]} - {None}
    assert used <= set(workload.sources), "a number names a source the file does not list"
    assert used == set(workload.sources) or workload.document, "a source is listed but not used"
    for key, (_, low, high) in FAMILIES[workload.family].adjustable.items():
        if key in workload.params:
            assert low <= workload.params[key].value <= high


@each("id", ZOO.ids())
def test_graph_is_sound(id):
    graph = ZOO.graph(id)
    assert graph.parameters > 0
    for phase in graph.phases:
        seen: set[str] = set()
        for op in phase.ops:
            assert op.name not in seen, "op names are unique in a phase"
            assert set(op.inputs) <= seen, f"{op.name} reads an op that does not come before it"
            seen.add(op.name)
            assert op.group
            assert op.stored >= 0
            for batch, length, context in ((1, 1, 1), (3, 5, 7)):
                at = (batch, length, context)
                assert op.flops.at(*at) >= 0
                moved = op.reads.at(*at) + op.writes.at(*at) + op.state_reads.at(*at) + op.state_writes.at(*at)
                assert moved > 0, f"{op.name} touches nothing"
                if op.contraction:
                    assert op.flops.at(*at) == pytest.approx(2 * op.macs(*at), rel=1e-12)
                    assert op.macs(*at) > 0
                if op.shard == "g":
                    # heads that share one latent are rows of one product, and the latent is copied
                    parts = op.g.coef * max(op.m.coef, 1)
                    assert parts > 1 or op.state_writes.coef, f"{op.name} is dealt out by parts and has one"
                if op.stored:
                    assert 0 < op.weights_read(*at) <= op.stored


@each("id", ZOO.ids())
def test_table_holds_the_same_counts(id):
    for phase in ZOO.graph(id).phases:
        table = T.lower(phase)
        assert table.shape == (len(phase.ops), T.COLUMNS)
        b, s, c = 3.0, 5.0, 7.0
        for column, field in (
            (T.FLOPS, "flops"),
            (T.READS, "reads"),
            (T.WEIGHTS, "weights"),
            (T.STEPS, "steps"),
            (T.STATE_READS, "state_reads"),
            (T.GATHER_ROWS, "gather_rows"),
        ):
            value = table[:, column] * b ** table[:, column + 1] * s ** table[:, column + 2] * c ** table[:, column + 3]
            assert value.tolist() == pytest.approx([getattr(op, field).at(b, s, c) for op in phase.ops], rel=1e-12)
        assert table[:, T.STORED].tolist() == [op.stored for op in phase.ops]
        assert table[:, T.SEQUENTIAL].tolist() == [float(op.sequential) for op in phase.ops]


@pytest.mark.parametrize("document", sorted(NAMED))
def test_every_workload_a_document_names_is_there(document):
    for id in NAMED[document]:
        assert ZOO.workload(id).document == document


def test_every_family_has_a_workload():
    assert {ZOO.workload(id).family for id in ZOO.ids()} == set(FAMILIES)


def test_template_is_a_workload(tmp_path):
    shutil.copy(ROOT / "TEMPLATE.yaml", tmp_path / "example-gpt.yaml")
    zoo = Zoo(tmp_path)
    assert derived(zoo.graph("example-gpt"), "parameters", 64, 64) == pytest.approx(354.8e6, rel=1e-3)


BAD_FILES = {
    "id": ("id: example-gpt", "id: other", "id is 'other'"),
    "family": ("family: transformer-decoder", "family: perceptron", "family 'perceptron' is not known"),
    "unknown key": ("precision: fp16", "precison: fp16", "precison: unknown key; allowed here are schema_version, id"),
    "no source": ('hidden: {value: 1024, source: paper, where: "table 1"}', "hidden: {value: 1024}", "needs `source`"),
    "no note": (', note: "the paper does not say; GPT-2\'s vocabulary"', "", "needs a `note`"),
    "not yaml": ("params:", "params: [", "not readable as YAML"),
    "a key twice": ("precision: fp16", "precision: fp16\nprecision: fp32", "key 'precision' is given twice, line"),
    "the same key in quotes": ("id: example-gpt", 'id: a\n"id": example-gpt', "key 'id' is given twice, line"),
    "an alias": ("precision: fp16", "notes: [&a b, *a]", "anchors and aliases are not allowed"),
    "too deep": ("precision: fp16", f"notes: {'[' * 20}{']' * 20}", "nested more than 20 deep"),
    "no date": ("precision: fp16", "precision: 2026-99-99", "not readable as YAML (month must be in 1..12"),
    "too long": ("precision: fp16", f"# {'x' * 300_000}", "more than the 262144 bytes"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file_is_refused_in_one_sentence(case, tmp_path):
    old, new, expected = BAD_FILES[case]
    text = (ROOT / "TEMPLATE.yaml").read_text()
    assert old in text
    path = tmp_path / "example-gpt.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(WorkloadError) as error:
        read_workload(path)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


BAD_PARAMS = [
    ("gpt2-345m", {"layers": 0}, "'layers'"),
    ("gpt2-345m", {"heads": 15}, "'heads' is 15"),
    ("gpt2-345m", {"kv_heads": 3}, "'kv_heads' is 3"),
    ("gpt2-345m", {"experts": 4}, "'top_k'"),
    ("gpt2-345m", {"hiden": 4}, "'hiden' is not one of"),
    ("gpt2-345m", {"hidden": "wide"}, "'hidden' is 'wide'"),
    ("gpt2-345m", {"norm": "batch"}, "'norm' is 'batch'; allowed: layer, rms"),
    ("gru-3200x2400", {"hidden": 0}, "'hidden'"),
    ("gru-3200x2400", {"hidden": 1e9}, "'hidden'"),
    ("dlrm-rmc1", {"lookups": 0}, "'lookups'"),
    ("dlrm-rmc1", {"width": 64}, "'bottom' ends with 32"),
    ("binary-fc-4096", {"neurons": 1.5}, "'neurons' is 1.5"),
    ("alexnet", {"image": 16}, "too small"),
    ("alexnet", {"image": 1e6}, "'image'"),
    ("regnety-32gf", {"layers": "64 96x3g13"}, "13 groups must divide"),
    ("regnety-32gf", {"layers": "64 twice=sq"}, "'layers' has 'sq', which is no layer"),
    ("regnety-32gf", {"layers": " \n"}, "lists no layer"),
    ("retinanet-800", {"layers": "64 as c3\nc4: 64"}, "no line named 'c4' before it is read; named: c3"),
    ("retinanet-800", {"layers": "64 crop7"}, "'layers' has 'crop7' before a line that takes the best boxes"),
    ("vit-b16", {"image": 225}, "multiple of the patch"),
    ("mlp-121m", {"widths": (5,)}, "'widths'"),
    ("gru-3200x2400", {"convolutions": ((1,),)}, "rows of 2"),
]


@pytest.mark.parametrize(("id", "overrides", "expected"), BAD_PARAMS)
def test_bad_parameter_is_refused_in_one_sentence(id, overrides, expected):
    with pytest.raises(WorkloadError) as error:
        ZOO.graph(id, overrides)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_layers_of_a_line_are_named_by_its_label_or_by_themselves():
    lines = "[stem] first=8x3\n2* b#/ add! 16x3 out=8! |\n8x3"
    ops = ZOO.graph("resnet18", {"layers": lines}).phases[0].ops
    named = [(op.name, op.group) for op in ops if op.kind != "Relu"]
    blocks = [f"b{i}-{name}" for i in (1, 2) for name in ("conv1", "out", "add")]
    assert named == [(name, "stem") for name in ("first", *blocks, "conv10")]


def test_unknown_id_names_the_nearest():
    with pytest.raises(WorkloadError, match="nearest: gpt2-345m"):
        ZOO.workload("gpt-345m")


@each("kind", [kind for kind in KINDS if kind not in CONTRACTIONS])
def test_every_kind_is_an_operation_or_says_what_it_lacks(kind: str) -> None:
    """Three pools and LRN were a KeyError of a word."""
    said = ""
    try:
        op = elementwise("x", kind, Dim(8.0, 1), group="network")
    except WorkloadError as error:
        said = str(error)
        op = elementwise("x", kind, Dim(8.0, 1), group="network", operations=9.0)
    assert op.flops.at(2) > 0
    assert not said or said.startswith(f"operator 'x' is a {kind}, whose work an element is not one figure: ")
