"""Matrix products beside the peak probed in the same rounds and the best library found, one thread, interleaved.

The probed peak does as many operations as the product it stands beside, so both see the same interruptions, and the two
alternate in rounds of their own, short and many, with nothing between them; two threads are timed in wall time.
Weights are packed, and peers' weights reordered, before the clock starts; everything else a call does is timed.
Peers: onnxruntime, numpy, and torch (oneDNN, with packed weights where it can) where it is installed; each row names
the fastest of them.
"""

import importlib.util
import os
import time
from collections.abc import Callable

os.environ.pop("OPENBLAS_CORETYPE", None)  # some environments pin a slower BLAS; for runs of this file by itself

import numpy as np
from onnx import TensorProto, helper
from threadpoolctl import threadpool_limits

from engine.kernels import jit
from engine.lab import probe
from engine.lab.ir.binary import OPERATIONS_PER_WORD
from engine.lab.ir.microkernel import HAS_BF16, HAS_COUNT
from engine.lab.operators.binary import binary_counts, pack_binary
from engine.lab.operators.gemm import bf16_bits, gemm_f32, gemm_s32, gemm_u8, pack_bf16, pack_f32, pack_s8
from tests.bench.timing import ROUNDS, Call, Row, beside, interleaved, row
from tests.reference.onnx_oracle import session

SHAPES = ((512, 845, 1024), (512, 1024, 512), (512, 512, 256), (1024, 1024, 1024))
PIECE, SPENT = 1e-3, 0.6  # seconds that a limit is probed for at a time, and that a product and its limit alternate for


def _plain(op: str, a: np.ndarray, b: np.ndarray, output: int) -> Call:
    return _session(op, a, {"b": b}, ["a", "b"], output)


def _session(op: str, a: np.ndarray, constants: dict[str, np.ndarray], names: list[str], output: int) -> Call:
    kind = helper.np_dtype_to_tensor_dtype(a.dtype)
    made = session([helper.make_node(op, names, ["y"])], {"a": kind}, {"y": output}, constants, opset=17)
    return lambda: made.run(None, {"a": a})


def _requantising_session(a: np.ndarray, b: np.ndarray) -> Call:
    constants = {"b": b, "sa": np.array(0.02, np.float32), "za": np.array(0, np.uint8)}
    constants |= {"sb": np.array(0.01, np.float32), "zb": np.array(0, np.int8)}
    constants |= {"sy": np.array(2.0, np.float32), "zy": np.array(0, np.uint8)}
    names = ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"]
    return _session("QLinearMatMul", a, constants, names, TensorProto.UINT8)


