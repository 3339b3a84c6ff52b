"""The price of one answer: a warm evaluation, the import, and the first number."""

import subprocess
import sys
import time

from engine.evaluate import evaluate
from engine.resolve.presets import preset
from tests.bench.timing import Row, row


def _seconds(code: str) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        best = min(best, time.perf_counter() - start)
    return best


def rows() -> list[Row]:
    """Warm evaluate of a decoder, `import engine`, and the first number from a warm cache, against their budgets."""
    scenario = preset("dfx-345m").scenario
    evaluate(scenario)
    times = []
    for _ in range(100):
        start = time.perf_counter()
        evaluate(scenario)
        times.append(time.perf_counter() - start)
    warm = sorted(times)[50]
    empty = _seconds("pass")
    imported = _seconds("import engine") - empty
    code = "from engine import evaluate, preset; evaluate(preset('dfx-345m').scenario)"
    first = _seconds(code)
    result = []
    for name, value, budget in (
        ("evaluate, 24-layer transformer, warm", warm, 5e-3),
        ("import engine", imported, 1.0),
        ("first number from a warm cache", first, 2.0),
    ):
        result.append(row(name, value, "s", f"budget of {budget} s", value / budget, "<= 1", value <= budget))
    return result
