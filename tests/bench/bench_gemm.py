"""Matrix products beside the peak probed in the same rounds and the best library found, one thread, interleaved.

Every ratio is the median over rounds of figures taken next to each other, because a shared machine's clock drifts;
products are timed in processor seconds of the calling thread, the decode step in wall time.
Peers: onnxruntime, numpy, and torch where it is installed; each row names the one it is held against.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable

os.environ.pop("OPENBLAS_CORETYPE", None)  # some environments pin a slower BLAS; takes effect before numpy loads
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a second BLAS thread spins into the calls that follow it

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from engine.kernels import jit, probe
from engine.kernels.operators.binary import OPERATIONS_PER_WORD, binary_fc, pack_binary
from engine.kernels.operators.gemm import gemm_f32, gemm_s32, gemm_u8, pack_f32, pack_s8
from engine.kernels.operators.gemv import gemv, small_f32, small_s32
from engine.kernels.operators.halfprec import gemm_bf16, pack_narrow, rounded_bits
from engine.kernels.operators.halftree import pack_tree, tree_matvec
from engine.kernels.operators.microkernel import HAS_BF16, VL

SHAPES = ((512, 845, 1024), (512, 1024, 512), (512, 512, 256), (1024, 1024, 1024))
GPT2_345M = ((3072, 1024), (1024, 1024), (4096, 1024), (1024, 4096))  # one layer's weights, rows x inputs
ROUNDS = 11
Call = Callable[[], object]


def _timed(call: Call, clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def _interleaved(
    calls: dict[str, Call], rounds: int = ROUNDS, clock: Callable[[], float] = time.thread_time
) -> dict[str, np.ndarray]:
    """Seconds of every call in every round, the calls of a round one after another."""
    for call in calls.values():
        call()
    taken = np.array([[_timed(call, clock) for call in calls.values()] for _ in range(rounds)])
    return dict(zip(calls, taken.T, strict=True))


def _row(name: str, value: float, unit: str, against: str, ratio: float, goal: float) -> dict:
    return {
        "name": name,
        "value": float(value),
        "unit": unit,
        "against": against,
        "ratio": float(ratio),
        "goal": goal,
        "met": bool(ratio >= goal),
    }


def _session(op: str, a: np.ndarray, b: np.ndarray, result: int) -> Call:
    graph = helper.make_graph(
        [helper.make_node(op, ["a", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("a", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)],
        [helper.make_tensor_value_info("y", result, [a.shape[0], b.shape[1]])],
        [onnx.numpy_helper.from_array(b, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return _run(model, {"a": a})


def _requantising_session(a: np.ndarray, b: np.ndarray) -> Call:
    constants = {
        "b": b,
        "sa": np.float32(0.02),
        "za": np.uint8(0),
        "sb": np.float32(0.01),
        "zb": np.int8(0),
        "sy": np.float32(2.0),
        "zy": np.uint8(0),
    }
    graph = helper.make_graph(
        [helper.make_node("QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], ["y"])],
        "g",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [a.shape[0], b.shape[1]])],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return _run(model, {"a": a})


def _run(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> Call:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def _torch_calls(a: np.ndarray, b: np.ndarray) -> dict[str, Call]:
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    torch.set_num_threads(1)
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    if a.dtype == np.uint8:
        left = left.to(torch.int8)
        return {"torch._int_mm": lambda: torch._int_mm(left, right)}
    return {"torch": lambda: torch.mm(left, right)}


def _peak_call(kind: str) -> tuple[Call, float]:
    data, turns = np.zeros(4 * VL, np.float32), 20_000
    kernel = {"f32": probe._peak_f32, "u8s8": probe._peak_u8s8, "bf16": probe._peak_bf16}[kind]
    group = {"f32": 1, "u8s8": 4, "bf16": 2}[kind]
    return lambda: kernel(data, turns), 2.0 * turns * probe._CHAINS * VL * group


def _against(
    name: str, operations: float, ours: str, peers: dict[str, Call], calls: dict[str, Call], kind: str | None
) -> list[dict]:
    """Rows of one shape: our call against the probed peak of ``kind`` and against the fastest of ``peers``."""
    every = dict(calls) | peers
    peak_operations = 0.0
    if kind is not None:
        every["peak"], peak_operations = _peak_call(kind)
    seconds = _interleaved(every)
    rate = operations / float(np.median(seconds[ours])) / 1e9
    rows = []
    if kind is not None:
        ratio = np.median((operations / seconds[ours]) / (peak_operations / seconds["peak"]))
        rows.append(_row(name, rate, "GOP/s", f"{kind} peak in registers", ratio, 0.9 if kind == "bf16" else 0.93))
    if peers:
        best = min(peers, key=lambda peer: float(np.median(seconds[peer])))
        rows.append(_row(name, rate, "GOP/s", best, np.median(seconds[best] / seconds[ours]), 1.0))
    return rows


def _dense(m: int, k: int, n: int) -> list[dict]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 128, (m, k)).astype(np.uint8), rng.integers(-128, 128, (k, n)).astype(np.int8)
    x, w = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    ints, reals, scale = pack_s8(b), pack_f32(w), np.full(n, 1e-4, np.float32)
    s32, u8, f32 = np.empty((m, n), np.int32), np.empty((m, n), np.uint8), np.empty((m, n), np.float32)
    operations, shape = 2.0 * m * k * n, f"{m}x{k}x{n}"
    vnni = "u8s8" if jit.isa() == "avx512vnni" else None
    rows = _against(
        f"u8s8->s32 {shape}",
        operations,
        "ours",
        {"onnxruntime MatMulInteger": _session("MatMulInteger", a, b, TensorProto.INT32)} | _torch_calls(a, b),
        {"ours": lambda: gemm_s32(a, ints, out=s32, threads=1)},
        vnni,
    )
    rows += _against(
        f"u8s8->u8 {shape}",
        operations,
        "ours",
        {"onnxruntime QLinearMatMul": _requantising_session(a, b)},
        {"ours": lambda: gemm_u8(a, ints, scale, out=u8, threads=1)},
        vnni,
    )
    peers = {"onnxruntime": _session("MatMul", x, w, TensorProto.FLOAT), "numpy": lambda: np.matmul(x, w, out=f32)}
    rows += _against(
        f"f32 {shape}",
        operations,
        "ours",
        peers | _torch_calls(x, w),
        {"ours": lambda: gemm_f32(x, reals, out=f32, threads=1)},
        "f32",
    )
    bits, narrow = rounded_bits(x, "bf16"), pack_narrow(w, "bf16")
    kind = "bf16" if HAS_BF16 else "f32"
    name = f"bf16 {shape}" + ("" if HAS_BF16 else ", widened")
    rows += _against(name, operations, "ours", {}, {"ours": lambda: gemm_bf16(bits, narrow, threads=1)}, kind)
    return rows


def _small_n(m: int = 512, k: int = 256, n: int = 2) -> list[dict]:
    """Goal 1 / 1.2 of the best library."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 128, (m, k)).astype(np.uint8), rng.integers(-128, 128, (k, n)).astype(np.int8)
    x, w = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    b_t, w_t, out = np.ascontiguousarray(b.T), np.ascontiguousarray(w.T), np.empty((m, n), np.float32)
    operations, shape = 2.0 * m * k * n, f"{m}x{k}x{n}"
    peers = {"onnxruntime": _session("MatMul", x, w, TensorProto.FLOAT), "numpy": lambda: np.matmul(x, w, out=out)}
    reals = _against(
        f"f32 {shape}", operations, "ours", peers, {"ours": lambda: small_f32(x, w_t, out=out, threads=1)}, None
    )
    integer = {"onnxruntime MatMulInteger": _session("MatMulInteger", a, b, TensorProto.INT32)}
    ints = _against(f"u8s8 {shape}", operations, "ours", integer, {"ours": lambda: small_s32(a, b_t, threads=1)}, None)
    return [row | {"goal": 1 / 1.2, "met": row["ratio"] >= 1 / 1.2} for row in reals + ints]


