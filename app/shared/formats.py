"""How numbers are written. The only module of the app that leaves SI; the others hand it SI and print what it returns.

Three significant digits, an SI prefix that keeps the mantissa in 1..999, one prefix for everything that is compared.
Unknown is an em dash, never 0. Scientific notation is never used.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeGuard
from urllib.parse import quote

import pandas as pd

from engine.scenario import sentences
from engine.scenario.files import inert
from engine.scenario.sentences import PREFIXES

counted = sentences.counted
UNKNOWN = "—"
MINUS = "−"
_WHOLE = ("B", "FLOP", "FLOP/B", "OP", "OP/B", "$", "QPS")  # units that are never divided further: 0.25 B, not 250 mB
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ADDRESS = re.compile(r"/(?=/)/|www\\?\.|@(?=\w)\w", re.IGNORECASE)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>$:~&^])")


@dataclass(frozen=True)
class Scale:
    """One prefix for a column, an axis or a comparison: ``number = si * factor``."""

    factor: float
    unit: str

    def __call__(self, value: float) -> float:
        """The number to plot or to put in a cell."""
        return value * self.factor

    def si(self, number: float) -> float:
        """The SI value of a number typed in this unit."""
        return number / self.factor

    def text(self, value: float | None) -> str:
        """The number with three digits, without its unit."""
        return UNKNOWN if value is None else digits3(value * self.factor)


MILLISECOND = Scale(1e3, "ms")
KILOBYTE = Scale(1e-3, "kB")
KILOMETRE = Scale(1e-3, "km")
THOUSAND = Scale(1e-3, "k")
MEGABIT = Scale(8e-6, "Mbit/s")  # of bytes a second, as the next
GIGABIT = Scale(8e-9, "Gbit/s")
PERCENT = Scale(100.0, "%")
FIXED = {scale.unit: scale for scale in (MILLISECOND, KILOBYTE, THOUSAND, PERCENT)}
"""Scales of columns whose unit is the same whatever they hold."""
WATT = Scale(1.0, "W")
DOLLAR = Scale(1.0, "$")


def _finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def round3(value: float) -> float:
    """A number to three significant digits."""
    return float(f"{value:.3g}")


def digits3(value: float | None) -> str:
    """Three significant digits, trailing zeros kept, thousands with a comma: 2.00, 13.8, 920, 1,340."""
    if not _finite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    size = round3(abs(value))
    decimals = max(0, 2 - math.floor(math.log10(size)))
    return (MINUS if value < 0 else "") + f"{size:,.{decimals}f}"


def digits4(value: float) -> str:
    """A figure as papers print it, for comparison: four significant digits, 1,210,949 in full; no prefix.

    Below a ten-thousandth, digits behind that many zeros are counted by nobody: `<0.0001`.
    """
    if not _finite(value):
        return UNKNOWN
    size = abs(value)
    if 0 < size < 1e-4:
        return f">{MINUS}0.0001" if value < 0 else "<0.0001"
    return (MINUS if value < 0 else "") + (_without_zeros(size, 4) if 0 < size < 1000 else f"{size:,.0f}")


def decimal(value: float) -> str:
    """A number as it is typed: six significant digits, thousands with a comma, all zeros of a small one; 0.000001."""
    if value == 0 or not _finite(value):
        return digits3(value)
    return ("-" if value < 0 else "") + _without_zeros(float(f"{abs(value):.6g}"), 6)


def _without_zeros(size: float, digits: int) -> str:
    """A positive number to so many significant digits, thousands with a comma, without trailing zeros."""
    text = f"{size:,.{max(0, digits - 1 - math.floor(math.log10(size)))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def cells(values: Iterable[float | None]) -> str | None:
    """Format of a table's column of numbers: three digits of the largest, one more where the smallest has fewer, more
    where it would be lost; "localized" for whole numbers.

    None where the range is too wide for any number of decimals: each number is then written by `digits3`, as no format
    of the browser keeps a trailing zero of three digits.
    """
    sizes = sorted(abs(v) for v in values if _finite(v) and v)
    if not sizes:
        return "localized"
    low, high = (math.floor(math.log10(round3(size))) for size in (sizes[0], sizes[-1]))
    whole = all(size == round(size) for size in sizes)
    fine = 1 - low if low < 0 else min(2 - low, max(3 - high, 1 - low))
    decimals = max(2 - high, 0 if whole or (low >= 0 and high > 3) else fine)
    if decimals <= 0 and (whole or high <= 3):
        return "localized" if whole else "%.0f"
    return f"%.{decimals}f" if decimals > 0 and high + decimals <= 3 else None


def _exponent(value: float, unit: str) -> int:
    """Power of ten, a multiple of three, that leaves the rounded value a mantissa in 1..999."""
    size = round3(abs(value))
    if size == 0 or not math.isfinite(size):
        return 0
    exponent = 3 * math.floor(math.log10(size) / 3 + 1e-12)
    if size >= 10.0 ** (exponent + 3):  # log10 rounds down just below a power of ten
        exponent += 3
    low = 0 if unit.removesuffix("/s") in _WHOLE else min(PREFIXES)
    if exponent == -3 and is_count(unit):
        return 0  # 0.404 tok/J reads better than 404 m tok/J
    high = 0 if unit == "s" else max(PREFIXES)
    return min(max(exponent, low), high)


def is_count(unit: str) -> bool:
    """Whether a unit is a thing that is counted (tok, samples, nothing at all) rather than one of the SI."""
    head = unit.split("/", maxsplit=1)[0]
    return head not in ("s", "B", "b", "W", "J", "Hz", "FLOP", "OP")


def scale(values: Iterable[float | None], unit: str) -> Scale:
    """The prefix that suits the largest of some SI values; words keep it with the number: `1.21 M samples/s`."""
    exponent = _exponent(max((abs(v) for v in values if _finite(v)), default=0.0), unit)
    prefix = PREFIXES[exponent]
    between = " " if is_count(unit) else ""
    return Scale(10.0**-exponent, (f"$ {prefix}" if unit == "$" else f"{prefix}{between}{unit}").strip())


def si(value: float | None, unit: str = "") -> str:
    """`13.8 ms`, `920 GB/s`, `72.7 tok/s`: value, space, prefixed unit. Unknown is an em dash."""
    if not _finite(value):
        return UNKNOWN
    unit_scale = scale([value], unit)
    return f"{unit_scale.text(value)} {unit_scale.unit}".rstrip()


def seconds(value: float | None) -> str:
    """A time: ns, µs, ms or s, three digits."""
    return si(value, "s")


def percent(ratio: float | None) -> str:
    """`54%`; a share that is there but below 1% is `<1%`."""
    if not _finite(ratio):
        return UNKNOWN
    if 0 < abs(ratio) < 0.01:
        return "<1%"
    return f"{ratio * 100:,.0f}%".replace("-", MINUS)


def times(ratio: float | None) -> str:
    """`3.48×`; ratios below 0.01 as `1/120`."""
    if not _finite(ratio) or ratio < 0:
        return UNKNOWN
    if 0 < ratio < 0.01:
        return f"1/{count(1 / ratio)}"
    return f"{digits3(ratio)}×"


def count(value: float | None) -> str:
    """`9,024` exactly below 10,000, then `1.05 M`; a count that is not whole keeps three digits."""
    if not _finite(value):
        return UNKNOWN
    if abs(value) < 10_000 and float(value).is_integer():
        return f"{int(value):,}".replace("-", MINUS)
    return si(value) if abs(value) >= 1 else digits3(value)


def parameters(value: float) -> str:
    """`11.7 B`: thousand million parameters are billions to everybody who counts them."""
    return count(value).replace(" G", " B")


def usd(value: float | None) -> str:
    """`$31.1 k`, `$0.120`."""
    if not _finite(value):
        return UNKNOWN
    return (MINUS if value < 0 else "") + sentences.usd(abs(value))


def work(format: str) -> str:
    """Unit of arithmetic in a number format: integers and bits are no floating point. `OP` or `FLOP`."""
    return "OP" if format.startswith(("int", "binary")) else "FLOP"


def band(relative: float | None) -> str:
    """`±5%`, or `unvalidated` where nothing published was compared."""
    if not _finite(relative):
        return "unvalidated"
    return "±<1%" if relative < 0.01 else f"±{percent(relative)}"


def of(part: float, whole: float, unit: str = "B") -> str:
    """`3.11 of 8.00 GB`, or `3.11 > 2.00 GB` where the part is larger; one prefix for both."""
    common = scale([part, whole], unit)
    if part and whole and max(part, whole) / max(min(part, whole), 1e-300) > 100:
        return f"{si(part, unit)} {'>' if part > whole else 'of'} {si(whole, unit)}"
    return f"{common.text(part)} {'>' if part > whole else 'of'} {common.text(whole)} {common.unit}"


def ratio_text(value: float | None, baseline: float | None, above: str, below: str) -> str | None:
    """`3.48× more`, `12% less`, `same`: a value against a baseline, in words; None where either is unknown."""
    if value is None or baseline is None or not (value > 0 and baseline > 0):
        return None
    ratio = value / baseline
    if not math.isfinite(ratio) or ratio == 0:
        return None
    word = above if ratio > 1 else below
    big = max(ratio, 1 / ratio)
    if big < 1.005:
        return "same"
    if big < 1.5:
        return f"{abs(ratio - 1) * 100:.0f}% {word}"
    return f"{digits3(big)}× {word}" if big < 10_000 else f"{count(big)}× {word}"


def deviation(relative: float | None) -> str:
    """A signed error: `+3.2%`, `−11%`."""
    if not _finite(relative):
        return UNKNOWN
    percentage = relative * 100
    digits = f"{abs(percentage):,.1f}" if abs(percentage) < 10 else f"{abs(percentage):,.0f}"
    return ("+" if percentage >= 0 else MINUS) + digits + "%"


def words(parts: Sequence[str], limit: int = 80) -> tuple[str, tuple[str, ...]]:
    """Parts joined by ` · ` up to `limit` characters, and the parts that were left out."""
    head: list[str] = []
    for at, part in enumerate(parts):
        if head and len(" · ".join([*head, part])) > limit:
            return " · ".join(head), tuple(parts[at:])
        head.append(part)
    return " · ".join(head), ()


def plain(text: str) -> str:
    """Text that a Markdown renderer shows as it is: no links, images, directives or formulas from somebody's URL.

    An address is broken with a word joiner, because renderers link even escaped ones.
    """
    safe = _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
    return _ADDRESS.sub(lambda match: match[0][:-1] + "\u2060" + match[0][-1], safe)


def sentence(text: object) -> str:
    """A text or an error as a sentence: with a capital and one full stop."""
    words = str(text).rstrip(".")
    return f"{words[:1].upper()}{words[1:]}."


def prose(text: str) -> str:
    """A text of somebody's notes without the marks of a program: `38.7e9` as 38.7 × 10⁹, `fb_node` as fb node."""
    power = r"\b(\d[\d.]*)e([+-]?\d+)\b"
    return re.sub(power, lambda m: f"{m[1]} × 10{str(int(m[2])).translate(_SUPERSCRIPT)}", text).replace("_", " ")


