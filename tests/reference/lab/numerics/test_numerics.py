"""Number formats, metrics and the precision search against outside implementations and definitions."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.numerics import metrics
from engine.lab.numerics.workflow import search
from engine.numerics.formats import (
    FORMATS,
    Binary,
    Float,
    GroupInteger,
    Integer,
    NumericsError,
    SharedExponent,
    by_name,
)
from tests.effort import examples
from tests.reference import onnx_oracle


def wide_range(seed=0, count=20_000):
    """Values over the whole exponent range of fp16 and beyond, with exact ties."""
    rng = np.random.default_rng(seed)
    x = np.ldexp(rng.uniform(-2, 2, count), rng.integers(-32, 18, count)).astype(np.float32)
    ties = np.ldexp(np.arange(-512, 512) + 0.5, np.tile(np.arange(-28, 4), 32)).astype(np.float32)
    return np.concatenate([x, ties, np.float32([0, -0.0, 65504, 65519.99, 65520, -65520, np.inf, -np.inf])])


@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [
        (FORMATS["fp16"], np.float16),
        (FORMATS["bf16"], ml_dtypes.bfloat16),
        (Float(5, 2), ml_dtypes.float8_e5m2),
        (Float(3, 4), ml_dtypes.float8_e3m4),
        (Float(4, 3), ml_dtypes.float8_e4m3),
    ],
)
def test_float_formats_equal_ml_dtypes(fmt, dtype):
    x = wide_range()
    with np.errstate(over="ignore"):
        theirs = x.astype(dtype).astype(np.float32)
    assert np.array_equal(fmt.apply(x), theirs)
    assert np.isnan(fmt.apply(np.float32([np.nan]))).all()


def test_fp32_is_the_identity():
    x = wide_range()
    assert np.array_equal(FORMATS["fp32"].apply(x), x)


def test_ms_fp8_is_e5m2_that_saturates():
    x = wide_range()
    inside = np.abs(x) <= 57344
    theirs = x.astype(ml_dtypes.float8_e5m2).astype(np.float32)
    ours = FORMATS["ms-fp8"].apply(x)
    assert np.array_equal(ours[inside], theirs[inside])
    assert np.all(np.abs(ours[~inside]) == 57344)


@settings(max_examples=examples(60), deadline=None)
@given(value=st.floats(-60000, 60000, width=32), more=st.integers(0, 9))
def test_ms_fp9_rounds_to_a_nearest_of_its_values(value, more):
    """1-5-3: enumerate every value of the format and compare with the nearest."""
    every = np.array(
        [(1 + m / 8) * 2.0**e for e in range(-14, 16) for m in range(8)] + [m / 8 * 2.0**-14 for m in range(8)]
    )
    every = np.concatenate([every, -every])
    x = np.float32(value * 0.1**more)
    assert abs(float(FORMATS["ms-fp9"].apply(x)) - float(x)) == np.abs(every - float(x)).min()


@pytest.mark.parametrize("granularity", ["tensor", "row", "channel"])
def test_integer_formats_equal_onnxruntime(granularity):
    x = np.random.default_rng(1).normal(size=(6, 9)).astype(np.float32) + np.float32(0.3)
    fmt = Integer(8, granularity)
    codes, scale = fmt.codes(x)
    flat_scale, flat_zero = scale.reshape(-1), np.zeros(scale.size, np.int8)
    if granularity == "tensor":
        flat_scale, flat_zero = flat_scale.reshape(()), flat_zero.reshape(())
    extra = {} if granularity == "tensor" else {"axis": {"row": 0, "channel": 1}[granularity]}
    feeds = {"x": x, "s": flat_scale, "z": flat_zero}
    kind_id = onnx_oracle.helper.np_dtype_to_tensor_dtype(np.dtype(np.int8))
    theirs = onnx_oracle.run("QuantizeLinear", feeds, output=kind_id, **extra)
    assert np.array_equal(codes, np.clip(theirs, -127, 127))
    back = onnx_oracle.run("DequantizeLinear", {"q": theirs, "s": flat_scale, "z": flat_zero}, **extra)
    assert np.array_equal(fmt.apply(x), back)


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 999),
    shape=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    bits=st.integers(2, 10),
    granularity=st.sampled_from(["tensor", "row", "channel"]),
)
def test_integer_error_is_half_a_step_and_zero_is_exact(seed, shape, bits, granularity):
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    x.reshape(-1)[::3] = 0
    fmt = Integer(bits, granularity)
    codes, scale = fmt.codes(x)
    assert np.all(np.abs(codes) < 2 ** (bits - 1))
    stored = fmt.apply(x)
    assert np.all(np.abs(stored - x) <= scale * (0.5 + 1e-5))
    assert np.all(stored[x == 0] == 0)


EVERY = FORMATS | {
    "int8-channel": Integer(8, granularity="channel"),
    "int8-row": Integer(8, granularity="row"),
    "int4": Integer(4),
    "int4-channel": Integer(4, granularity="channel"),
    "bfp-1s4m": SharedExponent(128, 4),
    "bfp-1s2m": SharedExponent(128, 2),
}


def test_symmetric_storage_is_idempotent():
    x = np.random.default_rng(2).normal(size=(5, 64)).astype(np.float32)
    for name in ("int8", "int4", "int8-row", "fp16", "bf16", "ms-fp8", "ms-fp9", "bfp-1s4m", "bfp-1s2m", "binary"):
        once = EVERY[name].apply(x)
        assert np.allclose(EVERY[name].apply(once), once, rtol=1e-6), name


def test_shared_exponent_on_a_worked_example():
    x = np.float32([[8.0, 1.0, 0.24, -7.9, 0.5, 0.1]])
    stored = SharedExponent(block=4, mantissa_bits=3).apply(
        x
    )  # quantum 2: 8 = 4 * 2; then quantum 0.125 for the short block
    assert np.array_equal(stored, np.float32([[8, 0, 0, -8, 0.5, 0.125]]))
    top = SharedExponent(block=2, mantissa_bits=2).apply(np.float32([1.9, 0.2]))
    assert np.array_equal(top, np.float32([1.5, 0.0]))  # 1.9 would round to 2 = four quanta: clamped to three


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 99), width=st.integers(0, 40), block=st.integers(1, 17), bits=st.integers(1, 8))
def test_shared_exponent_error_bound(seed, width, block, bits):
    x = np.random.default_rng(seed).normal(size=(3, width)).astype(np.float32)
    stored = SharedExponent(block, bits).apply(x)
    for start in range(0, width, block):
        part, held = x[:, start : start + block], stored[:, start : start + block]
        quantum = 2.0 ** (np.floor(np.log2(np.abs(part).max(1))) - bits + 1)
        assert np.all(np.abs(part - held) <= quantum[:, None])


def test_storage_bits():
    assert {name: format.storage_bits((10, 256)) for name, format in EVERY.items()} == {
        "fp32": 81920,
        "fp16": 40960,
        "bf16": 40960,
        "ms-fp11": 28160,
        "ms-fp10": 25600,
        "ms-fp9": 23040,
        "ms-fp8": 20480,
        "int8": 20480 + 32,
        "int8-channel": 20480 + 256 * 32,
        "int8-row": 20480 + 320,
        "int4": 10240 + 32,
        "int4-channel": 10240 + 256 * 32,
        "bfp-1s4m": 2560 * 5 + 20 * 8,
        "bfp-1s2m": 2560 * 3 + 20 * 8,
        "binary": 2560 + 32,
    }


def test_binary_scale_is_least_squares():
    x = np.random.default_rng(3).normal(size=500).astype(np.float32)
    stored = Binary().apply(x)
    for factor in (0.98, 1.02):
        assert ((x - stored) ** 2).sum() < ((x - stored * np.float32(factor)) ** 2).sum()


def test_sqnr_of_a_uniform_signal_is_six_db_per_bit():
    x = np.random.default_rng(5).uniform(-1, 1, 200_000)
    for bits in (4, 6, 8, 10):
        levels = 2 ** (bits - 1) - 1
        assert metrics.sqnr_db(x, Integer(bits).apply(x)) == pytest.approx(20 * np.log10(2 * levels), abs=0.15)


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 999), count=st.integers(2, 200), distinct=st.integers(1, 20))
def test_auc_and_entropy_equal_scikit_learn(seed, count, distinct):
    from sklearn.metrics import log_loss, roc_auc_score  # half a second to import, for this test alone

    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    labels[:2] = (0, 1)
    score = rng.integers(1, distinct + 1, count) / (distinct + 1)
    assert metrics.auc(labels, score) == pytest.approx(roc_auc_score(labels, score), abs=1e-12)
    assert metrics.log_loss(labels, score) == pytest.approx(log_loss(labels, score), rel=1e-12)
    constant = np.full(count, labels.mean())
    assert metrics.normalised_entropy(labels, constant) == pytest.approx(1)


def test_tensor_metrics():
    a = np.float32([3, 4])
    assert metrics.sqnr_db(a, a) == np.inf
    assert metrics.sqnr_db(a, a * np.float32(0.9)) == pytest.approx(20, abs=1e-4)
    assert metrics.max_abs(a, a + 1) == 1


@dataclass(frozen=True)
class DenseNetwork:
    """Fully connected layers with ReLU between them, for a search to quantise.

    ``layers`` is a tuple of (name, weight ``[outputs, inputs]``, bias ``[outputs]``).
    """

    layers: tuple[tuple[str, np.ndarray, np.ndarray], ...]

    def run(self, x: np.ndarray, plan: Mapping[str, str] | None = None) -> np.ndarray:
        """Output with each layer's weight and input stored in ``plan[name]`` (float32 where absent), fp32 products."""
        plan = plan or {}
        value = np.asarray(x, np.float32)
        for position, (name, weight, bias) in enumerate(self.layers):
            if position:
                value = np.maximum(value, 0)
            kept = EVERY[plan[name]].apply(weight) if name in plan else weight
            seen = EVERY[plan[name]].apply(value) if name in plan else value
            value = seen @ kept.T + bias
        return value

    def own_error(self, x: np.ndarray, name: str, precision: str) -> float:
        """Noise-to-signal ratio at the output with only ``name`` in ``precision``. [-]"""
        return float(10 ** (-metrics.sqnr_db(self.run(x), self.run(x, {name: precision})) / 10))


