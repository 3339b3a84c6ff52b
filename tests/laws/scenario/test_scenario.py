"""Tokens: every field survives, hostile ones end in one sentence, old ones keep opening."""

import base64
import contextlib
import json
import re
import zlib
from itertools import permutations
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import TOKEN_LIMIT, VERSION, Scenario, ScenarioError, decode, encode, make, token_in
from engine.scenario.overrides import apply, apply_all, parse_setting
from engine.sweep import space_of
from hardware_specs.schema import Scheme
from tests.each import each
from tests.effort import examples

ids = st.from_regex(r"\A[a-z0-9][a-z0-9.-]{0,20}\Z")
scenarios = st.builds(
    Scenario,
    system=ids,
    workload=ids,
    batch=st.integers(1, 65536),
    streams=st.integers(1, 4096),
    inputs=st.integers(1, 1_048_576),
    outputs=st.integers(1, 1_048_576),
    params=st.dictionaries(
        st.from_regex(r"\A[a-z][a-z0-9_]{0,10}\Z"), st.integers(-9, 9) | st.floats(-1e9, 1e9), max_size=3
    ),
    precision=ids,
    tile=st.lists(st.integers(1, 65536), max_size=4).map(tuple),
    scheme=st.sampled_from(get_args(Scheme)),
    devices=st.integers(1, 100_000),
    switches=st.dictionaries(st.from_regex(r"\A[a-z][a-z0-9-]{0,10}\Z"), st.booleans(), max_size=4),
    overrides=st.dictionaries(st.just("devices.0.npu.tiles"), st.floats(1, 1e9) | st.just("900 GB/s"), max_size=1),
)


@given(scenarios)
@settings(max_examples=examples(150), deadline=None)
def test_a_token_holds_the_whole_scenario(scenario: Scenario) -> None:
    assert decode(encode(scenario)) == scenario
    assert encode(decode(encode(scenario))) == encode(scenario)


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda b: "1z" + base64.urlsafe_b64encode(b).decode()))
@settings(max_examples=examples(300), deadline=None)
def test_any_text_is_a_scenario_or_one_sentence(text: str) -> None:
    sentence = ""
    try:
        decode(text)
    except ScenarioError as error:
        sentence = str(error)
    assert "\n" not in sentence
    assert len(sentence) < 400


names = st.text(st.characters(), max_size=20)  # halves of surrogate pairs among them
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.just(float("1e999")) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@example({chr(0x105BD) * 60: None})
@given(st.dictionaries(st.sampled_from([*Scenario.model_fields]) | names | st.integers(), values, max_size=3))
@settings(max_examples=examples(300), deadline=None)
def test_any_fields_are_a_scenario_or_one_printable_sentence(fields: dict) -> None:
    base = PRESETS["dfx-1.5b"].scenario
    calls = [lambda: make({**base.model_dump(), **fields}), lambda: space_of({"scenario": base, "axes": fields})]
    calls += [lambda p=path, v=value: apply(base, p, v) for path, value in fields.items() if isinstance(path, str)]
    for call in calls:
        said = ""
        try:
            call()
        except ScenarioError as error:
            said = str(error)
        assert said.isprintable()
        assert len(said) < 500


@given(scenarios, st.integers(2, 60), st.sampled_from("ABCxyz019-_"))
@settings(max_examples=examples(150), deadline=None)
def test_a_changed_character_is_noticed(scenario: Scenario, at: int, letter: str) -> None:
    token = encode(scenario)
    changed = token[:at] + letter + token[at + 1 :]
    if changed != token:
        with contextlib.suppress(ScenarioError):
            assert decode(changed) == scenario  # only where base64 padding bits were touched


def packed(text: bytes, version: str = "1", check: bytes | None = None) -> str:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(text) + packer.flush()
    crc = zlib.crc32(text).to_bytes(4, "big") if check is None else check
    return f"{version}z" + base64.urlsafe_b64encode(crc + body).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("token", "word"),
    [
        ("", "damaged"),
        ("zz", "damaged"),
        ("9zAAAA", "newer version"),
        ("0zAAAA", "version 0"),
        ("1z" + "A" * TOKEN_LIMIT, "at most"),
        (packed(b"{}", check=b"0000"), "checksum"),
        (packed(b"0" * 1_000_000), "unpacks to more than"),
        (packed(b"[" * 60_000), "does not hold"),
        (packed(b"[]"), "scenario"),
        (packed(json.dumps({"system": "a", "workload": "b", "precision": "fp16", "evil": 1}).encode()), "evil"),
        (packed(json.dumps({"system": "<img src=x>", "workload": "b", "precision": "fp16"}).encode()), "system"),
        (packed(json.dumps({"system": "a", "workload": "b", "precision": "fp16", "batch": 0}).encode()), "batch"),
        (packed(b'{"system":"a","workload":"b","precision":"fp16","params":{"x":NaN}}'), "params"),
    ],
)
def test_hostile_tokens_get_one_sentence(token: str, word: str) -> None:
    with pytest.raises(ScenarioError, match=word) as caught:
        decode(token)
    assert "\n" not in str(caught.value)


