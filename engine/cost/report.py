"""Report: what comes out of an evaluation, with the reason for each number. Everything in SI.

Estimates unless a row says that it is a bound.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from engine.cost.continuous import Continuous
from engine.devices.common.contract import RESOURCES, Span
from engine.scenario import Scenario, encode
from engine.scenario.fields import FIELDS, Field
from engine.scenario.overrides import unstated

BANDED = ("latency_s", "ttft_s", "tpot_s", "throughput_per_s")
"""Figures that an error band stands around."""
_COLUMNS = (
    *("latency_s", "ttft_s", "tpot_s", "throughput_per_s", "unit", "power_w", "energy_per_unit_j", "throughput_per_w"),
    *("capex_usd", "throughput_per_usd", "usd_per_million", "energy_per_input_token_j", "energy_per_output_token_j"),
    *("usd_per_million_input", "usd_per_million_output", "bound", "limited_by", "fits"),
)  # of a row
RESOURCE_NAMES: dict[str, str] = {
    "compute": "compute",
    "offchip": "off-chip memory",
    "onchip": "on-chip memory",
    "links": "links",
    "host": "host",
    "overhead": "overhead",
}


@dataclass(frozen=True)
class OpRow:
    """One operator, all its executions of a request together, on the device that holds it."""

    name: str
    kind: str
    group: str
    phase: str
    device: str
    count: float  # executions per request
    time_s: float  # that a request takes longer with it
    duration_s: float  # from its start to its end, other operators beside it
    share: float  # of the request's latency
    bound: str  # resource its time is spent on
    flops: float  # done by one device
    offchip_bytes: float
    onchip_bytes: float
    peak_flops_per_s: float  # dense, of one device at the precision used
    resources: dict[str, float]
    levels: dict[str, float] = field(default_factory=dict)  # bytes at each memory level, where its family tells [B]
    limit: str = ""  # the unit or memory level that sets its time, where its family says
    counters: dict[str, float] = field(default_factory=dict)  # of a processor, of one execution, where its family has

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity against off-chip traffic; None where there is none. [FLOP/B]"""
        return self.flops / self.offchip_bytes if self.offchip_bytes > 0 else None

    @property
    def rate(self) -> float:
        """Work over the time it runs. [FLOP/s]"""
        return self.flops / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def peak_used(self) -> float:
        """Achieved rate over the dense peak. [-]"""
        return self.rate / self.peak_flops_per_s if self.peak_flops_per_s > 0 else 0.0


@dataclass(frozen=True)
class Other:
    """Time that belongs to no operator."""

    name: str
    resource: str
    time_s: float


@dataclass(frozen=True)
class MemoryRow:
    """What must lie in a memory level of a device, against its capacity. [B]"""

    device: str
    level: str
    role: str
    need_bytes: float
    capacity_bytes: float
    holds: str
    required: bool
    fits: bool
    rest: str = ""  # level from which a pass streams what does not fit


@dataclass(frozen=True)
class LinkRow:
    """What a request sends over a link, and how busy that keeps it."""

    name: str
    role: str
    bytes_per_request: float
    bandwidth: float  # usable, one direction [B/s]
    time_s: float  # on this link within a request's latency
    utilisation: float  # share of the usable rate used at the reported throughput


@dataclass(frozen=True)
class Roofline:
    """Roofs of one device: its dense peak and the bandwidth of each memory level."""

    device: str
    format: str
    peak_flops_per_s: float
    levels: tuple[tuple[str, str, float], ...]  # name, role, B/s


@dataclass(frozen=True)
class Assumption:
    """A sentence that figures rest on, and what stands behind it."""

    text: str
    basis: str  # published, calibrated, assumed, derived


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