def web_link(text: str, address: str | None) -> str:
    """Text as a link to an address of the web; as plain text where there is none, or it is of another kind.

    The address is escaped whole, so that nothing in it ends the link.
    """
    if address is None or not re.match(r"https?://[^\s/]", address):
        return plain("; ".join(part for part in (text, address) if part))
    return f"[{plain(text)}]({quote(address, safe=':/?#@!$&*+,;=%~')})"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV of some rows; columns in the order they first appear, cells safe to open in a spreadsheet."""
    table = pd.DataFrame([{inert(k): inert(v) for k, v in row.items()} for row in rows], dtype=object)
    return table.to_csv(index=False, lineterminator="\n")


def file_text(kind: str, content: Any) -> str:
    """What a file of a kind holds: a text as it is, rows as CSV, anything else as JSON."""
    if isinstance(content, str):
        return content
    return csv_text(content) if kind == "csv" else json.dumps(content, indent=1, default=str)


def file_name(page: str, parts: Sequence[str], kind: str, day: date) -> str:
    """`inferscape_<page>_<parts>_<yyyymmdd>.<kind>`: lower case, safe everywhere, at most 80 characters."""
    middle = "_".join(re.sub(r"[^a-z0-9-]+", "-", part.lower()).strip("-") for part in (page, *parts))
    tail = f"_{day:%Y%m%d}.{kind}"
    return f"inferscape_{middle}"[: 80 - len(tail)].rstrip("_-") + tail
