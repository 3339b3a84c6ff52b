"""Number formats as the cost model sees them: stored bits per element."""

from pathlib import Path
from types import MappingProxyType

from entries.files import load_yaml

BITS = MappingProxyType(load_yaml(Path(__file__).with_name("bits.yaml").read_bytes()))
"""Stored bits of one weight; a device that shares exponents over a block stores fewer and says so itself."""

WEIGHT_ONLY = frozenset({"w8a16", "w4a16"})
"""Formats of weights alone: groups of 32 share a 16-bit scale; activations, state and arithmetic stay 16-bit."""

LABELS = MappingProxyType({name: name.upper() for name in BITS} | {"binary": "Binary"})


def activation_bytes(format: str) -> float:
    """Bytes of one activation where it is stored or sent: whole bytes. [B]"""
    return 2.0 if format in WEIGHT_ONLY else max(BITS[format], 8.0) / 8
