"""ONNX files read in a process of their own, with a limit of time and memory for each.

What parses them is a C++ library that trusts what it reads: a file may keep it busy for ever, fill the memory or end
the process. Then that process is another one, and the file costs a sentence.
"""

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from entries.worker import WorkerProcess
from model_zoo.families.family import NetworkFamily, Params
from model_zoo.importers.onnx.file import MISSING
from model_zoo.importers.onnx.workload import family_of, read_onnx_workload
from model_zoo.ops import Graph
from model_zoo.schema import Workload, WorkloadError

SECONDS = 60.0  # for one file; the largest allowed take some ten
MEMORY = 6 << 30  # address space of the reader [B]; a file of the largest size takes half


class ImportProcess(WorkerProcess):
    """Reads files one after another; `stop` it. The process starts with the first and anew after one that ended it."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        super().__init__(seconds)
        self.memory = memory

    def read(self, path: Path) -> tuple[Workload, NetworkFamily]:
        """What `read_onnx_workload` returns or raises; WorkloadError also where the file takes too much."""
        if find_spec("onnx") is None:
            raise WorkloadError(MISSING)
        try:
            workload, graph, label = self.call(_read, path, self.memory)
        except TimeoutError:
            raise WorkloadError(f"reading it takes more than the {self.seconds:g} s that are allowed") from None
        except ChildProcessError:
            most = f"{self.memory >> 20} MiB"
            raise WorkloadError(f"reading it ends the reader, or takes more than {most}") from None
        return workload, family_of(graph, label)


def _read(path: Path, memory: int, progress: Any) -> tuple[Workload, Graph, str | None]:
    """Workload, graph and name of its length; WorkloadError says why there are none."""
    with suppress(ImportError, ValueError, OSError):  # not every system has such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        workload, family = read_onnx_workload(path)
        return workload, family.build(Params({})), family.input_label
    except (WorkloadError, OSError):
        raise
    except MemoryError:
        why = f"reading it takes more than the {memory >> 20} MiB that are allowed"
    except Exception as error:  # whatever the file holds
        why = f"can't be used ({type(error).__name__})"
    raise WorkloadError(why)
