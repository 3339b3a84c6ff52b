"""``python -m engine measure | calibrate | plan``: kernels and networks on this host, the host as a device, and the
mixed-precision workflow on its kernels.
"""

import argparse
import sys
from dataclasses import asdict
from statistics import median
from typing import Any

from engine.cli.command import Answer, refuse
from engine.cost.error_bands import told
from engine.evaluate import evaluate
from engine.lab.host import calibrate as this_host
from engine.lab.host.measure import run as runs_here
from engine.lab.host.measure.jobs import kernel
from engine.lab.host.measure.network import files, measure_workload
from engine.lab.numerics import workflow
from engine.lab.numerics.trained import wide_deep_study
from engine.resolve.choices import default_scenario
from engine.scenario import encode
from engine.scenario.sentences import amount, percent
from model_zoo.catalog import own_folder

_STUDY = "wide-deep", "Wide & Deep trained on synthetic clicks, FP32 against INT8"


def measure(args: argparse.Namespace) -> Answer:
    """A kernel, a study or networks on this host. Measurements."""
    refuse(args, ("kernel", "workload", "shape"), "--zoo, which runs every network of your folder", args.zoo)
    refuse(args, ("kernel", "shape"), "--workload, which is a network", args.workload is not None)
    bounds = runs_here.Bounds(bytes=args.memory_gb * 1e9, seconds=args.seconds)
    if args.zoo:
        return _zoo(args, bounds)
    if args.workload:
        of = (args.workload, args.precision or "fp32", args.batch, args.threads)
        return measure_workload(*of, repeats=args.repeats, bounds=bounds).to_dict(), ()
    if args.kernel == _STUDY[0]:
        refuse(args, ("shape", "precision", "repeats", "seconds", "memory_gb"), f"{_STUDY[0]}, which has its own")
        return _wide_deep(args)
    if args.kernel == "list":
        rows = [
            {"kernel": k.name, "name": k.title, "shape": "x".join(k.labels), "precisions": list(k.precisions)}
            for k in runs_here.KERNELS.values()
        ]
        return rows, [f"{_STUDY[0]}: {_STUDY[1]}"]
    refuse(args, ["batch"], "a kernel, which has a --shape; only networks have a batch")
    if not args.kernel:
        raise runs_here.MeasureError(
            f"kernel is missing: name one of {', '.join(runs_here.KERNELS)}, or give --workload"
        )
    entry = runs_here.kernel_named(args.kernel)
    shape = runs_here.shape_of(entry, args.shape)
    of = (entry.name, shape, args.precision or entry.precisions[0], args.threads)
    shown = kernel(*of, args.repeats, bounds, None)
    result = shown.run
    sentences = [f"{entry.title}, {' x '.join(map(str, shape))}; error of the signal, against float64"]
    if result.roof_share is not None:
        sentences.append(f"{percent(result.roof_share)} of what the probed roofs allow")
    if result.library is not None:
        sentences.append(f"numpy FP32: {result.library.median / result.time.median:.3g} times our time")
    return shown.to_dict(), sentences


def _wide_deep(args: argparse.Namespace) -> Answer:
    study = wide_deep_study(batch=args.batch if args.batch is not None else 512, threads=args.threads)
    data = {
        "rows": study.rows,
        "held_out": study.held_out,
        "base_accuracy": study.base,
        "gain": study.gain,
        "accuracy_lost": {q.precision: study.accuracy_loss(q.precision) for q in study.quality[1:]},
        "quality": [asdict(q) for q in study.quality],
        "speed": [
            {name: getattr(s, name) for name in ("precision", "batch", "threads")}
            | {"time_s": s.time.median, "samples_per_s": s.rate}
            for s in study.speed
        ],
    }
    return data, ["Wide & Deep; the rows are synthetic: this is no evidence about Criteo's data."]


def _zoo(args: argparse.Namespace, bounds: Any) -> Answer:
    """Every network of the user's folder, measured beside its prediction from a probe of this host."""
    ids = list(files())
    if not ids:
        raise runs_here.MeasureError(
            f"--zoo runs the ONNX files in {own_folder()}, and there are none; networks of the catalog are counts "
            "without weights"
        )
    runs, reasons = [], {}
    of = (args.precision or "fp32", args.batch, args.threads)
    settings: dict[str, Any] = {"repeats": args.repeats, "bounds": bounds}
    for at, id in enumerate(ids):
        sys.stderr.write(f"\r{at + 1} of {len(ids)}  {id:32}")
        try:
            run = measure_workload(id, *of, **settings, device=lambda: this_host.device_of(*this_host.host()))
            runs.append(run)
        except runs_here.MeasureError as error:
            reasons[id] = str(error)
    sys.stderr.write("\n")
    errors = [abs(run.error) for run in runs if run.error is not None]
    summary = (
        f"{len(errors)} networks: median error {percent(median(errors))}" if errors else "No network was compared."
    )
    data = {"summary": summary, "rows": [run.to_dict() for run in runs], "not_measured": reasons}
    return data, ()


def calibrate(args: argparse.Namespace) -> Answer:
    """This host probed and written as a device. Measurements."""
    device, path, roofline, profile = this_host.calibrate(args.out)
    data: dict[str, Any] = {"device": device.id, "file": str(path), "spec": device.model_dump(mode="json")}
    bf16 = f", {amount(roofline.bf16, 'FLOP/s')} BF16" if roofline.bf16 is not None else ""
    lines = [
        f"{device.name}: written to {path}",
        f"peaks       {amount(roofline.fp32, 'FLOP/s')} FP32{bf16}, {amount(roofline.int8, 'OP/s')} INT8, one thread",
        f"caches      L1 {amount(roofline.l1, 'B/s')}, L2 {amount(roofline.l2, 'B/s')}, "
        f"L3 {amount(roofline.l3, 'B/s')}",
        f"DRAM        {amount(roofline.dram, 'B/s')} read, {amount(roofline.triad, 'B/s')} triad, "
        f"{amount(roofline.gather, 'line/s')} at random",
        f"a product   {percent(profile['gemm'])} of the peak; a call {amount(profile['call'], 's')}, "
        f"all threads {amount(roofline.dispatch, 's')}",
        f"it is now a system: python -m engine evaluate --system {device.id} --workload resnet50",
    ]
    return data, lines


def plan(args: argparse.Namespace) -> Answer:
    """A precision for every layer, and the scenario that makes. Measurements, but for its price."""
    study = workflow.study(args.study, workflow.BOUND if args.bound is None else args.bound, args.wide, args.repeats)
    scenario = workflow.in_scenario(study, default_scenario("fb-node", workflow.WORKLOAD))
    report = evaluate(scenario)
    data = {
        "study": args.study,
        "metric": workflow.METRIC,
        "bound": study.bound,
        "met": study.holds,
        "untouched_loss": study.untouched_loss,
        "precision": dict(study.plan.precision),
        "reference_time_s": study.plan.reference_time,
        "steps": [asdict(step) for step in study.plan.steps],
        "workload": workflow.WORKLOAD,
        "latency_s": report.latency_s,
        **report.error_band.beside({"latency_s": report.latency_s}),
        "token": encode(scenario),
    }
    sentences = [
        f"{workflow.TITLE}: {workflow.METRIC} at most {100 * study.bound:g}%",
        f"{'met' if study.holds else 'not met'}; on data no step has seen: {100 * study.untouched_loss:.4g}%",
        f"{report.workload_name} on {report.system_name}: {amount(report.latency_s, 's')}",
        f"error band: {told(report.error_band)}",
    ]
    return data, sentences
