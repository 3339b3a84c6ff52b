"""How fast does this run on the host here, and did we predict it?"""

from dataclasses import asdict

import pandas as pd
import streamlit as st

from app.shared import formats as fmt
from app.shared import glossary, host_runs, jobs, parts
from app.shared.figures.roofline import Level
from app.shared.report_tables import Files
from app.shared.widgets.choices import choose, choose_number, number
from app.views.kernels import charts as kernel_charts
from app.views.kernels import fused, texts
from engine.kernels import jit
from engine.lab.host.measure.jobs import KernelShown, kernel
from engine.lab.host.measure.run import KERNELS, Bounds
from engine.lab.probe import MeasuredRoofline
from engine.scenario.fields import field

_BOUNDS = Bounds(bytes=5e8, flops=2e10, seconds=1.5)  # one reader's share of a server that others use too
_REPEATS = 15
_LABELS = {"M": "M, rows", "K": "K, inputs", "N": "N, outputs", "G": "G, products"}

KernelChoice = tuple[str, tuple[int, ...], str, int]
"""What the sidebar asks for: a kernel, its shape, a number format and threads."""


def controls() -> KernelChoice:
    """The sidebar: kernel, shape, precision, threads."""
    with st.sidebar:
        name = choose(
            "Kernel",
            {id: entry.title for id, entry in KERNELS.items()},
            "kernel",
            help=texts.KERNEL_HELP,
        )
        entry = KERNELS[name]
        columns, shape = st.columns(2), []
        for at, (label, usual) in enumerate(zip(entry.labels, entry.default, strict=True)):
            limit = 100_000_000 if label == "rows" else 65536
            with columns[at % 2]:
                shape.append(number(_LABELS.get(label, label.capitalize()), 1, limit, usual, f"{name}-{label}"))
        precision = entry.precisions[0]
        if len(entry.precisions) > 1:
            formats = {precision: glossary.format_label(precision) for precision in entry.precisions}
            precision = choose(field("precision").label, formats, f"{name}-in", help=field("precision").help)
        threads = 1
        if jit.pool_size() > 1:
            threads = choose_number("Threads", range(1, jit.pool_size() + 1), "threads", help=texts.THREADS_HELP)
    return name, tuple(shape), precision, threads


def run(choice: KernelChoice) -> None:
    """Queue the run and follow it; a click elsewhere gives it up."""
    job = (kernel, *choice, _REPEATS, _BOUNDS)
    with jobs.line("k") as bar:
        outcome = host_runs.follow(job, bar, lambda share: f"{round(share * _REPEATS)} of {_REPEATS} runs")
    if isinstance(outcome, str):
        parts.refusal(outcome)
    else:
        st.session_state.kernel_shown = host_runs.LAST["kernel"] = outcome


def headline(result: KernelShown) -> None:
    """One sentence and four numbers."""
    run, model_s = result.run, result.estimate_s
    entry = KERNELS[run.kernel]
    shape = " × ".join(f"{extent:,}" for extent in run.shape)
    sentence = f"**{fmt.seconds(run.time.median)}** for a {entry.title.lower()} of {shape}"
    sentence += f" in {glossary.format_label(run.precision)} on {fmt.counted(run.threads, 'thread')}"
    if run.roof_share is not None:
        sentence += texts.OF_ROOFS.format(roof_share=fmt.percent(run.roof_share))
    if model_s is not None:
        sentence += f"; the model predicted {fmt.seconds(model_s)} ({fmt.deviation(model_s / run.time.median - 1)})"
    st.markdown(sentence + ".")
    (low, high), scale = run.time.quartiles, fmt.scale([run.time.quartiles[1]], "s")
    half = f"half in {scale.text(low)} to {scale.text(high)} {scale.unit}"
    level = f"data from {run.level}" if run.level else "no roof probed"
    cells = [
        ("Time", fmt.seconds(run.time.median), half),
        ("Achieved", fmt.si(run.rate, "FLOP/s"), f"{fmt.si(run.traffic, 'B/s')} of traffic"),
        ("Of the roofs", fmt.percent(run.roof_share), level),
        ("Error", _error(run.error), "against float64"),
    ]
    parts.metrics([(f"{label} :gray[measured]", *cell) for label, *cell in cells], 4)