@each("id", PRESETS)
def test_preset_tokens_round_trip(id: str) -> None:
    scenario = PRESETS[id].scenario
    assert decode(encode(scenario)) == scenario
    assert len(encode(scenario)) < 1200


def test_every_document_has_two_presets_and_a_headline() -> None:
    for document in ("000", "001", "002", "003", "004"):
        mine = [p for p in PRESETS.values() if p.document == document]
        assert len(mine) >= 2
        assert sum(p.headline for p in mine) == 1


def test_a_preset_runs_on_as_many_devices_as_its_name_says() -> None:
    """XLM-R "on one card" ran six."""
    named = [p for p in PRESETS.values() if re.search(r"\bone (card|FPGA)\b", f"{p.title}, {p.pill}")]
    assert len(named) >= 2
    assert [p.id for p in named if p.scenario.devices != 1] == []


def test_token_is_found_in_a_url() -> None:
    token = encode(PRESETS["dfx-1.5b"].scenario)
    assert token_in(f"http://localhost:8501/sweep?x=1&s={token}#top") == token
    assert token_in(token) == token
    with pytest.raises(ScenarioError, match="s="):
        token_in("http://localhost:8501/?q=s=")


def test_settings_reach_every_part() -> None:
    base = PRESETS["dfx-1.5b"].scenario
    changed = apply_all(
        base, ["batch=2", "tile=16x64", "costs.pue=1.5", "limits.latency_s=0.5", "devices.0.dfx.clock=300 MHz"]
    )
    assert (changed.batch, changed.tile, changed.costs.pue, changed.limits.latency_s) == (2, (16, 64), 1.5, 0.5)
    for name in ("latency_s", "ttft_s", "tpot_s", "power_w", "capex_usd"):
        assert getattr(apply(base, f"limits.{name}", "0.5").limits, name) == 0.5
    assert changed.overrides == {"devices.0.dfx.clock": "300 MHz"}
    assert apply(base, "system.devices.0.dfx.clock", "300 MHz") == apply(base, "devices.0.dfx.clock", "300 MHz")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("batch", "path=value"),
        ("batch=many", "number"),
        ("batch=1.5", "batch"),
        ("batch=0", "batch"),
        ("tile=axb", "tile"),
        ("switches.x=perhaps", "on or off"),
        ("nothing=1", "not a setting"),
        ("costs.gold=1", "costs has"),
        ("tile.9=4", "tile"),
    ],
)
def test_bad_settings_get_one_sentence(text: str, word: str) -> None:
    with pytest.raises(ScenarioError, match=word):
        apply(PRESETS["dfx-345m"].scenario, *parse_setting(text))


def test_make_names_the_field() -> None:
    with pytest.raises(ScenarioError, match="workload"):
        make({"system": "a", "precision": "fp16"})
    assert VERSION == 1


def test_a_request_past_the_learned_positions_says_so() -> None:
    """GPT-2 has 1,024 learned positions; the last output token is not read again. Rotary networks have no such end."""
    ours = PRESETS["v100-1.5b"].scenario
    rotary = ours.model_copy(
        update={"system": "h100-sxm", "workload": "llama2-7b", "scheme": "single", "switches": {}, "inputs": 100_000}
    )
    asked = [ours.model_copy(update={"inputs": 1000, "outputs": outputs}) for outputs in (25, 26)]
    told = [[a.text for a in evaluate(s).assumptions if "learned positions" in a.text] for s in (*asked, rotary)]
    assert [len(found) for found in told] == [0, 1, 0]
    assert "1,024 learned positions; this request reaches 1,025" in told[1][0]


def test_overrides_of_one_part_hold_together_in_any_order():
    """Near and far reads of a memory, both shortened: refused one after the other, whole as a pair, and as a token."""
    near, far = (f"devices.1.smartnic.memories.emem-cache.{name}" for name in ("nearest", "farthest"))
    base = default_scenario("xeon-agilio-coprocessor", "vgg16-cifar-binary")
    with pytest.raises(ScenarioError, match="exceeds"):
        evaluate(base.with_(overrides={far: 125.0}))
    one, other = (evaluate(base.with_(overrides=dict(pairs))) for pairs in permutations([(near, 75.0), (far, 125.0)]))
    assert one.latency_s == other.latency_s == evaluate(decode(one.token)).latency_s


def test_an_assumed_list_of_layers_is_said_by_its_first_ones():
    report = evaluate(default_scenario("fb-card", "fbnetv3-detection"))
    (said,) = (a.text for a in report.assumptions if ": layers = " in a.text)
    assert ": layers = [stem] @HardSwish stem=24x3s2 " in said
    assert "\n" not in said
    assert " ... (" in said