def _binary(inputs: int = 4096) -> list[dict]:
    """Batched: of the vector-operation bound; batch 1: of the slower of that and one read of the weights."""
    rng = np.random.default_rng(2)
    caches = probe.cache_sizes()
    rows = []
    for neurons in (2048, 4096, 16384):
        w = pack_binary(rng.integers(0, 256, (neurons, inputs // 8)).astype(np.uint8))
        threshold = np.full(neurons, inputs // 2, np.int32)
        for batch, goal in ((1, 0.85), (256, 0.95)):
            x = rng.integers(0, 256, (batch, inputs // 8)).astype(np.uint8)
            peak, peak_operations = _peak_call("f32")
            stored = np.ones(w.words.size // (8 * VL) * 8 * VL, np.int32)
            found = np.zeros(1, np.int32)
            calls: dict[str, Call] = {"ours": lambda x=x, w=w, t=threshold: binary_fc(x, w, t, threads=1), "peak": peak}
            calls["stream"] = lambda d=stored, f=found: probe._read_range(0, 1, d, f, d.size, 2)
            seconds = _interleaved(calls)
            vector_operations = peak_operations / seconds["peak"] / (2 * VL)
            words = neurons * (inputs / 32) / VL * batch
            limit = words * OPERATIONS_PER_WORD / vector_operations
            against = "vector operations"
            if batch == 1:
                stream = seconds["stream"] / 2
                if np.median(stream) > np.median(limit):
                    against = "reading the weights" + ("" if stored.nbytes > caches.l2 else " (second level)")
                limit = np.maximum(limit, stream)
            rate = batch / float(np.median(seconds["ours"]))
            ratio = float(np.median(limit / seconds["ours"]))
            rows.append(_row(f"binary FC {inputs}x{neurons} batch {batch}", rate, "FC/s", against, ratio, goal))
    return rows


def _decode() -> list[dict]:
    """GPT-2 345M weights, enough layers to exceed eight last-level caches, one token, all threads of the pool."""
    rng = np.random.default_rng(3)
    memory = 8 * probe.cache_sizes().l3
    rows = []
    for stored, size in (("f32", 4), ("bf16", 2), ("fp16", 2)):
        layer = sum(n * k for n, k in GPT2_345M) * size
        weights = []
        for _ in range(-(-memory // layer)):
            for n, k in GPT2_345M:
                w = (rng.random((n, k), np.float32) - np.float32(0.5)) * np.float32(0.1)
                bits = {"f32": lambda v=w: v, "bf16": lambda v=w: rounded_bits(v, "bf16")}
                weights.append(bits.get(stored, lambda v=w: rounded_bits(v, "fp16"))())
        inputs = {k: rng.standard_normal(k).astype(np.float32) for _, k in GPT2_345M}
        total = sum(w.nbytes for w in weights)
        for threads in sorted({1, jit.pool_size()}):
            data = np.ones(total // 4 // (8 * VL * threads) * 8 * VL * threads, np.int32)
            out = np.zeros(threads, np.int32)
            grain = data.size // threads

            def stream(data: np.ndarray = data, out: np.ndarray = out, grain: int = grain, t: int = threads) -> None:
                list(jit.run_chunks(lambda i: probe._read_range(i, i + 1, data, out, grain, 1), range(t)))

            def token(ws: list = weights, xs: dict = inputs, s: str = stored, t: int = threads) -> None:
                for w in ws:
                    gemv(w, xs[w.shape[1]], stored=s, threads=t)

            seconds = _interleaved({"ours": token, "stream": stream}, 5, time.perf_counter)
            ratio = np.median((total / seconds["ours"]) / (data.nbytes / seconds["stream"]))
            rate = total / float(np.median(seconds["ours"])) / 1e9
            name = f"GPT-2 345M decode weights {stored}, {threads} thread{'s' * (threads > 1)}"
            rows.append(_row(name, rate, "GB/s", "memory stream", ratio, 0.85))
    return rows


def _half_tree() -> list[dict]:
    rng = np.random.default_rng(4)
    n = k = 1024
    packed = pack_tree(rng.standard_normal((n, k)).astype(np.float16).view(np.uint16))
    x = rng.standard_normal(k).astype(np.float16).view(np.uint16)
    seconds = _interleaved({"ours": lambda: tree_matvec(packed, x, threads=1)})["ours"]
    rate = n * k / float(np.median(seconds)) / 1e9
    return [_row("FP16 product tree, d = 64", rate, "GMAC/s", "10 GMAC/s on AVX-512", rate / 10, 1.0)]


def rows() -> list[dict]:
    """All rows: ``name, value, unit, against, ratio, goal, met``."""
    found = [row for shape in SHAPES for row in _dense(*shape)]
    return found + _small_n() + _binary() + _half_tree() + _decode()


if __name__ == "__main__":
    for entry in rows():
        print("{name:45s} {value:10.1f} {unit:7s} {ratio:6.3f} of {against:35s} goal {goal:.2f} {met}".format(**entry))