def _error(error: float | None) -> str:
    if error is None:
        return fmt.UNKNOWN
    if error == 0:
        return "none"
    return f"1 in {fmt.count(round(1 / error))}" if error < 0.01 else f"{fmt.digits3(100 * error)}%"


def under_roofs(result: KernelShown) -> None:
    """The measured point beside the library's and the prediction."""
    run, roofline = result.run, result.roofline
    ratio = run.library.median / run.time.median if run.library else None
    answer = f"{fmt.times(ratio)} numpy's FP32 speed" if ratio else texts.NO_LIBRARY
    if run.peak is None or not run.flops:
        with parts.card(texts.ROOFLINE, answer):
            st.caption(texts.NO_ROOF)
        return
    spots = {"measured": run.rate}
    if result.estimate_s:
        spots["predicted"] = run.flops / result.estimate_s
    if run.library:
        spots["numpy FP32"] = run.flops / run.library.median
    threads = run.threads
    dram = roofline.dram if threads == 1 else max(roofline.dram, roofline.dram_all)
    near = {"L1": roofline.l1, "L2": roofline.l2}.get(run.level, roofline.l3)  # where its data comes from, else L3
    name = run.level if run.level in ("L1", "L2") else "L3"
    levels = [Level(name, near * threads, False), Level("DRAM", dram, True)]
    peak, intensity = f"{glossary.format_label(run.precision)} peak", run.flops / run.bytes
    width = 240 if parts.mobile() else 400
    fig = kernel_charts.host_roofline(run.peak, peak, levels, intensity, spots, parts.dark(), width)
    parts.chart(texts.ROOFLINE, answer, fig, "kernel-roofline")


def counters(result: KernelShown) -> None:
    """What the host's cores counted beside what the model expects, or why nothing is counted."""
    counts, expected = result.run.counts.to_dict(), result.estimated_counters
    with st.expander(texts.COUNTERS, key="open.counters"):
        st.caption(counts.get("reason") or texts.COUNTED.format(share=fmt.percent(counts["counted_share"])))
        rows = [
            (label, fmt.digits3(counts.get(ours)), fmt.digits3(expected.get(theirs)))
            for label, (ours, theirs) in texts.COUNTED_EVENTS.items()
        ]
        right = ["Measured", "Predicted"]
        parts.table(pd.DataFrame(rows, columns=["In a call", *right]), tall=None, right=right)


def host_probe(roofline: MeasuredRoofline) -> None:
    """What the probe saw."""
    with st.expander(f"Host probe · {roofline.isa}, {roofline.threads} threads", key="open.probe"):
        sizes = {name: fmt.si(size, "B") for name, size in asdict(roofline.caches).items()}
        probes = []
        for name, (figure, note) in texts.PROBES.items():
            path, unit = figure.split(" ")
            if value := getattr(roofline, path):  # not every processor multiplies every format
                probes.append((name, fmt.si(value, unit), note.format(threads=roofline.threads, **sizes)))
        parts.table(pd.DataFrame(probes, columns=["Figure", "Measured", "Of what"]), tall=None)
        st.caption(texts.CALIBRATE_CAPTION)


def _last_result() -> KernelShown | None:
    """This reader's last run, else the last of this host."""
    return st.session_state.get("kernel_shown") or host_runs.LAST.get("kernel")


def _exports() -> Files | None:
    result = _last_result()
    if result is None:
        return None
    data = result.to_dict() | {"roofline": asdict(result.roofline)}
    return {"Run, JSON": (f"kernel-{result.run.kernel}", lambda: data)}


def show() -> None:
    """The page."""
    choice = controls()
    parts.bar(parts.report_now(), "kernels", _exports())  # none where the pair can't run: kernels need no scenario
    start = st.button("Run", type="primary", icon=":material/play_arrow:", key="k.run", shortcut=parts.run_keys())
    first = not st.session_state.get("kernels_seen")
    st.session_state.kernels_seen = True
    if start or (first and _last_result() is None):  # no page opens as an empty frame
        run(choice)
    result = _last_result()
    if result is None:
        st.info(
            texts.NOT_MEASURED.format(seconds=fmt.seconds(_BOUNDS.seconds)),
            icon=":material/speed:",
        )
    else:
        last = result.run
        if choice != (last.kernel, last.shape, last.precision, last.threads):
            st.caption(texts.OTHER_CHOICE)
        headline(result)
        under_roofs(result)
        counters(result)
        host_probe(result.roofline)
    fused.on_this_host()


show()
