"""A machine's facts for its tab: units, memory levels with what lies in each, clock and power, fabric, links, cost.

Numbers are the catalog's, with the scenario's what-ifs applied, and the report's. Pure.
"""

import re
from collections.abc import Sequence

import pandas as pd

from app.shared import formats as fmt
from app.shared import glossary, specs
from app.shared.figures.style import level_name
from engine.cost.report import Report
from engine.cost.rows import MemoryRow
from engine.published.nearest import TITLES
from engine.resolve.bound import Bound
from engine.scenario.sentences import cost_unit

GROUPS = ("Units and rates", "Clock and power", "Memory, in detail", "Fabric")
"""Parts of a spec, in the order of the tab; price and plain capacity stand elsewhere."""


def sentence(bound: Bound) -> str:
    """What the machine is, in a line."""
    device = bound.device
    title = bound.family.title
    title = title[0].lower() + title[1:] if title[1].islower() else title
    count, names = bound.scenario.devices, ", ".join(part.name for part in bound.devices)
    prefix = f"{count} × " if count > 1 else ""
    lines = [f"**{fmt.plain(prefix + names)}**, {fmt.plain(title)}"]
    if peak := device.peak:  # at the scenario's format, else at the fastest the part has
        precision = bound.scenario.precision
        format = precision if precision in peak else max(peak, key=lambda name: peak[name].si)
        rate = fmt.si(peak[format].si, f"{fmt.work(format)}/s")
        lines.append(f"{rate} dense at {glossary.format_label(format)}")
    first = next((level for level in device.memory if level.bandwidth is not None), None)
    if first is not None and first.bandwidth is not None:
        lines.append(
            f"{level_name(first.name)} of {fmt.si(first.capacity.si, 'B')} at {fmt.si(first.bandwidth.si, 'B/s')}"
        )
    watts = device.power.loaded or device.power.max
    if watts is not None:
        lines.append(f"{fmt.si(watts.si, 'W')} {'loaded' if device.power.loaded else 'at most'}")
    return "; ".join(lines) + (" per device." if count > 1 else ".")


def memory(bound: Bound, report: Report | None) -> pd.DataFrame:
    """Levels of each device: capacity, bandwidth, and the bytes that lie there now."""
    memory = report.memory if report is not None else ()
    rows = []
    for device in bound.devices:
        usage = [row for row in memory if row.device == device.name] or [r for r in memory if device.name in r.device]
        by_level: dict[str, list[MemoryRow]] = {}
        for row in usage:
            by_level.setdefault(row.level, []).append(row)
        for level in device.memory:
            name = level_name(level.name) + (", each core" if level.per == "core" else "")
            rate = level.bandwidth.si if level.bandwidth else None
            rows.append((device.name, name, level.capacity.si, rate, by_level.pop(level.name, [])))
        for name, here in by_level.items():
            rows.append((device.name, level_name(name), here[0].capacity_bytes, None, here))
    return pd.DataFrame(
        {
            "Level": name,
            "Of": device,
            "Capacity": fmt.si(capacity, "B"),
            "Bandwidth": fmt.si(rate, "B/s") if rate else fmt.UNKNOWN,
            "In use": ", ".join(fmt.si(r.need_bytes, "B") for r in here) or fmt.UNKNOWN,
            "Full (%)": max((100 * r.need_bytes / r.capacity_bytes for r in here), default=None),
            "Holds": "; ".join(dict.fromkeys(r.holds for r in here)) or fmt.UNKNOWN,
        }
        for device, name, capacity, rate, here in rows
    )


def _group(path: str) -> str | None:
    """Where a number of a spec stands on the tab."""
    head = path.split(".", 1)[0]
    if head in ("launched", "price"):
        return None
    if head == "power" or "clock" in path:
        return "Clock and power"
    if head == "fpga":
        return "Fabric"
    if head == "memory":
        return None if path.endswith((".capacity", ".bandwidth")) else "Memory, in detail"
    return "Units and rates"


_LABELS = {"dfx.d": "Tile dimension d", "dfx.l": "Lanes l", "fpga.bram36": "BRAM", "fpga.used.bram36": "BRAM used"}
_HEADS = {"depths ": "Latency, ", "mac per cycle ": "MACs per cycle, ", "flop per cycle ": "FLOP per cycle, "}


def _quantity(row: specs.SpecNumber) -> str:
    """A number of a spec as people write it: `LUT used`, `Latency, fp-add`, `MACs per cycle, INT8`."""
    if row.path in _LABELS:
        return _LABELS[row.path]
    head, _, tail = row.path.partition(".")
    if head == "fpga":
        return f"{tail.removeprefix('used.').upper()}{' used' if tail.startswith('used.') else ''}"
    whole = head in ("peak", "peak_low", "sparse_peak", "memory", "power")
    label = row.label if whole else row.label.partition(" ")[2] or row.label
    for start, words in _HEADS.items():
        if label.startswith(start):
            return words + glossary.format_label(label.removeprefix(start))
    return glossary.tidy(label)


def _value(text: str) -> str:
    """A value as printed, with commas, and four digits of one that was divided: `1,303,680`, `457.8 MHz`."""
    text = re.sub(r"\bus\b", "µs", text)
    text = re.sub(r"\d+\.\d{4,}", lambda m: f"{float(m[0]):.4g}", text)
    return fmt.prose(re.sub(r"(?<![\w.-])\d{4,}(?![\d.])", lambda m: f"{int(m[0]):,}", text))


def groups(bound: Bound) -> dict[str, pd.DataFrame]:
    """Numbers of the first device's spec by group, with what stands behind each; groups without any are left out."""
    numbers = specs.quantities(bound.device)
    rows = {name: [row for row in numbers if _group(row.path) == name] for name in GROUPS}
    return {
        name: pd.DataFrame(
            {
                "Quantity": [_quantity(row) for row in values],
                "Value": [_value(row.text) for row in values],
                "Evidence": [row.basis for row in values],
                "Where": [  # a document by its name: `section VI (DFX appliance)`
                    fmt.prose(re.sub(r"\bseed(\d{3})\b", lambda m: TITLES.get(m[1], m[0]), row.where)) for row in values
                ],
            }
        )
        for name, values in rows.items()
        if values
    }


def links(bound: Bound, report: Report | None) -> pd.DataFrame:
    """Wires of the system: what each carries, and how busy the scenario keeps it."""
    busy = {row.name: row for row in report.links} if report is not None else {}
    wires = bound.wires
    shares = [busy.get(wire.link.name) for wire in wires]
    return pd.DataFrame(
        {
            "Link": [wire.link.name for wire in wires],
            "Between": [glossary.BETWEEN[wire.role] for wire in wires],
            "Bandwidth": [fmt.si(wire.link.bandwidth.si, "B/s") for wire in wires],
            "Latency": [fmt.seconds(wire.link.latency.si) for wire in wires],
            "Per request": [fmt.si(row.bytes_per_request, "B") if row else fmt.UNKNOWN for row in shares],
            "Busy": [fmt.percent(row.utilisation) if row else fmt.UNKNOWN for row in shares],
        }
    )


def money(bound: Bound, report: Report | None) -> Sequence[tuple[str, str]]:
    """What the machine costs: a label and a value each; a dash where nobody publishes it."""
    price = bound.device.price
    rows = [("Price per device", fmt.usd(price.si if price else None))]
    if report is not None:
        rows += [
            ("Capital cost", fmt.usd(report.capex_usd)),
            ("Power", fmt.si(report.power_w, "W")),
            (f"$ per million {cost_unit(report.unit)}s", fmt.usd(report.usd_per_million)),
        ]
    return rows
