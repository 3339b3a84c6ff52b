"""``python -m engine plan``: the mixed-precision workflow on kernels, and the scenario its plan makes."""

import argparse
from dataclasses import asdict

from engine.cli.command import Answer
from engine.scenario import encode
from engine.scenario.sentences import amount


def plan(args: argparse.Namespace) -> Answer:
    """A precision for every layer, and the scenario that makes. Measurements, but for its price."""
    from engine.cost.error_bands import told as band_told
    from engine.evaluate import evaluate
    from engine.lab.numerics.workflow import BOUND, METRIC, TITLE, WORKLOAD, in_scenario, study
    from engine.resolve.choices import default_scenario

    workflow = study(args.study, BOUND if args.bound is None else args.bound, args.wide, args.repeats)
    planned = in_scenario(workflow, default_scenario("fb-node", WORKLOAD))
    report = evaluate(planned)
    data = {
        "study": args.study,
        "metric": METRIC,
        "bound": workflow.bound,
        "met": workflow.met,
        "untouched_loss": workflow.untouched_loss,
        "precision": dict(workflow.plan.precision),
        "reference_time_s": workflow.plan.reference_time,
        "steps": [asdict(step) for step in workflow.plan.steps],
        "workload": WORKLOAD,
        "latency_s": report.latency_s,
        **report.error_band.beside({"latency_s": report.latency_s}),
        "token": encode(planned),
    }
    sentences = [
        f"{TITLE}: {METRIC} at most {100 * workflow.bound:g}%",
        f"{'met' if workflow.met else 'not met'}; on data no step has seen: {100 * workflow.untouched_loss:.4g}%",
        f"{report.workload_name} on {report.system_name}: {amount(report.latency_s, 's')}",
        f"error band: {band_told(report.error_band)}",
    ]
    return data, sentences