def network(seed=6):
    rng = np.random.default_rng(seed)
    widths = [32, 64, 64, 48, 10]
    layers = []
    for i, (n, m) in enumerate(pairwise(widths)):
        weight = rng.normal(size=(m, n)).astype(np.float32) / np.float32(np.sqrt(n))
        if i == 2:
            weight[0, 0] = 40  # an outlier: eight bits of this layer are worth little
        layers.append((f"fc{i}", weight, rng.normal(size=m).astype(np.float32) * np.float32(0.1)))
    return DenseNetwork(tuple(layers)), rng.normal(size=(400, 32)).astype(np.float32)


def plan_for(bound, share=1.0):
    net, x = network()
    data = {"tuning": x[:200], "held_out": x[200:]}
    times = {
        name: {"int4": w.size, "int8": 2 * w.size, "fp16": 4 * w.size, "fp32": 8 * w.size} for name, w, _ in net.layers
    }

    def loss(plan, split):
        a, b = (net.run(data[split], *own).ravel().astype(np.float64) for own in ((), (plan,)))
        return float(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    ladder = dict.fromkeys(times, ("int4", "int8", "fp16", "fp32"))
    result = search(
        times, loss, lambda n, p: net.own_error(data["tuning"], n, p), ladder=ladder, bound=bound, share=share
    )
    return result, loss, times


@pytest.mark.parametrize("bound", [0.2, 1e-3, 1e-5, 1e-8])
def test_search_meets_its_bound_on_held_out_data(bound):
    plan, loss, times = plan_for(bound)
    assert plan.holds
    assert loss(plan.precision, "held_out") <= bound
    assert plan.steps[-1].held_out_loss == loss(plan.precision, "held_out")
    assert plan.steps[-1].time_s == sum(times[name][rung] for name, rung in plan.precision.items())
    assert [s.time_s for s in plan.steps] == sorted(s.time_s for s in plan.steps)
    assert plan.reference_time >= plan.steps[-1].time_s


def test_search_raises_the_layer_that_hurts_first():
    plan, _, _ = plan_for(1e-3)
    assert plan.steps[0].operator == "*"
    net, x = network()
    worst = max(net.layers, key=lambda layer: net.own_error(x[:200], layer[0], "int4"))
    assert plan.steps[1].operator == worst[0]
    assert plan.steps[0].own_error is None
    assert all(step.own_error > 0 for step in plan.steps[1:])  # it was 0 wherever a step reached the reference
    assert plan.steps[1].own_error == net.own_error(x[:200], worst[0], "int4")
    tighter, _, _ = plan_for(1e-6)
    assert tighter.steps[-1].time_s > plan.steps[-1].time_s


def test_search_leaves_cheap_operators_alone():
    plan, _, times = plan_for(0.5, share=0.5)
    lowered = [name for name, rung in plan.precision.items() if rung != "fp32"]
    assert 0 < len(lowered) < len(times)
    assert min(times[n]["fp32"] for n in lowered) >= max(times[n]["fp32"] for n in times if n not in lowered)


def test_search_says_when_the_bound_cannot_be_met():
    plan = search(
        {"a": {"int8": 1.0, "fp32": 2.0}}, lambda p, s: 1.0, lambda n, p: 1.0, ladder={"a": ("int8", "fp32")}, bound=0.5
    )
    assert not plan.holds
    assert plan.precision == {"a": "fp32"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: by_name("int7"), "format is 'int7'; allowed: fp32"),
        (lambda: Integer(1), "bits is 1; allowed: 2 to 16"),
        (lambda: Integer(8).apply(np.float32([np.nan])), "x holds a NaN"),
        (lambda: metrics.sqnr_db(np.ones(2), np.ones(3)), "arrays have shapes"),
        (lambda: metrics.auc(np.ones(3), np.ones(3)), "labels are all alike"),
        (lambda: SharedExponent(0), "allowed: 1 or more"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(NumericsError, match=message):
        call()


@pytest.mark.parametrize("shape", [(0, 64), (3, 0), (0, 40), (2, 0, 64)])
def test_a_share_without_rows_is_stored_too(shape):
    """Heads dealt to eight cards leave some without any: the page of the machine fell over their eight bits."""
    assert GroupInteger().apply(np.zeros(shape)).shape == shape
