"""Number formats as the cost model sees them: stored bits per element."""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["BITS", "LABELS", "bytes_of"]

BITS = MappingProxyType(
    {
        "fp64": 64.0,
        "fp32": 32.0,
        "tf32": 32.0,
        "bf16": 16.0,
        "fp16": 16.0,
        "fp8": 8.0,
        "fp4": 4.0,
        "int8": 8.0,
        "int4": 4.0,
        "ms-fp9": 9.0,
        "ms-fp8": 8.0,
        "binary": 1.0,
    }
)
"""Stored bits of one element; a device that shares exponents over a block stores fewer and says so itself."""

LABELS = MappingProxyType(
    {name: name.upper() if not name.startswith("ms") else name for name in BITS} | {"binary": "Binary"}
)


def bytes_of(format: str, elements: float = 1.0) -> float:
    """Bytes of ``elements`` in ``format``. [B]"""
    return elements * BITS[format] / 8
