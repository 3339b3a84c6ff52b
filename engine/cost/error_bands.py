"""Error bands: how far a measurement may lie from a prediction, by conformal prediction, or that nobody knows.

A band belongs to a cell: a device family, a kind of work, and a regime (batch 1 or larger; bound by compute, by memory
or by latency). The file it is read from is written by `python -m tests.tools.published`.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from engine.devices import family
from engine.devices.common.cached import remembered
from engine.scenario import Scenario
from engine.scenario.sentences import percent
from hardware_specs.schema import Device
from model_zoo.ops import Graph

FILE = Path(__file__).resolve().parent / "bands.json"
MIN_SOURCES = 5  # independent sources below which there is no evidence
LONG = 16384  # tokens of prompt and answer from which a context is long
MATTERS = 0.01  # relative change of latency or rate from which what-ifs matter
_FAR = math.log(2.0)  # of what-ifs: beyond it the part is another one
_NARROW = {"fp8": "FP8", "fp4": "FP4"}
_BOUNDS = {"compute": "compute", "offchip": "memory", "onchip": "memory"}


BANDED = ("latency_s", "ttft_s", "tpot_s", "throughput_per_s")
"""Figures that an error band stands around."""


@dataclass(frozen=True)
class ErrorBand:
    """A 90% interval by conformal prediction around times and rates, or the fact that there is no evidence for one."""

    relative: float | None  # |predicted / measured - 1| is at most this [-]
    label: str  # validated | recalled | no evidence
    count: int  # residuals of the cell
    recalled: int = 0  # of them, results printed elsewhere that no document was retrieved for
    sources: int = 0  # independent ones: one publication's measurements of one part
    publications: int = 0  # that those are from
    seen: int = 0  # of the residuals, those in view when constants or facts that they take were chosen
    held: int = 0  # of `tested` residuals, those inside of a band that was found without their source
    tested: int = 0
    cell: str = ""  # family | kind of work | regime
    why: str = ""  # there is none, or it is wider, in a few words

    def around(self, value: float) -> tuple[float | None, float | None]:
        """Ends of the band around a prediction, as many times below as above, in its unit; None for none. [-]"""
        return (None, None) if self.relative is None else (value / (1.0 + self.relative), value * (1.0 + self.relative))

    def ends(self, figures: Mapping[str, float | None]) -> dict[str, float | None]:
        """Ends around times and rates by name: ``latency_s`` -> ``latency_low_s`` and ``latency_high_s``. [s], [1/s]"""
        result: dict[str, float | None] = {}
        for name, value in figures.items():
            unit = "per_s" if name.endswith("_per_s") else name.rpartition("_")[2]
            stem = name.removesuffix(f"_{unit}")
            low, high = (None, None) if value is None else self.around(value)
            result |= {f"{stem}_low_{unit}": low, f"{stem}_high_{unit}": high}
        return result

    def beside(self, figures: Mapping[str, float | None]) -> dict[str, Any]:
        """The band as data, and its ends around figures: what stands beside a prediction in JSON. [s], [1/s]"""
        return {"error_band": asdict(self), **self.ends(figures)}

    def holds(self, error: float) -> bool:
        """Whether a measurement lies in the band, by the prediction's error: predicted / measured - 1. [-]"""
        return self.relative is not None and 1.0 / (1.0 + self.relative) <= 1.0 + error <= 1.0 + self.relative


NO_BAND = ErrorBand(None, "no evidence", 0)
"""Of what can't be predicted."""


@cache
def _bands() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def multi_device(scenario: Scenario) -> bool:
    """Whether devices work on one request together."""
    return scenario.scheme not in ("single", "replicas") and scenario.devices > 1


@remembered(id)
def _mixture(graph: Graph) -> bool:
    """Whether a network has experts."""
    return any(name == "experts" for op in graph.ops for name, _ in op.attributes)


_CAPTURED = (None, "captured", "trtllm", "vllm", "sglang")


def _kind(scenario: Scenario, network: str, graph: Graph) -> str:
    """The kind of network, and what makes a request a kind of its own beside it."""
    mixture = _mixture(graph)
    long = graph.causal and scenario.inputs + scenario.outputs > LONG
    runtime = scenario.runtime
    if runtime is None and scenario.switches.get("graph") is False:
        runtime = "compiled" if scenario.switches.get("fuse") else "eager"
    traits = ("mixture of experts", mixture), (_NARROW.get(scenario.precision, ""), scenario.precision in _NARROW)
    launch = runtime or "", runtime not in _CAPTURED  # a captured graph is what a GPU does unless told
    return ", ".join([network, *(word for word, is_so in (*traits, ("long context", long), launch) if is_so)])


def cell_of(device: Device, scenario: Scenario, network: str, graph: Graph, limit: str) -> str:
    """The cell of a request on a device: family, kind of work, regime.

    ``network``: its kind, a family of `model_zoo`. ``limit``: of `RESOURCES`, what most of its time is spent on.
    """
    regime = f"{'batch 1' if scenario.batch == 1 else 'larger batch'}, {_BOUNDS.get(limit, 'latency')}-bound"
    return " | ".join((family(device.kind).kind, _kind(scenario, network, graph), regime))


