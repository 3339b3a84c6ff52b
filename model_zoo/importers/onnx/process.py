"""ONNX files read in a process of their own, with a limit of time and memory for each.

What parses them is a C++ library that trusts what it reads: a file may keep it busy for ever, fill the memory or end
the process. Then that process is another one, and the file costs a sentence.
"""

from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from entries.worker import WorkerProcess
from model_zoo.families.family import NetworkFamily
from model_zoo.importers.onnx.file import MAX_BYTES
from model_zoo.importers.onnx.model import read_onnx
from model_zoo.ops import Dim, Graph
from model_zoo.schema import Id, Request, Workload, WorkloadError


def read_onnx_workload(path: Path) -> tuple[Workload, Graph]:
    """The workload of a file and its graph; WorkloadError in one sentence where it can't be read.

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
    count = len(graph.ops)
    operators = "1 operator" if count == 1 else f"{count:,} operators"
    workload = Workload(
        schema_version=1,
        id=path.stem,
        name=path.stem,
        family="onnx",
        summary=f"Read from {path.name}: {operators}, {graph.parameters:,.0f} parameters.",
        sources={},
        params={},
        request=Request(inputs=128, outputs=128) if graph.causal else Request(),
    )
    return workload, graph


def _family_of(graph: Graph) -> NetworkFamily:
    """A family with this one graph, which turns nothing and whose requests have lengths as the graph has."""
    counts = (getattr(op, field.name) for op in graph.ops for field in fields(op))
    label = "Length" if any(isinstance(count, Dim) and (count.s or count.c) for count in counts) else None
    words = ("Input tokens", "Output tokens") if graph.causal else (label, None)
    return NetworkFamily("onnx", lambda _: graph, (), {}, {}, input_label=words[0], output_label=words[1])


SECONDS = 60.0  # for one file; the largest allowed take some ten
MEMORY = 6 << 30  # address space of the reader [B]; a file of the largest size takes half


class ImportProcess(WorkerProcess):
    """Reads files one after another; `stop` it. The process starts with the first and anew after one that ended it."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        super().__init__(seconds)
        self.memory = memory

    def read(self, path: Path) -> tuple[Workload, NetworkFamily]:
        """Workload and family; WorkloadError as of `read_onnx_workload`, and where the file takes too much."""
        try:
            workload, graph = self.call(_read, path, self.memory)
        except TimeoutError:
            raise WorkloadError(f"reading it takes more than the {self.seconds:g} s that are allowed") from None
        except ChildProcessError:
            limit = f"{self.memory >> 20} MiB"
            raise WorkloadError(f"reading it ends the reader, or takes more than {limit}") from None
        return workload, _family_of(graph)


def _read(path: Path, memory: int, progress: Any) -> tuple[Workload, Graph]:
    """Workload and graph; WorkloadError says why there are none."""
    with suppress(ImportError, ValueError, OSError):  # not every system has such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        return read_onnx_workload(path)
    except (WorkloadError, OSError):
        raise
    except MemoryError:
        why = f"reading it takes more than the {memory >> 20} MiB that are allowed"
    except Exception as error:  # whatever the file holds
        why = f"can't be used ({type(error).__name__})"
    raise WorkloadError(why)