@dataclass(frozen=True)
class Report:
    """Figures of a scenario with the reason for each, in SI units as their names say; None where one does not apply."""

    scenario: Scenario
    system_name: str
    workload_name: str
    unit: str
    latency_s: float
    ttft_s: float | None
    tpot_s: float | None
    latency_per_unit_s: float
    throughput_per_s: float
    power_w: float | None
    energy_per_unit_j: float | None
    throughput_per_w: float | None
    capex_usd: float | None
    price_contains: tuple[str, ...]  # parts that `capex_usd` pays for; empty without a price
    price_lacks: tuple[str, ...]  # parts of a node that nobody prices, so that it pays for none
    throughput_per_usd: float | None
    usd_per_million: float | None
    bound: str
    breakdown: dict[str, float]
    other: tuple[Other, ...]
    fits: bool
    memory: tuple[MemoryRow, ...]
    links: tuple[LinkRow, ...]
    rooflines: tuple[Roofline, ...]
    tile: tuple[tuple[str, int], ...]
    devices_used: int
    error_band: ErrorBand
    problems: tuple[str, ...]
    detail: Any = field(repr=False, compare=False)  # `engine.cost.compose.ReportDetail`: what is found when it is read
    versions: dict[str, str] = field(default_factory=dict)
    power_parts_w: dict[str, float] = field(default_factory=dict)  # devices idle, their work, chassis, host; add up [W]
    clock_share: float = 1.0  # of the devices' clock that their power limit leaves them without pause [-]
    energy: dict[str, float] = field(default_factory=dict)  # of a batch by part, leakage apart, where counted [J]
    energy_per_input_token_j: float | None = None  # of a decoder: a token read, and one written, apart
    energy_per_output_token_j: float | None = None
    usd_per_million_input: float | None = None
    usd_per_million_output: float | None = None

    @cached_property
    def token(self) -> str:
        """The scenario as a link holds it."""
        return encode(self.scenario)

    @cached_property
    def ops(self) -> tuple[OpRow, ...]:
        """A row of each operator on each of its devices, made when they are read."""
        return self.detail.ops()

    @cached_property
    def _bars(self) -> tuple[tuple[Span, ...], str]:
        return self.detail.timeline()

    @property
    def timeline(self) -> tuple[Span, ...]:
        """The family's own timeline of the slowest phase, else its operators one after the other. [s]"""
        return self._bars[0]

    @property
    def timeline_of(self) -> str:
        """What `timeline` is of: one of so many layers, a phase."""
        return self._bars[1]

    @cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Sentences that figures rest on. Other counts are tried when they are read: it takes as long as the rest."""
        derived = (Assumption(text, "derived") for text in (*self.without_effect, *self.better))
        return (*self.detail.stated(), *derived)

    @cached_property
    def better(self) -> tuple[str, ...]:
        """Sentences on other counts of devices or streams that answer sooner, or more, and why."""
        return self.detail.better()

    @cached_property
    def without_effect(self) -> tuple[str, ...]:
        """A sentence for each setting that moves no figure. Each is set back when they are read."""
        return tuple(self.detail.idle())

    @cached_property
    def _words(self) -> tuple[str, str]:
        """What would help is tried when it is read: on an NPU that takes as long as all the rest."""
        return self.detail.words()

    @property
    def verdict(self) -> str:
        """The sentence on top: headline, what limits it, fit, power; or the first problem."""
        return self._words[0]

    @property
    def limited_by(self) -> str:
        """What the verdict names: what would help most where a family tries that, else `bound` in words."""
        return self._words[1]

    @property
    def continuous(self) -> Continuous | None:
        """Times of a sequence that joins a running batch; None where no tokens are made one by one."""
        return self.detail.continuous

    @property
    def usd_per_million_all_tokens(self) -> float | None:
        """Cost of a million tokens, read and written alike; None where there is none. [USD]

        `usd_per_million` is of output tokens, the reading of their inputs included.
        """
        if self.usd_per_million is None or self.usd_per_million_input is None:
            return None
        s = self.scenario
        return self.usd_per_million * s.outputs / (s.inputs + s.outputs)

    @property
    def roofline(self) -> Roofline:
        """Roofs of the device that spends most of the time."""
        return self.rooflines[0]

    @cached_property
    def lanes(self) -> tuple[Span, ...]:
        """A request from first to last, as `engine.cost.timeline.request` lays it out for a page. [s]"""
        return self.detail.request()

    def in_order(self, most: int) -> tuple[Span, ...]:
        """The same in ``most`` bars. [s]"""
        return self.detail.request(most)

    @property
    def unlisted(self) -> bool:
        """Whether what-ifs make a part that no list has a price for."""
        return bool(unstated(self.scenario.overrides, "price"))

    @property
    def unpriced(self) -> str | None:
        """Why there is no figure of money, in a few words; None where there is one."""
        if self.capex_usd is not None:
            return None
        return "no price: a what-if" if self.unlisted else "no price is published"

    @property
    def price_of(self) -> str:
        """What the price contains and lacks, in words: `2 × T4; 1 × host not priced`; empty without a price."""
        return "; ".join((", ".join(self.price_contains), *(f"{name} not priced" for name in self.price_lacks)))

    def figure(self, name: str) -> float | None:
        """A figure as a limit or an objective names it: a field, or a resource's seconds (``links_s``); None where
        there is none. SI, its unit as in its name [s, W, J, USD].
        """
        resource = name.removesuffix("_s")
        return self.breakdown[resource] if resource in self.breakdown else getattr(self, name)

    def to_dict(self) -> dict[str, Any]:
        """Plain data with SI units in the key names; the JSON of the command line and of the app's export."""
        out: dict[str, Any] = asdict(replace(self, detail=None))
        out |= {"token": self.token, "assumptions": [asdict(row) for row in self.assumptions]}
        out |= {"verdict": self.verdict, "limited_by": self.limited_by, "without_effect": list(self.without_effect)}
        out |= self.further()
        out |= {"better": list(self.better), "ops": [asdict(row) for row in self.ops]}
        out |= {"timeline": [asdict(span) for span in self.timeline], "timeline_of": self.timeline_of}
        del out["detail"]
        out["scenario"] = self.scenario.model_dump(mode="json")
        for row, op in zip(out["ops"], self.ops, strict=True):
            row["intensity_flop_per_b"] = op.intensity
            row["peak_used"] = op.peak_used
            row["resources"] = {f"{name}_s": op.resources[name] for name in RESOURCES}
        out["breakdown"] = {f"{name}_s": self.breakdown[name] for name in RESOURCES}
        return out | self.interval()

    def further(self) -> dict[str, float | None]:
        """Figures of a decoder beside those of its batch: by its other bases. [s], [1/s], [USD]"""
        names = ("ttft_s", "tpot_s", "latency_s", "throughput_per_s")
        joined = self.continuous
        figures = {f"continuous_{name}": None if joined is None else getattr(joined, name) for name in names}
        return figures | {"usd_per_million_all_tokens": self.usd_per_million_all_tokens}

    def interval(self) -> dict[str, float | None]:
        """Ends of the error band around the times and the rate, by name; None where there is none. [s], [1/s]"""
        return self.error_band.ends({name: getattr(self, name) for name in BANDED})

    def _exported(self, field: Field) -> Any:
        """A field as exported rows hold it: a tile as it was settled, what is not set as the field calls that."""
        if field.kind == "tile":
            return " x ".join(str(v) for _, v in self.tile)
        return field.shown(getattr(self.scenario, field.path))

    def csv_row(self) -> dict[str, Any]:
        """One flat row: identity first, then headline metrics, then versions."""
        s = self.scenario
        return {
            "id": f"{s.system}/{s.workload}",
            "token": self.token,
            **{f.path: self._exported(f) for f in FIELDS if f.column},
            **{name: getattr(self, name) for name in _COLUMNS},
            "error_band": self.error_band.relative,
            **self.interval(),
            **{f"{name}_s": self.breakdown[name] for name in RESOURCES},
            **{f"{name}_version": value for name, value in self.versions.items()},
        }
