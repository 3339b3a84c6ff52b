"""Whatever a decoder is given, it answers or refuses in one printable sentence; a million by `tests.laws.decoders`."""

import pytest

from app.views.sweep import spaces
from engine.cli.main import main
from engine.scenario import Scenario, ScenarioError, decode, make
from engine.sweep import space_of
from tests.laws import decoders

PAIR = {"system": "xeon-8280l", "workload": "wide-deep-criteo"}


@pytest.mark.parametrize("kind", decoders.DECODERS)
def test_hostile_inputs_are_read_or_refused_in_a_sentence(kind: str) -> None:
    done = decoders.run(kind, 1500)
    assert done["read"] > 0
    assert done["refused"] > 500


def test_half_a_surrogate_pair_is_refused() -> None:
    """It was a UnicodeEncodeError in the decoder."""
    with pytest.raises(ScenarioError, match="This link is damaged: it does not hold a scenario"):
        decode("1jaN4VyXsiXHVkODAwIjp0cnVlfQ")
    with pytest.raises(ScenarioError, match="scenario: a mapping of fields"):
        make({"\ud800": True})


def test_a_field_s_name_is_echoed_as_one_printable_line() -> None:
    with pytest.raises(ScenarioError) as caught:
        make(PAIR | {"precision": "fp16", "a\nb\x1b[31m" * 50: 1})
    assert str(caught.value).startswith("a?b?[31ma?b?[31m")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 120 + len(", ".join(Scenario.model_fields))


def test_a_page_s_space_of_endless_steps_is_refused() -> None:
    """An OverflowError left the Sweep page dead."""
    for token in ("1z8VuH2x3MSwqAIBRG4b38YyfO0q2IhMrthWXoLQ", STEPS):
        with pytest.raises(ScenarioError, match="This space is damaged"):
            spaces.read(token)


STEPS = decoders.token(
    "1z",
    b'{"axes":[["batch",{"from":"1","to":"9","steps":1e999,"log":true}]],"objectives":["latency_s"]}',
    decoders.random.Random(1),
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objectives": 5}, "objectives is '5': a list such as"),
        ({"constraints": 5}, "constraints is '5': a list such as"),
        ({"objectives": 0}, "objectives is '0': a list such as"),
        ({"objectives": []}, "0 objectives were given: 1 to 4"),
        ({"scenario": PAIR | {"set": []}}, "set is '[]': a mapping of paths to values is needed"),
        ({"axes": {"batch": {"from": 1, "to": float("inf"), "steps": 3}}}, "axis batch: to is 'inf': a finite number"),
        ({"axes": {5: [1]}}, "axes has '5': a path such as batch"),
        ({"axes": {"batch": [{5: 1}]}}, "axis batch has the value '{5: 1}'"),
        ({"axes": {"batch": [{"x": {}}]}}, "axis batch has the value '{}'"),
        ({"axes": {"batch": [None]}}, "axis batch has the value 'None'"),
        ({"scenario": PAIR | {"set": 5}}, "set is '5': a mapping of paths to values is needed"),
        ({"scenario": PAIR | {5: 5, "x": 1}}, "'5' is not a field"),
        ({5: 1, "x": 2}, "'5' is none of them"),
    ],
)
def test_spaces(changes, said) -> None:
    with pytest.raises(ScenarioError) as caught:
        space_of({"scenario": PAIR, "axes": {"batch": [1]}} | changes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--seed", str(2**64)], "seed is 18446744073709551616; it must be a whole number from 0 to"),
        (["--seed", "-1"], "seed is -1; it must be a whole number of at least 0"),
        (["--sizes", "mixed:8=-1"], "weights is '-1.0'; it must hold numbers of at least 0, not all 0"),
        (["--places", str(2**64)], "places is 18446744073709551616; it must be a whole number from 0 to"),
        (["--sizes", f"fixed:{2**64}"], "size is 18446744073709551616; it must be a whole number from 1 to 1048576"),
        (["--sizes", "uniform:1:999999999999"], "high is 999999999999; it must be a whole number from 1 to 1048576"),
        (["--max-batch", "2", "--sizes", "uniform:1:2", "--buckets", "2000000000"], "buckets is 2000000000"),
        (["--arrivals", "gamma:1e-300"], "cv is 1e-300; a number from 0.001 to 100 is allowed"),
        (["--arrivals", "gamma:1e300"], "cv is 1e+300; a number from 0.001 to 100 is allowed"),
        (["--arrivals", "bursty:4:0.1:1e-300"], "burst_s is 1e-300; at 100 QPS at least 1e-05 s is needed"),
        (["--arrivals", "diurnal:1:1e-320,0"], "shape is '1e-320, 0.0'; it needs two or more rates"),
        (["--devices", "1" * 5000], "devices is '111111"),
    ],
)
def test_loads(capsys, argv, said) -> None:
    """Tracebacks, a NaN and, of bursts that last no time, a run without end."""
    assert main(["simulate", "preset:wide-deep-int8", "--qps", "100", "--requests", "2000", *argv]) == 2
    assert said in capsys.readouterr().err


def test_devices_of_thousands_of_digits(capsys, tmp_path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text(f"system: xeon-8280l\nworkload: wide-deep-criteo\ndevices: '{'1' * 5000}'\n")
    assert main(["evaluate", str(path)]) == 2
    error = capsys.readouterr().err
    assert "devices is '111111" in error
    assert error.count("\n") == 1
