"""A user's ONNX file as a workload like any other: its name, what it holds, and a family with this one graph."""

from dataclasses import fields
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from model_zoo.families.family import NetworkFamily
from model_zoo.importers.onnx.file import MAX_BYTES
from model_zoo.importers.onnx.model import read_onnx
from model_zoo.ops import Dim, Graph, Op
from model_zoo.schema import Id, Request, Workload, WorkloadError


def read_onnx_workload(path: Path) -> tuple[Workload, NetworkFamily]:
    """The network of a file and its family, which turns nothing; WorkloadError in one sentence where it can't be read.

    Counts are exact as far as `read_onnx` says. A request is a batch of 1 and, where the network has a length, one
    of 1: a file holds neither; of a decoder 128 tokens in and out. OSError where the file can't be read.
    """
    try:
        TypeAdapter(Id).validate_python(path.stem)
    except ValidationError:
        raise WorkloadError(
            "the name is the network's id: at most 63 lower-case letters, digits, dots and hyphens are allowed"
        ) from None
    with path.open("rb") as file:
        graph = read_onnx(file.read(MAX_BYTES + 1))
    label = "Length" if any(_grows(op) for op in graph.ops) else None
    workload = Workload(
        schema_version=1,
        id=path.stem,
        name=path.stem,
        family="onnx",
        summary=f"Read from {path.name}: {_said(graph)}.",
        sources={},
        params={},
        request=Request(inputs=128, outputs=128) if graph.causal else Request(),
    )
    return workload, family_of(graph, label)


def family_of(graph: Graph, label: str | None) -> NetworkFamily:
    """A family with this one graph, whose requests have lengths as the graph has."""
    words = ("Input tokens", "Output tokens") if graph.causal else (label, None)
    return NetworkFamily("onnx", lambda _: graph, (), {}, {}, input_label=words[0], output_label=words[1])


def _grows(op: Op) -> bool:
    """Whether any count of an operator grows with the length of a pass or what it attends to."""
    counts = (getattr(op, field.name) for field in fields(op))
    return any(count.s or count.c for count in counts if isinstance(count, Dim))


def _said(graph: Graph) -> str:
    ops = sum(len(phase.ops) for phase in graph.phases)
    operators = "1 operator" if ops == 1 else f"{ops:,} operators"
    return f"{operators}, {graph.parameters:,.0f} parameters"