def _torch_calls(a: np.ndarray, b: np.ndarray, requantised: bool = False) -> dict[str, Call]:
    """What torch offers for these operands; bfloat16 where they are given as patterns (uint16)."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    torch.set_num_threads(1)
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    if a.dtype == np.uint8 and requantised:
        turned = torch.ops.onednn.qlinear_prepack(right.T.contiguous(), None)
        scales, zeros = torch.full((b.shape[1],), 0.01), torch.zeros(b.shape[1], dtype=torch.int32)
        linear = torch.ops.onednn.qlinear_pointwise
        arguments = (0.02, 0, turned, scales, zeros, None, 2.0, 0, torch.uint8, "none", [], "")
        return {"torch qlinear (oneDNN)": lambda: linear(left, *arguments)}
    if a.dtype == np.uint8:
        left = left.to(torch.int8)
        return {"torch._int_mm": lambda: torch._int_mm(left, right)}
    if a.dtype == np.uint16:
        left, right = left.view(torch.bfloat16), right.view(torch.bfloat16)
    packed = torch.ops.mkldnn._reorder_linear_weight(right.T.contiguous(), a.shape[0])
    return {
        "torch mm": lambda: torch.mm(left, right),
        "torch linear, packed (oneDNN)": lambda: torch.ops.mkldnn._linear_pointwise(left, packed, None, "none", [], ""),
    }


def _against(
    name: str, operations: float, ours: Call, peers: dict[str, Call], kind: str | None, goals: tuple[float, float]
) -> list[Row]:
    """Rows of one shape: our call against the probed peak of ``kind`` and against the fastest of ``peers``."""
    rows = []
    if kind is not None:
        _, one_turn = probe.peak_call(kind, 1)
        peak, peak_operations = probe.peak_call(kind, max(1, round(operations / one_turn)))
        seconds = interleaved({"ours": ours, "peak": peak}, at_least=PIECE, spend=SPENT)
        ratio = float(np.median((operations / seconds["ours"]) / (peak_operations / seconds["peak"])))
        rate = operations / float(np.median(seconds["ours"]))
        rows.append(row(name, rate, "OP/s", f"{kind} peak in registers", ratio, goals[0]))
    if peers:
        rounds = 2 * ROUNDS if operations < 1e9 else ROUNDS
        rows.append(beside(name, operations, "OP/s", ours, peers, goals[1], rounds))
    return rows


def _dense(m: int, k: int, n: int) -> list[Row]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 128, (m, k)).astype(np.uint8), rng.integers(-128, 128, (k, n)).astype(np.int8)
    x, w = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    ints, reals, scale = pack_s8(b), pack_f32(w), np.full(n, 1e-4, np.float32)
    s32, u8, f32 = np.empty((m, n), np.int32), np.empty((m, n), np.uint8), np.empty((m, n), np.float32)
    operations, shape = 2.0 * m * k * n, f"{m}x{k}x{n}"
    vnni = "u8s8" if jit.isa() == "avx512vnni" else None
    peers = {"onnxruntime MatMulInteger": _plain("MatMulInteger", a, b, TensorProto.INT32)} | _torch_calls(a, b)
    goals = (0.93, 1.0)
    rows = _against(f"u8s8->s32 {shape}", operations, lambda: gemm_s32(a, ints, out=s32, threads=1), peers, vnni, goals)
    peers = {"onnxruntime QLinearMatMul": _requantising_session(a, b)} | _torch_calls(a, b, requantised=True)
    rows += _against(
        f"u8s8->u8 {shape}", operations, lambda: gemm_u8(a, ints, scale, out=u8, threads=1), peers, vnni, goals
    )
    peers = {
        "onnxruntime": _plain("MatMul", x, w, TensorProto.FLOAT),
        "numpy": lambda: np.matmul(x, w, out=f32),
    }
    peers |= _torch_calls(x, w)
    rows += _against(f"f32 {shape}", operations, lambda: gemm_f32(x, reals, out=f32, threads=1), peers, "f32", goals)
    bits, narrow = bf16_bits(x), pack_bf16(w)
    kind = "bf16" if HAS_BF16 else "f32"
    name = f"bf16 {shape}" + ("" if HAS_BF16 else ", widened")
    return rows + _against(
        name,
        operations,
        lambda: gemm_f32(bits, narrow, out=f32, threads=1),
        _torch_calls(bits, bf16_bits(w)),
        kind,
        (0.9, 1.0),
    )


def _binary(inputs: int = 4096) -> list[Row]:
    """Batched: of the bound of the arithmetic units; batch 1: of the slower of that and one read of the weights."""
    rng = np.random.default_rng(2)
    caches = probe.cache_sizes()
    kind = "xnor" if HAS_COUNT else "f32"
    out = np.zeros(1, np.int32)
    rows = []
    for neurons in (2048, 4096, 8192, 16384):
        w = pack_binary(rng.integers(0, 256, (neurons, inputs // 8)).astype(np.uint8))
        far = np.ones(max(w.words.size, caches.l2), np.int32)  # at least four second levels: read from the last one
        for batch, goal in ((1, 0.85), (16, 0.95), (256, 0.95)):
            x = rng.integers(0, 256, (batch, inputs // 8)).astype(np.uint8)
            operations = 2.0 * neurons * inputs * batch
            _, one_turn = probe.peak_call(kind, 1)
            peak, peak_operations = probe.peak_call(kind, max(1000, round(operations / one_turn)))
            calls: dict[str, Call] = {"ours": lambda x=x, w=w: binary_counts(x, w, threads=1), "peak": peak}
            calls["stream"] = lambda d=far: probe._read_range(0, 1, d, out, d.size, 2)
            seconds = interleaved(calls, 2 * ROUNDS, at_least=PIECE, spend=SPENT)
            limit, against = operations / peak_operations * seconds["peak"], "differing bits counted in registers"
            if not HAS_COUNT:  # three operations a word there, OPERATIONS_PER_WORD here, of the rate of FP32 products
                limit, against = limit * OPERATIONS_PER_WORD / 32, "vector operations"
            stream = w.words.nbytes / (2 * far.nbytes) * seconds["stream"]
            if batch == 1 and np.median(stream) > np.median(limit):
                against = "reading the weights from the last level"
                limit = np.maximum(limit, stream)
            rate = batch / float(np.median(seconds["ours"]))
            ratio = float(np.median(limit / seconds["ours"]))
            rows.append(row(f"binary FC {inputs}x{neurons} batch {batch}", rate, "FC/s", against, ratio, goal))
    return rows


def _two_threads(n: int = 1024) -> list[Row]:
    """Speed-up of two threads over one, of two: wall time, so only a quiet machine shows it."""
    if jit.pool_size() < 2:
        return []
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 256, (n, n)).astype(np.uint8), pack_s8(rng.integers(-128, 128, (n, n)).astype(np.int8))
    x, w = rng.standard_normal((n, n)).astype(np.float32), pack_f32(rng.standard_normal((n, n)).astype(np.float32))
    s32, f32 = np.empty((n, n), np.int32), np.empty((n, n), np.float32)
    products: dict[str, Callable[[int], object]] = {
        "u8s8->s32": lambda threads: gemm_s32(a, b, out=s32, threads=threads),
        "f32": lambda threads: gemm_f32(x, w, out=f32, threads=threads),
    }
    rows = []
    for name, product in products.items():
        calls: dict[str, Call] = {str(t): lambda p=product, t=t: p(t) for t in (1, 2)}
        seconds = interleaved(calls, clock=time.perf_counter, spend=SPENT)
        ratio = float(np.median(seconds["1"] / seconds["2"])) / 2
        rate = 2.0 * n**3 / float(np.median(seconds["2"]))
        rows.append(row(f"{name} {n}x{n}x{n}, 2 threads", rate, "OP/s", "twice one thread", ratio, 0.9))
    return rows


def rows() -> list[Row]:
    """All rows: ``name, value, unit, against, ratio, goal, met``."""
    with threadpool_limits(1, user_api="blas"):  # a second BLAS thread is timed by nobody and spins into what follows
        found = [row for shape in SHAPES for row in _dense(*shape)]
        return found + _two_threads() + _binary()