def spoken(cell: str) -> str:
    """A cell in words: `CNN on CPU, batch 1, compute-bound`."""
    name, kind, regime = cell.split(" | ")
    network, comma, suffix = kind.partition(", ")
    words = network.upper() if len(network) < 6 else network.replace("-", " ")
    return f"{words}{comma}{suffix} on {family(name).title}, {regime}"


def _outside(cell: Mapping[str, Any], device: Device, scenario: Scenario, what_ifs: str) -> str:
    """What of a scenario lies outside of what a cell was measured on, in words; empty where nothing does."""
    result = [f"what-ifs ({what_ifs})"] if what_ifs else []
    if device.id not in cell["parts"]:
        result.append(f"the {device.name}, which itself was not measured so")
    if multi_device(scenario) and not cell["several"]:
        result.append("several devices together, of which none were measured so")
    if scenario.batch > cell["largest_batch"]:
        result.append(f"a batch above the {cell['largest_batch']:,} that were measured")
    return "; ".join(result)


def _device_band(cell_name: str, device: Device, scenario: Scenario, what_ifs: str, far: float) -> ErrorBand:
    """Band of one device: the cell's, wider outside of what was measured, by all that what-ifs move."""
    bands = _bands()
    cell, words = bands["cells"].get(cell_name), spoken(cell_name)
    none = ErrorBand(None, "no evidence", 0, cell=cell_name)
    if cell is None:
        return replace(none, why=f"no independent measurement of {words}")
    trial = next((row for row in bands["coverage"] if row["cell"] == cell_name), {"held": 0, "n": 0})
    rows, coverage = ("recalled", "sources", "publications", "seen"), {"held": trial["held"], "tested": trial["n"]}
    none = replace(none, count=cell["rows"], **{name: cell.get(name, 0) for name in rows}, **coverage)
    if cell["log_width"] is None:
        sources = f"{cell['sources']} independent source{'s measured' if cell['sources'] != 1 else ' measured'}"
        return replace(none, why=f"only {sources} {words}; {MIN_SOURCES} are needed")
    if device.lineage not in cell["lineages"]:
        lineage = device.lineage[:1].upper() + device.lineage[1:]
        return replace(none, why=f"no part of {lineage} was measured in {words}")
    outside = _outside(cell, device, scenario, what_ifs)
    return replace(
        none,
        relative=math.expm1(cell["log_width"] * (bands["outside"] if outside else 1.0) + far),
        label="recalled" if cell["recalled"] else "validated",
        why=f"wider for {outside}" if outside else "",
    )


def cells() -> list[dict[str, Any]]:
    """Every cell with what is known of it: in words, its band, rows, sources, and rows held when left out. [-]"""
    bands = _bands()
    coverage = {row["cell"]: row for row in bands["coverage"]}
    return [
        {
            "cell": name,
            "said": spoken(name),
            "relative": None if cell["log_width"] is None else math.expm1(cell["log_width"]),
            "held": coverage.get(name, {"held": 0})["held"],
            "of": coverage.get(name, {"n": 0})["n"],
            **{key: cell[key] for key in ("rows", "sources", "publications")},
        }
        for name, cell in bands["cells"].items()
    ]


def widest(bands: Iterable[ErrorBand]) -> ErrorBand:
    """Band of what several predictions make together: the widest of theirs; none where one has none."""
    result = list(bands)
    lacking = [band for band in result if band.relative is None]
    return lacking[0] if lacking else max(result, key=lambda band: band.relative or 0.0)


def error_band(
    scenario: Scenario, network: str, graph: Graph, devices: Iterable[Device], limit: str, shift: float | None = 0.0
) -> ErrorBand:
    """Band of a scenario's times and rates: the widest of its devices'.

    Parameters
    ----------
    network, limit : as `cell_of` has them.
    devices : those its plan uses.
    shift : logarithm by which what-ifs of hardware and model move latency or rate; None: nothing runs without. [-]
    """
    cells = [(device, cell_of(device, scenario, network, graph, limit)) for device in devices]
    paths = ", ".join(list(scenario.overrides)[:3]) + (", ..." if len(scenario.overrides) > 3 else "")
    if shift is None or shift > _FAR:
        why = f"what-ifs ({paths}) move it more than twofold: nobody measured such a part"
        return ErrorBand(None, "no evidence", 0, cell=cells[0][1], why=why)
    what_ifs, far = (paths, shift) if shift > math.log1p(MATTERS) else ("", 0.0)
    return widest(_device_band(cell, device, scenario, what_ifs, far) for device, cell in cells)


def told(band: ErrorBand) -> str:
    """A band in words: how wide and from what, or why there is none."""
    if band.relative is None:
        return f"no evidence: {band.why}"
    rows = f"{band.count} measured rows of {band.sources} independent sources in {band.publications} publications"
    recall = f", {band.recalled} of them recalled" if band.recalled else ""
    seen = f", {band.seen} in view when constants were chosen" if band.seen else ""
    short = band.held < 0.9 * band.tested
    coverage = f"; without a row's source it held {band.held} of {band.tested}" if short else ""
    why = f"; {band.why}" if band.why else ""
    return f"±{percent(band.relative)} holds 9 of 10 ({rows}{recall}{seen}){coverage}{why}"
