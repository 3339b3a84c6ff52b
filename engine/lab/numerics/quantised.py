"""Layers that really run in a format: products and lookups by this engine's kernels, in INT8, FP16, BF16 or FP32.

INT8 products take weights with one scale a filter and unsigned activations with one scale and zero point, whose range
was observed beforehand (static) or is that of the batch (dynamic); sums are exact in 32 bits. What leaves a layer is
float32.
"""

from functools import cached_property

import numpy as np

from engine.lab.operators.embedding import RowTable, embedding_bag, pack_rows
from engine.lab.operators.gemm import Packed, gemm_bf16, gemm_f32, gemm_s32, pack_bf16, pack_f32, pack_s8, rounded_bits
from engine.lab.operators.quantise import quantise
from engine.numerics.formats import NumericsError

LAYER_FORMATS = ("int8", "bf16", "fp16", "fp32")
TABLE_FORMATS = ("int4", "int8", "fp16", "fp32")
_CODES = 255


def _halved(values: np.ndarray) -> np.ndarray:
    return rounded_bits(values, "fp16").view(np.float16).astype(np.float32)


class QuantisedLayer:
    """A product with stored weights ``[inputs, outputs]`` and a bias, runnable in every format of `LAYER_FORMATS`."""

    def __init__(self, weight: np.ndarray, bias: np.ndarray) -> None:
        self.weight = np.ascontiguousarray(weight, np.float32)
        self.bias = np.ascontiguousarray(bias, np.float32)
        self.limits: tuple[float, float] | None = None  # of its inputs; None: those of each batch

    def observe(self, x: np.ndarray) -> None:
        """Fixes the range of the inputs to what `x` holds (static quantisation)."""
        self.limits = (min(0.0, float(x.min())), max(0.0, float(x.max())))

    @cached_property
    def _eight(self) -> tuple[Packed, np.ndarray]:
        scale = np.abs(self.weight).max(axis=0) / 127
        scale[scale == 0] = 1
        codes = np.clip(np.rint(self.weight / scale), -127, 127).astype(np.int8)
        return pack_s8(codes), scale.astype(np.float32)

    @cached_property
    def _wide(self) -> dict[str, Packed]:
        return {
            "fp32": pack_f32(self.weight),
            "fp16": pack_f32(_halved(self.weight)),
            "bf16": pack_bf16(self.weight),
        }

    def run(self, x: np.ndarray, format: str) -> np.ndarray:
        """``x @ weight + bias`` as the format computes it; float32 [rows, inputs] -> float32 [rows, outputs].

        NumericsError for an unknown format.
        """
        x = np.ascontiguousarray(x, np.float32)
        if format == "fp32":
            return gemm_f32(x, self._wide["fp32"], self.bias)
        if format == "fp16":
            return _halved(gemm_f32(_halved(x), self._wide["fp16"], self.bias))  # float32 sums, rounded once
        if format == "bf16":
            return gemm_bf16(rounded_bits(x, "bf16"), self._wide["bf16"], self.bias)
        if format != "int8":
            raise NumericsError(f"format is {format!r}; allowed: {', '.join(LAYER_FORMATS)}")
        low, high = self.limits or (min(0.0, float(x.min())), max(0.0, float(x.max())))
        step = np.float32((high - low) / _CODES if high > low else 1.0)
        zero = round(-low / float(step))
        packed, scale = self._eight
        codes = quantise(x, float(step), zero, dtype=np.uint8)
        sums = gemm_s32(codes, packed, zero)
        return sums * (step * scale) + self.bias


class QuantisedTables:
    """Embedding tables ``[tables, rows, width]`` whose looked-up rows are summed, each in one of `TABLE_FORMATS`."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = np.ascontiguousarray(values, np.float32)
        self._stored: dict[tuple[int, str], RowTable] = {}

    def bags(self, table: int, indices: np.ndarray, format: str) -> np.ndarray:
        """Sums of rows of one table: int64 ``[items, lookups]`` -> float32 ``[items, width]``.

        NumericsError for an unknown format.
        """
        if format not in TABLE_FORMATS:
            raise NumericsError(f"format is {format!r}; allowed: {', '.join(TABLE_FORMATS)}")
        if (table, format) not in self._stored:
            self._stored[table, format] = pack_rows(self.values[table], format)
        items, lookups = indices.shape
        offsets = np.arange(0, items * lookups + 1, lookups, dtype=np.int64)
        return embedding_bag(self._stored[table, format], np.ascontiguousarray(indices.reshape(-1)), offsets)
