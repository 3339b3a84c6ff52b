"""Report: what comes out of an evaluation, with the reason for each number. Everything in SI.

Estimates unless a row says that it is a bound.
"""

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from engine.cost.assemble import Schedule
from engine.cost.assumptions import Assumption, assumptions_of
from engine.cost.best_plan import better_streams, fewer_devices
from engine.cost.changes import band_of, without_effect
from engine.cost.continuous import Continuous, continuous
from engine.cost.error_bands import BANDED, ErrorBand
from engine.cost.headline import limit_of, problems_of, tile_of, unchecked, verdict
from engine.cost.layout import METRICS
from engine.cost.rows import (
    RESOURCE_NAMES,
    LinkRow,
    MemoryRow,
    OpRow,
    Other,
    Roofline,
    energy_of,
    links_of,
    memory_of,
    ops_of,
    other_of,
    power_parts,
    rooflines_of,
    timeline_of,
    token_costs,
)
from engine.cost.timeline import request
from engine.devices.common.contract import RESOURCES, Span
from engine.kernels.sources import engine_version
from engine.scenario import Scenario, encode
from engine.scenario.fields import FIELDS, Field
from engine.scenario.overrides import without_figure

_COLUMNS = (
    *("latency_s", "ttft_s", "tpot_s", "throughput_per_s", "unit", "power_w", "energy_per_unit_j", "throughput_per_w"),
    *("capex_usd", "throughput_per_usd", "usd_per_million", "energy_per_input_token_j", "energy_per_output_token_j"),
    *("usd_per_million_input", "usd_per_million_output", "bound", "limited_by", "fits"),
)  # of a row
_OF_TIMES = tuple(name for name in METRICS if name != "interval_s" and name.removesuffix("_s") not in RESOURCES)
"""Figures of a report that a schedule has."""


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
    times: Schedule = field(repr=False, compare=False)  # what is found when it is read comes from it
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
        return ops_of(self.times)

    @cached_property
    def _bars(self) -> tuple[tuple[Span, ...], str]:
        return timeline_of(self.times)

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
        effects = (Assumption(text, "derived") for text in (*self.without_effect, *self.better))
        return (*assumptions_of(self.times), *effects)

    @cached_property
    def better(self) -> tuple[str, ...]:
        """Sentences on other counts of devices or streams that answer sooner, or more, and why."""
        bound, times = self.times.bound, self.times
        streams = better_streams(bound, times, limit_of(times)[0], RESOURCE_NAMES)
        return tuple(filter(None, (fewer_devices(bound, times.latency_s), streams)))

    @cached_property
    def without_effect(self) -> tuple[str, ...]:
        """A sentence for each setting that moves no figure, set back when they are read, and each limit on none."""
        return (*without_effect(self.times), *unchecked(self.times, self._limited))

    @cached_property
    def _words(self) -> tuple[str, str]:
        """What would help is tried when it is read: on an NPU that takes as long as all the rest."""
        if self.problems:
            return self.problems[0], limit_of(self.times)[0]
        return verdict(self.times, self.memory, self.continuous if self.scenario.batch > 1 else None)

    @property
    def verdict(self) -> str:
        """The sentence on top: headline, what limits it, fit, power; or the first problem."""
        return self._words[0]

    @property
    def limited_by(self) -> str:
        """What the verdict names: what would help most where a family tries that, else `bound` in words."""
        return self._words[1]

    @cached_property
    def continuous(self) -> Continuous | None:
        """Times of a sequence that joins a running batch; None where no tokens are made one by one. [s]"""
        return continuous(self.times.bound, self.times)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What does not fit, and limits that are missed, a sentence each."""
        return problems_of(self.times, self.memory, self._limited)

    @property
    def _limited(self) -> Continuous | None:
        """Times of a sequence where there are limits on them: at batch 1 they are priced once more."""
        limits = self.scenario.limits
        return None if limits.ttft_s is None and limits.tpot_s is None else self.continuous

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
        return request(self.times)

    def in_order(self, limit: int) -> tuple[Span, ...]:
        """The same in ``limit`` bars. [s]"""
        return request(self.times, limit)

    @property
    def unlisted(self) -> bool:
        """Whether what-ifs make a part that no list has a price for."""
        return bool(without_figure(self.scenario.overrides, "price"))

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
        out: dict[str, Any] = asdict(replace(self, times=None))
        out |= {"token": self.token, "assumptions": [asdict(row) for row in self.assumptions]}
        out |= {"verdict": self.verdict, "limited_by": self.limited_by, "without_effect": list(self.without_effect)}
        out |= self.further()
        out |= {"problems": list(self.problems), "better": list(self.better), "ops": [asdict(row) for row in self.ops]}
        out |= {"timeline": [asdict(span) for span in self.timeline], "timeline_of": self.timeline_of}
        del out["times"]
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
        basis = self.continuous
        figures = {f"continuous_{name}": None if basis is None else getattr(basis, name) for name in names}
        return figures | {"usd_per_million_all_tokens": self.usd_per_million_all_tokens}

    def interval(self) -> dict[str, float | None]:
        """Ends of the error band around the times and the rate, by name; None where there is none. [s], [1/s]"""
        return self.error_band.ends({name: getattr(self, name) for name in BANDED})

    def _export(self, field: Field) -> Any:
        """A field as exported rows hold it: a tile as it was settled, what is not set as the field calls that."""
        if field.kind == "tile":
            return " x ".join(str(v) for _, v in self.tile)
        return field.display(getattr(self.scenario, field.path))

    def csv_row(self) -> dict[str, Any]:
        """One flat row: identity first, then headline metrics, then versions."""
        s = self.scenario
        return {
            "id": f"{s.system}/{s.workload}",
            "token": self.token,
            **{f.path: self._export(f) for f in FIELDS if f.column},
            **{name: getattr(self, name) for name in _COLUMNS},
            "error_band": self.error_band.relative,
            **self.interval(),
            **{f"{name}_s": self.breakdown[name] for name in RESOURCES},
            **{f"{name}_version": value for name, value in self.versions.items()},
        }


def report_of(times: Schedule) -> Report:
    """The report of a priced plan. Estimates, as its parts are."""
    bound, plan, memory = times.bound, times.plan, memory_of(times)
    figures: dict[str, Any] = {name: times.figure(name) for name in _OF_TIMES}
    return Report(
        scenario=bound.scenario,
        system_name=bound.system.name,
        workload_name=bound.workload.name,
        unit=bound.graph.unit,
        **figures,
        price_contains=times.account.price_contains,
        price_lacks=times.account.price_lacks,
        bound=times.bound_by,
        breakdown=times.breakdown,
        other=other_of(times),
        fits=all(row.fits for row in memory),
        memory=memory,
        links=links_of(times),
        rooflines=rooflines_of(times),
        tile=tile_of(times),
        devices_used=sum(plan.devices_used),
        error_band=band_of(bound, plan, times),
        times=times,
        energy=energy_of(times),
        power_parts_w=power_parts(times),
        clock_share=times.draw("clock"),
        **token_costs(times),
        versions={"engine": engine_version(), "catalog": bound.catalog.digest, "zoo": bound.zoo.digest},
    )
