"""The perceptron trained here on handwritten digits: one bit against FP32 on this host, rate and accuracy of both.

FP32 products are numpy's and this project's, the faster counts; the binary ones work on packed bits, and packing the
inputs counts. CPU seconds of the
calling thread with the libraries held to one, medians of interleaved rounds.
"""

from __future__ import annotations

from functools import partial
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from engine.lab.numerics.binary_mlp import digits, float_classes, thermometer, train_binary, train_float
from engine.lab.operators.gemm import Packed, gemm_f32, pack_f32
from tests.bench.timing import Call, Row, interleaved, row

HIDDEN = (512, 512)
BATCHES = (1, 64, 449)


def _packed_classes(layers: list[tuple[Packed, np.ndarray]], values: np.ndarray) -> np.ndarray:
    for at, (weights, bias) in enumerate(layers):
        values = gemm_f32(values, weights, bias, relu=at < len(layers) - 1, threads=1)
    return values.argmax(axis=1)


def rows() -> list[Row]:
    """Accuracy of both, then images a second by batch."""
    images = digits()
    train, test = ((x / 16).astype(np.float32) for x in (images.train, images.test))
    layers = train_float(train, images.train_labels, HIDDEN)
    binary = train_binary(thermometer(images.train), images.train_labels, HIDDEN)
    packed = [(pack_f32(np.ascontiguousarray(w)), b) for w, b in layers]
    bits = thermometer(images.test)
    if not np.array_equal(_packed_classes(packed, test), float_classes(layers, test)):
        raise AssertionError("both FP32 forms must answer alike: their times could not be compared")
    plain, low = (
        100 * float((result == images.test_labels).mean())
        for result in (float_classes(layers, test), binary.classes(bits))
    )
    name = f"digits, {len(test)} held out: binary perceptron's accuracy"
    result = [row(name, low, "%", f"FP32, {plain:.2f} %", low / plain)]
    with threadpool_limits(1):
        for batch in BATCHES:
            calls: dict[str, Call] = {
                "numpy": partial(float_classes, layers, test[:batch]),
                "our": partial(_packed_classes, packed, test[:batch]),
                "binary": partial(binary.classes, bits[:batch], threads=1),
            }
            took = interleaved(calls, 15)
            best = min(("numpy", "our"), key=lambda name: median(took[name]))
            gain = median(f / b for f, b in zip(took[best], took["binary"], strict=True))
            fast = batch / median(took[best])
            rate, against = batch / median(took["binary"]), f"{best} FP32, {fast:,.0f} image/s"
            result.append(row(f"digits, binary perceptron batch {batch}", rate, "image/s", against, gain))
    return result
