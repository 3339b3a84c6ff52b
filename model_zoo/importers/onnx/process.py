"""ONNX files read in a process of their own, with a limit of time and memory for each.

What parses them is a C++ library that trusts what it reads: a file may keep it busy for ever, fill the memory or end
the process. Then that process is another one, and the file costs a sentence.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from model_zoo.families.family import NetworkFamily, Params
from model_zoo.importers.onnx.file import MISSING
from model_zoo.importers.onnx.workload import family_of
from model_zoo.schema import Workload, WorkloadError

SECONDS = 60.0  # for one file; the largest allowed take some ten
MEMORY = 6 << 30  # address space of the reader [B]; a file of the largest size takes half
_ROOT = Path(__file__).resolve().parents[2]


class ImportProcess:
    """Reads files one after another; `close` it. The process starts with the first and anew after one that ended it."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self.seconds, self.memory = seconds, memory
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, path: Path) -> tuple[Workload, NetworkFamily]:
        """What `read_onnx_workload` returns or raises; WorkloadError also where the file takes too much."""
        if find_spec("onnx") is None:
            raise WorkloadError(MISSING)
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self.seconds, stop)
        timer.start()
        try:
            with suppress(OSError):
                process.stdin.write(json.dumps(str(path)).encode() + b"\n")
                process.stdin.flush()
            size = process.stdout.read(8)
            answer = process.stdout.read(int.from_bytes(size, "big")) if len(size) == 8 else b""
        finally:
            timer.cancel()
        if not answer or late.is_set():
            self.close()
            if late.is_set():
                raise WorkloadError(f"reading it takes more than the {self.seconds:g} s that are allowed")
            raise WorkloadError(f"reading it ends the reader, or takes more than {self.memory >> 20} MiB")
        workload, graph, label, refusal = pickle.loads(answer)  # of our own process
        if refusal is not None:
            raise WorkloadError(refusal)
        return workload, family_of(graph, label)

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _start(self) -> subprocess.Popen[bytes]:
        places = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        return subprocess.Popen(
            [sys.executable, "-m", "model_zoo.importers.onnx.process", str(self.memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": places},
        )


def _answer(path: Path, memory: int) -> tuple[Any, Any, Any, str | None]:
    """Workload, graph and name of its length, or why there are none."""
    from model_zoo.importers.onnx.workload import read_onnx_workload

    try:
        workload, family = read_onnx_workload(path)
        return workload, family.build(Params({})), family.input_label, None
    except WorkloadError as error:
        return None, None, None, str(error)
    except MemoryError:
        return None, None, None, f"reading it takes more than the {memory >> 20} MiB that are allowed"
    except OSError as error:
        return None, None, None, f"can't be read ({error.strerror or type(error).__name__})"
    except Exception as error:  # whatever the file holds
        return None, None, None, f"can't be used ({type(error).__name__})"


def _serve(memory: int) -> None:
    """Read the paths of stdin until it ends; answers go where stdout was, whatever a library prints does not."""
    with suppress(ImportError, ValueError, OSError):  # not every system has such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        answer = pickle.dumps(_answer(Path(json.loads(line)), memory))
        out.write(len(answer).to_bytes(8, "big") + answer)
        out.flush()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
