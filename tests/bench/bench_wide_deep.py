"""Wide & Deep trained here: INT8 against FP32, both against other libraries, and what INT8 costs in accuracy.

Hash, gather, products, wide part and sigmoid are all timed; peers get ids that are hashed already. CPU seconds of the
calling thread, medians of interleaved rounds.
"""

from functools import partial
from statistics import median

import numpy as np

from engine.kernels.jit import isa
from engine.lab.numerics.criteo import clicks
from engine.lab.numerics.metrics import auc, log_loss
from engine.lab.numerics.wide_deep import prepare, train
from engine.lab.numerics.wide_deep_serving import SCHEMES, serve_fp32, serve_int8
from tests.bench import wide_deep_peers as peers
from tests.bench.timing import Call, Row, interleaved, row

ROWS, HELD_OUT, CALIBRATION = 200_000, 100_000, 5_000
BATCHES = (1, 8, 64, 512, 4096)
ROUNDS = 15


def rows() -> list[Row]:
    """Accuracy of both INT8 schemes, then speeds by batch."""
    model = train(clicks(ROWS, seed=0))
    calibration = prepare(clicks(CALIBRATION, seed=0), model.top)
    raw = clicks(HELD_OUT, seed=1)
    held = prepare(raw, model.top)
    fp32, int8 = serve_fp32(model), serve_int8(model, calibration, SCHEMES["INT8 as published"])
    exact = fp32(raw.ids, held.numbers)
    refined = serve_int8(model, calibration, SCHEMES["INT8 refined"])
    result = []
    right = ((exact > 0.5) == held.labels).mean()
    for name, server in (("as published", int8), ("refined", refined)):
        p = server(raw.ids, held.numbers, threads=1)
        lost = 100 * (right - ((p > 0.5) == held.labels).mean())
        what = f"Wide & Deep INT8 {name}, synthetic clicks"
        result.append(row(f"{what}: accuracy lost", lost, "%", "FP32", lost / 0.5, "< 0.5 %", bool(lost < 0.5)))
        worse = auc(held.labels, exact) - auc(held.labels, p)
        result.append(row(f"{what}: AUC", auc(held.labels, p), "", "FP32", 1 - worse))
        loss, before = log_loss(held.labels, p), log_loss(held.labels, exact)
        result.append(row(f"{what}: log loss", loss, "nat", "FP32", loss / before))
    same = all(
        np.array_equal(s(raw.ids[:999], held.numbers[:999], threads=1), s(raw.ids[:999], held.numbers[:999], threads=t))
        for s in (fp32, int8, refined)
        for t in (2, 3, 7)
    )
    result.append(
        row("Wide & Deep: bits equal on 1, 2, 3, 7 threads", float(same), "", "1 thread", float(same), "1", same)
    )
    flat = peers.flat_rows(held, model)
    others = {"onnxruntime fp32": peers.ort_fp32(model), "onnxruntime int8": peers.ort_int8(model, calibration)}
    for batch in BATCHES:
        calls: dict[str, Call] = {
            "fp32": partial(fp32, raw.ids[:batch], held.numbers[:batch], threads=1),
            "int8": partial(int8, raw.ids[:batch], held.numbers[:batch], threads=1),
        }
        for name, call in (others | peers.torch_peers(model, calibration, batch)).items():
            error = float(np.abs(call(flat[:batch], held.numbers[:batch]) - exact[:batch]).max())
            if error > (0.05 if "int8" in name else 1e-4):
                raise AssertionError(f"{name} is off by {error:.2g}: its time cannot be compared")
            calls[name] = partial(call, flat[:batch], held.numbers[:batch])
        took = interleaved(calls, ROUNDS)
        gain = float(np.median(took["fp32"] / took["int8"]))
        vnni = isa() == "avx512vnni"
        result.append(
            row(
                f"Wide & Deep batch {batch}: INT8 over FP32",
                batch / median(took["int8"]),
                "sample/s",
                "our FP32",
                gain,
                3.5 if vnni and batch >= 512 else None,
            )
        )
        for precision in ("fp32", "int8"):
            rivals = [name for name in took if name.endswith(f" {precision}")]
            best = min(rivals, key=lambda name: median(took[name]))
            ratio = float(np.median(took[best] / took[precision]))
            rate = batch / median(took[precision])
            result.append(
                row(
                    f"Wide & Deep {precision.upper()} batch {batch}",
                    rate,
                    "sample/s",
                    best,
                    ratio,
                    0.9 if batch >= 64 else None,
                )
            )
    return result
