"""Numbers and sentences for people: three digits, an SI prefix, a unit. Used by verdicts and by the command line."""

import math
import re

_MEMORIES = re.compile(r"(lp|g)?ddr\d*x?|hbm\w*|l\d|llc|[a-z]{1,2}ram|m20k|[ei]mem|ctm|cls|tcm")
PREFIXES = {18: "E", 15: "P", 12: "T", 9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "µ", -9: "n", -12: "p", -15: "f"}
"""Of SI, by the power of ten, the largest first."""
_FACTORS = tuple((10.0**power, prefix) for power, prefix in PREFIXES.items())


def digits(value: float) -> str:
    """Three significant digits, trailing zeros kept, for 1 <= |value| < 1000."""
    if value == 0:
        return "0"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 1
    return f"{value:.{max(0, 3 - whole)}f}"


def amount(value: float, unit: str) -> str:
    """``amount(0.0138, "s")`` is ``13.8 ms``."""
    if not math.isfinite(value):
        return f"no finite {unit}"
    for factor, prefix in _FACTORS if abs(value) < 1e21 else ():
        if abs(value) >= 0.9995 * factor:
            return f"{digits(value / factor)} {prefix}{unit}"
    if value == 0 or abs(value) >= 1e21:
        return f"{value:.3g} {unit}"
    return f"{digits(value / 1e-15)} f{unit}"


def usd(value: float) -> str:
    """A price of three digits: ``$3.90``, ``$0.00825``, ``$31.2 k``."""
    size = float(f"{value:.3g}")
    if size >= 1:
        return f"${amount(size, '').strip()}"
    return f"${size:.{2 - math.floor(math.log10(size))}f}" if size else "$0"


def cost_unit(unit: str) -> str:
    """What money and energy of a report's unit are of: output tokens of a decoder, the reading of inputs included."""
    return "output token" if unit == "token" else unit


def counted(count: float, noun: str) -> str:
    """A whole number of things: ``counted(1, "system")`` is ``1 system``, of 1,024 ``1,024 systems``."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,.0f} {noun}{ending}"


def bytes_(need: float, capacity: float) -> tuple[str, str]:
    """Demand and capacity with one shared prefix, as numbers and the unit: ``("3.11 of 8.00", "GB")``."""
    if 0 < need < 0.005 * capacity or need >= 1000 * capacity:  # one prefix would print zeros or a row of digits
        number, unit = amount(capacity, "B").rsplit(" ", 1)
        return f"{amount(need, 'B')} of {number}", unit
    for factor, prefix in _FACTORS:
        if capacity >= factor:
            return f"{need / factor:.2f} of {capacity / factor:.2f}", f"{prefix}B"
    return f"{need:.0f} of {capacity:.0f}", "B"


def level_name(name: str) -> str:
    """A memory level as people write it: acronyms in capitals, words as they are: `GDDR6X`, `EMEM-cache`."""
    return re.sub(r"[a-z0-9]+", lambda word: word[0].upper() if _MEMORIES.fullmatch(word[0]) else word[0], name)


def percent(share: float) -> str:
    """``54%``; below one percent ``<1%``."""
    return "<1%" if 0 < share < 0.01 else f"{100 * share:.0f}%"
