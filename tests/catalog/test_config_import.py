"""Model configurations as workloads: the public families load, their cards' figures come out, and bad ones cost a
sentence that names the key."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from model_zoo import Zoo, default_zoo
from model_zoo.catalog import own_folder
from model_zoo.families import FAMILIES, build_graph
from model_zoo.importers.huggingface import keys as keys_of
from model_zoo.importers.huggingface import read_config, read_config_file, to_yaml
from model_zoo.ops import Graph
from model_zoo.schema import Workload, WorkloadError
from tests.each import each
from tests.effort import examples

FOLDER = Path(__file__).with_name("configs")
FILES = sorted(FOLDER.glob("*.json"))
UNKNOWN = {"zamba2-7b"}  # shared blocks that see the first embedding too: no operator of ours stands for them

CARDS: dict[str, tuple[float, float | None, int]] = {
    # parameters and active parameters as the card or paper prints them [B], bytes of KV cache a token at 16 bits,
    # which are 2 x layers x KV heads x head width x 2 B (of layers that attend), or (latent + rotary) x layers x 2 B
    "llama-2-7b": (6.74, None, 2 * 32 * 32 * 128 * 2),
    "llama-3.1-8b": (8.03, None, 131_072),
    "llama-3.2-1b": (1.24, None, 32_768),
    "llama-3.3-70b-awq": (70.6, None, 327_680),
    "llama-4-scout": (109.0, None, 196_608),
    "llama-4-maverick": (402.0, None, 196_608),
    "mistral-7b": (7.24, None, 131_072),
    "mixtral-8x7b": (46.7, 12.9, 131_072),
    "mixtral-8x22b": (141.0, 39.0, 229_376),
    "qwen-7b": (7.72, None, 524_288),
    "qwen2.5-72b": (72.7, None, 327_680),
    "qwen2-57b-a14b": (57.4, 14.0, 57_344),
    "qwen3-32b": (32.8, None, 262_144),
    "qwen3-235b-a22b-fp8": (235.0, 22.0, 192_512),
    "qwen3-next-80b-a3b": (80.0, None, 2 * 12 * 2 * 256 * 2),
    "deepseek-v2": (236.0, 21.0, (512 + 64) * 60 * 2),
    "deepseek-v2-lite": (15.7, 2.4, (512 + 64) * 27 * 2),
    "deepseek-v3": (671.0, 37.0, (512 + 64) * 61 * 2),
    "kimi-k2": (1026.0, 32.0, (512 + 64) * 61 * 2),
    "gpt-oss-20b": (20.9, 3.6, 2 * 24 * 8 * 64 * 2),
    "gpt-oss-120b": (116.8, 5.1, 2 * 36 * 8 * 64 * 2),
    "glm-4.5": (355.0, 32.0, 2 * 92 * 8 * 128 * 2),
    "glm-4.5-air": (106.0, 12.0, 2 * 46 * 8 * 128 * 2),
    "minimax-m1": (456.0, 45.9, 2 * 10 * 8 * 128 * 2),
    "minimax-m2": (230.0, 10.0, 2 * 62 * 8 * 128 * 2),
    "gemma-2-9b": (9.24, None, 2 * 42 * 8 * 256 * 2),
    "gemma-3-27b": (27.4, None, 2 * 62 * 16 * 128 * 2),
    "gemma-7b": (8.54, None, 2 * 28 * 16 * 256 * 2),
    "phi-2": (2.78, None, 2 * 32 * 32 * 80 * 2),
    "phi-4": (14.7, None, 2 * 40 * 10 * 128 * 2),
    "phi-3.5-moe": (41.9, 6.6, 131_072),
    "nemotron-h-8b": (8.1, None, 2 * 4 * 8 * 128 * 2),
    "nemotron-3-nano-30b-a3b": (31.6, 3.2, 2 * 6 * 2 * 128 * 2),
    "falcon-40b": (41.8, None, 2 * 60 * 8 * 64 * 2),
    "gpt2-xl": (1.558, None, 2 * 48 * 1600 * 2),
    "gpt-j-6b": (6.05, None, 2 * 28 * 4096 * 2),
    "gpt-neox-20b": (20.55, None, 2 * 44 * 6144 * 2),
    "bloom-176b": (176.2, None, 2 * 70 * 14336 * 2),
    "command-r": (35.0, None, 2 * 40 * 64 * 128 * 2),
    "jamba-v0.1": (51.6, 12.0, 2 * 4 * 8 * 128 * 2),
    "mamba2-2.7b": (2.70, None, 0),
    "mamba-2.8b": (2.77, None, 0),
    "granite-4.0-h-small": (32.2, 9.0, 2 * 4 * 8 * 128 * 2),
    "t5-large": (0.738, None, 2 * 2 * 24 * 1024 * 2),
    "whisper-large-v3": (1.543, None, 2 * 32 * 1280 * 2),
    "qwen2.5-vl-7b": (8.29, None, 57_344),
    "llava-1.5-7b": (7.06, None, 2 * 32 * 32 * 128 * 2),
    "dbrx": (132.0, 36.0, 163_840),
}


def graph_of(workload: Workload) -> Graph:
    return build_graph(FAMILIES[workload.family], {key: number.value for key, number in workload.params.items()})


def config(id: str, **changes: Any) -> dict[str, Any]:
    """A public configuration with some keys changed; None takes one away."""
    data = json.loads((FOLDER / f"{id}.json").read_text()) | changes
    return {key: value for key, value in data.items() if value is not None}


@each("path", FILES, ids=lambda path: path.stem)
def test_a_public_configuration_loads_or_says_one_sentence(path: Path) -> None:
    if path.stem in UNKNOWN:
        with pytest.raises(WorkloadError, match="key '") as error:
            read_config_file(path)
        assert "\n" not in str(error.value)
        return
    workload = read_config_file(path)
    assert graph_of(workload).parameters > 1e8
    assert not [note for note in workload.notes if "not understood" in note]
    for number in workload.params.values():
        assert number.where, "every parameter names its key"


def test_there_are_configurations_of_every_kind() -> None:
    said = " ".join(" ".join(map(str, read_config_file(p).params.items())) for p in FILES if p.stem not in UNKNOWN)
    for word in ("kv_rank", "index_top_k", "window", "chunk", "shared_ffn", "dense_layers", "linear_dim", "ssm_state",
                 "encoder_layers", "tower_layers", "quantised", "sinks", "query_gate", "post_norm"):  # fmt: skip
        assert f"'{word}'" in said or word in said, word
    assert len(FILES) >= 60


@each("id", CARDS)
def test_parameters_and_cache_of_the_card(id: str) -> None:
    """The cache to the byte; parameters to the digits that cards print."""
    whole, active, cache = CARDS[id]
    graph = graph_of(read_config_file(FOLDER / f"{id}.json"))
    assert graph.parameters / 1e9 == pytest.approx(whole, rel=0.015)
    assert sum(term.coef for term in graph.state_elements.terms if term.c) * 2 == cache
    if active:
        ops = graph.phases[1].ops
        tables = sum(op.stored for op in ops if op.kind == "Gather")
        head = sum(op.weights.coef for op in ops if op.name == "lm-head")
        read = sum(op.weights_read(1, 1, 1) * op.layers for op in ops if op.kind != "Gather")
        counted = [read / 1e9, (read + tables) / 1e9, (read - head) / 1e9]  # cards differ in whether words count
        assert min(abs(one / active - 1) for one in counted) < 0.06


@pytest.mark.parametrize(
    ("id", "context", "tokens"),
    [
        ("gpt-oss-120b", 10_000, 18 * (10_000 + 128) * 2 * 8 * 64),
        ("gemma-3-27b", 10_000, (10 * 10_000 + 52 * 1024) * 2 * 16 * 128),
        ("llama-4-scout", 20_000, (12 * 20_000 + 36 * 8192) * 2 * 8 * 128),
        ("mistral-7b", 10_000, 32 * 4096 * 2 * 8 * 128),
    ],
)
def test_a_window_bounds_the_cache(id: str, context: int, tokens: int) -> None:
    assert graph_of(read_config_file(FOLDER / f"{id}.json")).state_elements.at(1, 1, context) == tokens


FORMATS = {
    "llama-3.1-70b-fp8": ("fp8", "linear"),
    "llama-3.3-70b-awq": ("w4a16", "linear"),
    "gpt-oss-120b": ("fp4", "experts"),
    "deepseek-v3": ("fp8", "linear"),
    "deepseek-v3.1-nvfp4": ("fp4", "feed-forward"),
    "kimi-k2-thinking": ("w4a16", "experts"),
    "minimax-m2": ("fp8", "linear"),
    "qwen3-8b": ("bf16", "all"),
}


@pytest.mark.parametrize("id", FORMATS)
def test_the_format_of_a_checkpoint(id: str) -> None:
    workload = read_config_file(FOLDER / f"{id}.json")
    quantised = workload.params.get("quantised")
    assert (workload.precision, quantised.value if quantised else "all") == FORMATS[id]


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("qwen3-8b", {"num_attention_heads": -32}, "key 'num_attention_heads' is -32; a whole number from 1 to"),
    ("qwen3-8b", {"num_attention_heads": 32.5}, "key 'num_attention_heads' is 32.5"),
    ("qwen3-8b", {"num_attention_heads": "32"}, "key 'num_attention_heads' is '32'"),
    ("qwen3-8b", {"num_attention_heads": True}, "key 'num_attention_heads' is True"),
    ("qwen3-8b", {"num_attention_heads": 10**30}, "key 'num_attention_heads' is 1"),
    ("qwen3-8b", {"num_key_value_heads": 7}, "key 'num_key_value_heads' is 7; it must divide the 32 heads"),
    (
        "llama-2-7b",
        {"num_attention_heads": 33, "num_key_value_heads": None},
        "'num_attention_heads' is 33; it must divide",
    ),
    ("qwen3-8b", {"num_hidden_layers": 0}, "key 'num_hidden_layers' is 0"),
    ("qwen3-8b", {"hidden_size": None}, "key 'hidden_size' is missing"),
    ("qwen3-8b", {"vocab_size": []}, "key 'vocab_size' is []"),
    ("qwen3-8b", {"model_type": "quux"}, "key 'model_type' is 'quux', which is not known"),
    ("qwen3-8b", {"model_type": None}, "key 'model_type' is missing"),
    ("qwen3-8b", {"model_type": 3}, "key 'model_type' is 3; text is allowed"),
    ("qwen3-8b", {"num_kv_shared_layers": 4}, "key 'num_kv_shared_layers' is 4"),
    ("mixtral-8x7b", {"num_experts_per_tok": 9}, "key 'num_experts_per_tok' is 9; between 1 and the 8 experts"),
    ("gpt-oss-20b", {"layer_types": ["sliding_attention"]}, "key 'layer_types' is"),
    ("gpt-oss-20b", {"layer_types": ["astral_attention"] * 24}, "'layer_types' has 'astral_attention'"),
    ("gpt-oss-20b", {"sliding_window": -1}, "key 'sliding_window' is -1"),
    ("nemotron-h-8b", {"hybrid_override_pattern": "MX"}, "key 'hybrid_override_pattern' is 'mx'"),
    ("deepseek-v3", {"kv_lora_rank": "x"}, "key 'kv_lora_rank' is 'x'"),
    ("deepseek-v3", {"v_head_dim": None}, "key 'v_head_dim' is missing"),
    ("deepseek-v3", {"n_shared_experts": -1}, "key 'n_shared_experts' is -1"),
    ("deepseek-v3", {"index_topk": 2048}, "key 'index_n_heads' is missing"),
    ("qwen3-next-80b-a3b", {"linear_num_key_heads": 5}, "key 'linear_num_key_heads' is 5; it must divide"),
    (
        "qwen2.5-vl-7b",
        {"vision_config": {"depth": 3, "hidden_size": 1280, "num_heads": 7}},
        "'vision_config.num_heads' is 7",
    ),
    ("qwen2.5-vl-7b", {"vision_config": "yes"}, "key 'vision_config' is 'yes'; an object is allowed"),
    ("whisper-large-v3", {"max_source_positions": None}, "key 'max_source_positions' is missing"),
]
QUANTISATION: list[tuple[dict[str, Any], str]] = [
    ({"quant_method": "aqlm"}, "key 'quantization_config.quant_method' is 'aqlm'; known methods"),
    (
        {"quant_method": "fp8", "bits": 4},
        "'quantization_config.bits' is 4, and 'quantization_config.quant_method' is 'fp8'",
    ),
    ({"quant_method": "mxfp4", "bits": 8}, "is 8, and 'quantization_config.quant_method' is 'mxfp4'"),
    ({"quant_method": "gptq", "bits": 3}, "'quantization_config.bits' is 3; 4 or 8"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": True}, "are both true"),
    ({"quant_method": "modelopt", "quant_algo": "fp2"}, "'quantization_config.quant_algo' is 'fp2'"),
    ({"quant_method": "compressed-tensors"}, "'quantization_config.config_groups' is missing"),
    (
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 5, "type": "int"}}}},
        "'quantization_config.config_groups.g.weights.num_bits' is 5",
    ),
    ({"bits": 4}, "key 'quantization_config.quant_method' is ''"),
]


def said(data: dict[str, Any], beside: dict[str, Any] | None = None) -> str:
    with pytest.raises(WorkloadError) as error:
        read_config(data, "mine", beside=beside)
    assert "\n" not in str(error.value)
    return str(error.value)


@each(("id", "changes", "sentence"), BAD)
def test_bad_input_costs_one_sentence_that_names_the_key(id: str, changes: dict[str, Any], sentence: str) -> None:
    assert sentence in said(config(id, **changes))


@pytest.mark.parametrize(("quantisation", "sentence"), QUANTISATION)
def test_a_contradictory_or_unknown_quantisation_is_said(quantisation: dict[str, Any], sentence: str) -> None:
    assert sentence in said(config("qwen3-8b", quantization_config=quantisation))


def test_two_places_that_disagree_on_the_format_are_said() -> None:
    data = config("deepseek-v3")
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    assert "says fp4 and 'quantization_config.quant_method' says fp8" in said(data, beside)
    assert read_config(config("qwen3-8b"), "mine", beside=beside).precision == "fp4"


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "not readable as JSON"),
        (b"{", "not readable as JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[1, 2]", "is a JSON object; this is list"),
        (b"hidden_size: 4", "not readable as JSON"),
        (b'{"a": 1, "a": 2}', "key 'a' is given twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" * 30 + b"]" * 30, "nested more than 20 deep"),
        (b'{"hidden_size": ' + b"9" * 100_000 + b"}", "a number of 100000 characters"),
        (b'{"hidden_size": NaN, "model_type": "llama", "num_hidden_layers": 2}', "'hidden_size' is nan"),
        (b'{"hidden_size": Infinity, "model_type": "llama", "num_hidden_layers": 2}', "'hidden_size' is inf"),
        (b" " * (keys_of.MAX_BYTES + 1), "more than the 4194304 bytes"),
    ],
)
def test_what_is_no_configuration_costs_one_sentence(tmp_path: Path, raw: bytes, sentence: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(raw)
    with pytest.raises(WorkloadError, match=r"config\.json: ") as error:
        read_config_file(path)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_ten_gigabytes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(10 << 30)  # a hole: no byte is written
    with pytest.raises(WorkloadError, match="more than the 4194304 bytes"):
        read_config_file(path)


@pytest.mark.parametrize(
    ("algorithm", "format"),
    [
        ("FP8", "fp8"),
        ("NVFP4", "fp4"),
        ("NVFP4_AWQ", "fp4"),
        ("W4A16_AWQ", "w4a16"),
        ("W4A8_AWQ", "w4a16"),
        ("FP8_PB_WO", "fp8"),
        ("INT8_SQ", "int8"),
        ("MIXED_PRECISION", "fp8"),
        (None, "bf16"),
    ],
)
def test_algorithms_of_a_file_of_its_own(algorithm: str | None, format: str) -> None:
    """What lies beside the configuration; with no algorithm the weights stay, and only the cache is narrow."""
    beside = {"quantization": {"quant_algo": algorithm, "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    read = read_config(config("qwen3-8b"), "mine", beside=beside)
    assert read.precision == format
    assert "KV cache in FP8" in " ".join(read.notes)


def test_what_is_not_understood_is_named_in_a_note() -> None:
    workload = read_config(config("qwen3-8b", num_astral_heads=7, dropout_of_nothing=0.1), "mine")
    assert [note for note in workload.notes if "understood" in note] == [
        "Key 'num_astral_heads' is not understood and left out."
    ]


def test_the_yaml_is_the_workload(tmp_path: Path) -> None:
    """Written down and read again, an imported network is the same: what runs is what a YAML of the zoo would say."""
    folder = tmp_path / "workloads"
    folder.mkdir()
    for id in ("deepseek-v3.2", "nemotron-nas-like", "qwen2.5-vl-7b", "whisper-large-v3"):
        workload = read_config_file(FOLDER / f"{id}.json", f"my-{id}")
        (folder / f"my-{id}.yaml").write_text(to_yaml(workload))
        again = Zoo(guests=(folder,))
        assert again.problems == ()
        assert again.workload(f"my-{id}") == workload
        assert again.graph(f"my-{id}").parameters == graph_of(workload).parameters


def test_a_configuration_in_the_users_folder_is_a_workload(tmp_path: Path) -> None:
    folder = tmp_path / "workloads"
    folder.mkdir()
    (folder / "my-moe.json").write_text(json.dumps(config("qwen3-30b-a3b")))
    (folder / "broken.json").write_text(json.dumps(config("qwen3-8b", num_attention_heads=-1)))
    zoo = Zoo(guests=(folder,))
    assert "my-moe" in zoo.ids()
    (problem,) = zoo.problems
    assert problem.startswith("broken.json: key 'num_attention_heads' is -1")
    report = evaluate(default_scenario("h200-sxm", "my-moe", zoo=zoo), zoo=zoo)
    assert report.latency_s > 0


def test_the_command_writes_it_and_the_zoo_has_it(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(tmp_path))
    default_zoo.cache_clear()
    try:
        path = str(FOLDER / "phi-4.json")
        assert main(["import", path, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["id"] == "phi-4"
        assert told["kv_elements_per_token"] == 2 * 40 * 10 * 128
        assert (own_folder() / "phi-4.yaml").is_file()
        assert main(["import", path]) == 2
        assert "exists already: give --force" in capsys.readouterr().err
        assert main(["import", path, "--force"]) == 0
        assert "14.660 B parameters in bf16" in capsys.readouterr().out
        assert main(["import", str(FOLDER / "qwen3-32b.json")]) == 2
        assert "which the zoo has already" in capsys.readouterr().err
        assert main(["import", str(FOLDER / "qwen3-32b.json"), "--id", "My Model!"]) == 2
        assert "id is 'My Model!'" in capsys.readouterr().err
        assert main(["import", str(tmp_path / "absent.json")]) == 2
        assert "absent.json: not readable (No such file or directory)" in capsys.readouterr().err
        assert main(["import", path, "--id", "shown", "--print"]) == 0
        assert "family: transformer-decoder" in capsys.readouterr().out
        assert not (own_folder() / "shown.yaml").exists()
        default_zoo.cache_clear()
        assert default_zoo().is_guest("phi-4")
    finally:
        default_zoo.cache_clear()


JUNK: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    3,
    2**70,
    1e300,
    -0.5,
    True,
    False,
    "",
    "x",
    "full_attention",
    [],
    [1],
    [None],
    {},
    {"a": 1},
    [[]],
)


def mutated(data: Any, rng: random.Random) -> Any:
    """The same with one value somewhere in it replaced."""
    if isinstance(data, dict) and data:
        key = rng.choice(sorted(data))
        deeper = isinstance(data[key], dict | list) and data[key] and rng.random() < 0.6
        return data | {key: mutated(data[key], rng) if deeper else rng.choice(JUNK)}
    if isinstance(data, list) and data:
        at = rng.randrange(len(data))
        return [*data[:at], mutated(data[at], rng), *data[at + 1 :]]
    return rng.choice(JUNK)


@each("path", FILES, ids=lambda path: path.stem)
def test_whatever_a_key_holds_it_loads_or_costs_one_sentence(path: Path) -> None:
    rng = random.Random(path.stem)
    data = json.loads(path.read_text())
    for _ in range(examples(50)):
        changed = mutated(data, rng)
        try:
            assert read_config(changed, "mine").params
        except WorkloadError as error:
            sentence = str(error)
            if not sentence.isprintable() or len(sentence) > 1500:
                pytest.fail(sentence)
