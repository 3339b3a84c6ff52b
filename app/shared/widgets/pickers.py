"""Pickers of systems and workloads: searchable, grouped by kind."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import streamlit as st

from app.shared import glossary
from app.shared.widgets.controlled import pick
from engine.devices import family
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

_LONGEST = 33  # characters a select box of a 320 px sidebar shows

KINDS = glossary.WORDS["networks"]
"""Families of networks as people group them."""

_DEVICES = (("tpu", "TPU"), ("trainium", "AWS"), ("inferentia", "AWS"), ("gaudi", "Gaudi"), ("cerebras", "Wafer-scale"),
            ("groq", "LPU"), ("jetson", "Edge GPU"), ("bluefield", "DPU"), ("apple", "Apple"))  # fmt: skip


@cache
def kind_of(id: str) -> str:
    """What the first devices of a system are: `GPU`, `TPU`, `Wafer-scale`."""
    catalog = default_catalog()
    device = catalog.system(id).devices[0].device
    return next((kind for word, kind in _DEVICES if word in device), family(catalog.device(device).kind).label)


def system_label(id: str) -> str:
    """`FPGA · DFX appliance`; the name alone where both would be cut."""
    name = default_catalog().system(id).name
    long = f"{kind_of(id)} · {name}"
    return long if len(long) <= _LONGEST else name


def workload_label(id: str, reason: str | None = None) -> str:
    """`LLM · GPT-2 1.5B`, and whether it can't run here."""
    workload = default_zoo().workload(id)
    kind = KINDS.get(workload.family, "")
    name = f"{kind} · {workload.name}" if kind and len(kind + workload.name) + 3 <= _LONGEST else workload.name
    return f"{name} · not here" if reason else name


def workload(
    key: str,
    now: str,
    commit: Callable[[str], None],
    *,
    label: str = "Workload",
    missing: Mapping[str, str | None] | None = None,
    also: str | None = None,
    help: str = "Type to search.",
) -> None:
    """One workload of all, `also` one that a link carries.

    `missing` says of each why the system at hand can't run it, those come last.
    """
    zoo, missing = default_zoo(), missing or {}
    ids = sorted(
        zoo.ids(),
        key=lambda id: (missing.get(id) is not None, KINDS.get(zoo.workload(id).family, "~"), zoo.workload(id).name),
    )
    ids = list(dict.fromkeys([*(id for id in (now, also) if id and id not in ids), *ids]))
    labels = {id: workload_label(id, missing.get(id)) for id in ids}
    pick(label, labels, key, now, commit, help=help)


def all_systems() -> dict[str, str]:
    """Ids of every system with their labels, by kind and name."""
    catalog = default_catalog()
    ids = sorted(catalog.ids("systems"), key=lambda id: (kind_of(id), catalog.system(id).name))
    return {id: system_label(id) for id in ids}


def lengths(workload: str, inputs: int | None, outputs: int | None, args: Callable[[str, int], dict[str, Any]]) -> Any:
    """Lengths of a request by name, as its network calls them, two in a row; ``args`` of each is its widget's own."""
    cells = zip(st.columns(2), glossary.lengths(workload, inputs, outputs).items())
    return {
        name: column.number_input(label, min_value=1, max_value=1_048_576, step=1, **args(name, value))
        for column, (name, (label, value)) in cells
    }


def systems(key: str, now: list[str], commit: Callable[[Any], None]) -> None:
    """Some systems, or all where none is picked."""
    names, help = all_systems(), "Candidates; all where none is picked."
    pick("Systems", names, key, now, commit, st.multiselect, placeholder=f"all {len(names)}", help=help)
