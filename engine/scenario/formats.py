"""Number formats as the cost model sees them: stored bits per element."""

from types import MappingProxyType

BITS = MappingProxyType(
    {
        "fp64": 64.0,
        "fp32": 32.0,
        "tf32": 32.0,
        "bf16": 16.0,
        "fp16": 16.0,
        "fp8": 8.0,
        "fp4": 4.0,
        "w8a16": 8.5,
        "w4a16": 4.5,
        "int8": 8.0,
        "int4": 4.0,
        "ms-fp11": 11.0,
        "ms-fp10": 10.0,
        "ms-fp9": 9.0,
        "ms-fp8": 8.0,
        "binary": 1.0,
    }
)
"""Stored bits of one weight; a device that shares exponents over a block stores fewer and says so itself."""

WEIGHT_ONLY = frozenset({"w8a16", "w4a16"})
"""Formats of weights alone: groups of 32 share a 16-bit scale; activations, state and arithmetic stay 16-bit."""

LABELS = MappingProxyType({name: name.upper() for name in BITS} | {"binary": "Binary"})


def activation_bytes(format: str) -> float:
    """Bytes of one activation where it is stored or sent: whole bytes. [B]"""
    return 2.0 if format in WEIGHT_ONLY else max(BITS[format], 8.0) / 8
