"""``python -m engine import``: a model's configuration becomes a workload of the user's own folder."""

import argparse
import sys
from pathlib import Path

from engine.cli.command import Answer
from engine.scenario import ScenarioError
from engine.scenario.files import beside, writable
from engine.scenario.sentences import amount
from model_zoo.carried import in_link
from model_zoo.catalog import default_zoo, own_folder
from model_zoo.families import FAMILIES, build_graph
from model_zoo.importers.huggingface import read_config_file, to_yaml


def import_config(args: argparse.Namespace) -> Answer | None:
    """The workload of a configuration: written, shown or as a link."""
    workload = read_config_file(Path(args.config), args.id)
    if args.show:
        sys.stdout.write(to_yaml(workload))
        return None
    if args.link:
        return {"id": in_link(workload)}, [in_link(workload)]
    zoo = default_zoo()
    if workload.id in zoo.ids() and not zoo.is_guest(workload.id):
        raise ScenarioError(f"id is {workload.id!r}, which the zoo has already: give another --id")
    target = own_folder() / f"{workload.id}.yaml"
    writable(target, args.force, folder=True)
    with beside(target) as path:
        path.write_text(to_yaml(workload))
    graph = build_graph(FAMILIES[workload.family], {key: number.value for key, number in workload.params.items()})
    first, per_token = graph.state_elements.at(context=0), graph.state_elements.per_token
    data = {
        "id": workload.id,
        "path": str(target),
        "parameters": graph.parameters,
        "precision": workload.precision,
        "kv_elements_per_token": per_token,
        "state_elements_per_sequence": first,
        "notes": list(workload.notes),
    }
    state = f" and {amount(2 * first, 'B')} of state per sequence" if first else ""
    parameters = graph.parameters
    count = f"{parameters / 1e9:,.3f} B" if parameters >= 1e8 else f"{parameters / 1e6:,.3f} M"
    lines = [
        f"{workload.id}: {count} parameters in {workload.precision}, {amount(2 * per_token, 'B')} of "
        f"KV cache per token{state} (FP16)",
        f"written to {target}",
        *workload.notes,
    ]
    return data, lines
