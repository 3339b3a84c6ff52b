"""Networks that travel in a link: the same network on the other side, and a forged one costs a sentence."""

import base64
import json
import random
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario
from engine.scenario import ScenarioError, decode, encode
from model_zoo import carried as C
from model_zoo import default_zoo
from model_zoo.importers.huggingface import read_config_file
from model_zoo.schema import CARRIED, LONGEST_CARRIED, WorkloadError
from tests.each import each

FILES = [path for path in sorted(Path(__file__).with_name("configs").glob("*.json")) if path.stem != "zamba2-7b"]


@each("path", FILES, ids=lambda path: path.stem)
def test_a_public_configuration_fits_in_a_link(path: Path) -> None:
    read = read_config_file(path)
    id = C.in_link(read)
    workload = default_zoo().workload(id)
    assert len(id) <= LONGEST_CARRIED
    assert {key: one.value for key, one in workload.params.items()} == {
        key: one.value for key, one in read.params.items()
    }
    assert (workload.name, workload.precision, workload.request) == (read.name, read.precision, read.request)
    assert workload.id == id


def test_a_scenario_carries_it_and_everything_runs_on_it() -> None:
    id = C.in_link(read_config_file(next(path for path in FILES if path.stem == "deepseek-v3.2")))
    scenario = default_scenario("h200-sxm", id, devices=8)
    token = encode(scenario)
    assert len(token) < 800
    assert decode(token) == scenario
    report = evaluate(decode(token))
    assert report.latency_s == evaluate(default_scenario("h200-sxm", "deepseek-v3.2", devices=8, **SAME)).latency_s
    assert "fp8" in choices(scenario).formats


WORDS = 1227757678
OLD = "net.rmdempcebn7kxiynoukczabikzd2cgswejmctgezebfakkyfen4mcyffmabc6g5mcqga2ddkmmaq"
SAME: dict[str, Any] = {"inputs": 512, "outputs": 128}


def forged(data: Any) -> str:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=C._DICTIONARY.encode())
    body = packer.compress(json.dumps(data).encode()) + packer.flush()
    return CARRIED + base64.b32encode(body).decode().rstrip("=").lower()


PARAMS = {"hidden": 64, "layers": 2, "heads": 4, "vocab": 100}
GOOD = ["mine", "transformer-decoder", "bf16", [1, 8, 8], PARAMS]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "damaged"),
        ("x", "damaged"),
        ([*GOOD[:4], {**PARAMS, "heads": -4}], "'heads' is -4"),
        ([*GOOD[:4], {**PARAMS, "astral": 1}], "'astral'"),
        ([*GOOD[:4], {**PARAMS, "Bad key": 1}], "a network in a link: params"),
        ([*GOOD[:4], {**PARAMS, "layers": 300, "ffn": list(range(1, 301))}], "kinds of layer"),
        ([*GOOD[:4], {**PARAMS, "hidden": 1e300}], "'hidden' is 1e+300"),
        (["mine", "cnn", *GOOD[2:]], "family 'cnn'"),
        (["<script>", *GOOD[1:]], "a network in a link: name"),
        ([*GOOD[:3], [0, 8, 8], PARAMS], "a network in a link: batch"),
        ([*GOOD[:4], PARAMS, "more"], "damaged"),
    ],
)
def test_a_forged_network_costs_one_sentence(data: Any, said: str) -> None:
    id = forged(data)
    with pytest.raises(WorkloadError) as error:
        default_zoo().workload(id)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1500
    with pytest.raises(ScenarioError):
        default_scenario("h100-sxm", id)


def test_what_is_no_network_at_all_costs_one_sentence() -> None:
    rng = random.Random(3)
    good = forged(GOOD)
    assert default_zoo().graph(good).parameters > 0
    for _ in range(300):
        text = list(good.removeprefix(CARRIED))
        for _ in range(rng.randint(1, 3)):
            text[rng.randrange(len(text))] = rng.choice("abcdefghijklmnopqrstuvwxyz234567")
        with suppress(WorkloadError):  # anything else would escape
            default_zoo().graph(CARRIED + "".join(text))
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = bomb.compress(b" " * 500_000) + bomb.flush()
    with pytest.raises(WorkloadError, match="damaged"):
        default_zoo().workload(CARRIED + base64.b32encode(body).decode().rstrip("=").lower())


def test_the_words_that_links_were_packed_with_never_change() -> None:
    """An id of the day links first carried networks; it must open for ever."""
    assert zlib.crc32(C._DICTIONARY.encode()) == WORDS
    old = default_zoo().workload(OLD)
    assert {key: one.value for key, one in old.params.items()} == PARAMS


def test_the_command_prints_the_id(capsys) -> None:
    assert main(["import", str(next(p for p in FILES if p.stem == "phi-4")), "--link"]) == 0
    id = capsys.readouterr().out.strip()
    assert default_zoo().workload(id).name == "phi-4"
    assert main(["evaluate", "--system", "h100-sxm", "--workload", id]) == 0
    assert "phi-4" in capsys.readouterr().out
