"""How every command answers: JSON with SI units in its keys, or lines for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

__all__ = ["emit"]


def emit(data: Any, as_json: bool, lines: Iterable[str]) -> int:
    """Writes one of the two to stdout and returns exit code 0; a number that is not finite is refused in JSON."""
    if as_json:
        json.dump(data, sys.stdout, indent=1, allow_nan=False)
        sys.stdout.write("\n")
    else:
        sys.stdout.write("\n".join(lines) + "\n")
    return 0
