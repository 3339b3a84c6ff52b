"""How every command answers: JSON with SI units in its keys, or lines for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from engine.scenario import ScenarioError


def emit(data: Any, as_json: bool, lines: Iterable[str]) -> int:
    """Writes one of the two to stdout and returns exit code 0; a number that is not finite is refused in JSON."""
    if not as_json:
        sys.stdout.write("\n".join(lines) + "\n")
        return 0
    try:
        text = json.dumps(data, indent=1, allow_nan=False)
    except ValueError:
        raise ScenarioError("a figure of this answer is not finite, which JSON can't hold") from None
    sys.stdout.write(text + "\n")
    return 0
