"""Figures 8, 15 and 18 of document 004, bar by bar: our predictions beside what is printed of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from engine.devices.common.fabric import LABELS
from engine.devices.dfx.fabric import fabric
from engine.devices.dfx.tiling import CANDIDATES
from engine.published import dfx
from hardware_specs.catalog import default_catalog


@dataclass(frozen=True)
class ComparedBar:
    """A bar: what we predict, and what the document prints of it, if anything. In the figure's unit."""

    label: str
    predicted: float
    printed: float | None = None


@dataclass(frozen=True)
class Comparison:
    """One figure of the document. Shares are 0 to 1, times in [s], rates in [1/s]."""

    title: str
    measure: str
    unit: str
    bars: tuple[ComparedBar, ...]
    note: str
    answer: str = ""  # what it shows, where bars are not compared with what is printed


def _attention() -> Comparison:
    """Figure 8 (a): attention of one layer by tile."""
    times = {c.tile: c.seconds for c in dfx.tiles()}
    bars = tuple(ComparedBar(f"{d} × {lanes}", times[d, lanes]) for d, lanes in CANDIDATES)
    note = (
        "GPT-2 1.5B on one card at the full context of 1,024. The document draws these bars without numbers: three "
        "tiles are best with negligible difference, the outer two are slower."
    )
    return Comparison("Figure 8 (a), attention by tile", "Attention of a layer", "s", bars, note)


def _fabric() -> Comparison:
    """Figure 8 (b): fabric by the three tiles that tie, beside section VI's total for the one that was built."""
    device = default_catalog().device("alveo-u280-dfx")
    has = device.fpga
    assert has is not None
    bars = []
    for name in ("lut", "ff", "bram36", "dsp"):
        there = getattr(has, name).si
        for tile in CANDIDATES[1:4]:
            own = device.dfx is not None and tile == (device.dfx.d.si, device.dfx.l.si)
            share = sum(fabric(device, tile)[name].values()) / there
            label = f"{LABELS[name].removesuffix(' slices')}, {tile[0]} × {tile[1]}"
            bars.append(ComparedBar(label, share, dict(has.used)[name].si if own else None))
    note = (
        "Of the three tiles that tie, 64 × 16 takes the least, as the document finds. It prints section VI's totals "
        "alone; what units don't make of LUT, FF and BRAM is taken from them, slices are counted."
    )
    return Comparison("Figure 8 (b), fabric by tile", "Share of a U280", "", tuple(bars), note)


def _breakdown() -> Comparison:
    """Figure 15: where the time of 1.5B on four cards goes."""
    work, ring = (dfx.VALUES[id]() for id in ("DFX-042", "DFX-043"))
    bars = (
        ComparedBar("Self-attention and feed-forward", work, 0.726),
        ComparedBar("Synchronisation", ring, 0.173),
        ComparedBar("Norms, residuals, embedding, LM head", 1 - work - ring, 1 - 0.726 - 0.173),
    )
    note = "GPT-2 1.5B on four cards. The document prints the first two shares; the third is what they leave."
    return Comparison("Figure 15, latency breakdown", "Share of the latency", "", bars, note)


def _scaling() -> Comparison:
    """Figure 18: rate of 345M over the number of cards."""
    printed = ((1, 93.10), (2, 146.25), (4, 207.56))
    bars = tuple(ComparedBar(f"{n} FPGA{'s' * (n > 1)}", dfx.rate("dfx", "345m", n), rate) for n, rate in printed)
    note = "GPT-2 345M, 64 tokens in and 64 out. Constants of the core were chosen with these rates in view."
    return Comparison("Figure 18, scalability", "Output tokens a second", "1/s", bars, note)


def _unexplained() -> Comparison:
    """Share of a request that no mechanism of the document makes: the one fitted number of the core's timing."""
    shares = {}
    for model, cards in product(("345m", "1.5b"), (1, 2, 4)):
        report = dfx.report("dfx", model, cards)
        fitted = sum(row.time_s for row in report.other if row.name.endswith("unexplained"))
        shares[f"{model.upper()}, {cards} FPGA{'s' * (cards > 1)}"] = fitted / report.latency_s
    note = (
        "64 tokens in and 64 out. A synchronisation takes so much longer than its issue, hops and words, fitted on "
        "345M on two and four cards. Two fitted constants made 64% of 1.5B on four cards before each part "
        "of a hand-over and the rows of the memory were described."
    )
    bars = tuple(ComparedBar(name, share) for name, share in shares.items())
    most = max(shares, key=lambda name: shares[name])
    answer = f"at most {shares[most]:.1%}, of {most}; none on one card, which has no ring"
    return Comparison("Unexplained, by model and cards", "Share of the latency", "", bars, note, answer)


def figures() -> tuple[Comparison, ...]:
    """The four panels, estimates beside measurements, and what of them is fitted."""
    return _attention(), _fabric(), _breakdown(), _scaling(), _unexplained()
