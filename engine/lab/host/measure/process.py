"""A run in a process of its own: beside a server that is not to wait for it, nor share its faults."""

from collections.abc import Callable
from typing import Any

from engine.lab.host.measure.cases import MeasureError
from engine.lab.timing import MeasurementCancelled, Progress
from entries.worker import WorkerProcess


class MeasuringProcess(WorkerProcess):
    """One measuring process. For one caller at a time."""

    def run(self, job: Callable[..., Any], *args: Any, progress: Progress) -> Any:
        """What ``job(*args, progress=...)`` returns there; raises what it raises.

        The process is ended when ``progress`` returns False (`MeasurementCancelled`), and after the limit, compiling
        included (`MeasureError`).
        """
        given_up = []

        def report(count: int, of: int) -> bool:
            given_up[:] = [progress is not None and progress(count, of) is False]
            return not given_up[0]

        try:
            return self.call(job, *args, progress=report)
        except TimeoutError:
            if any(given_up):
                raise MeasurementCancelled from None
            raise MeasureError(f"the run took longer than {self.seconds:.0f} s, the most allowed") from None
        except ChildProcessError as error:
            sentence = f"the measuring process ended by itself (status {error.args[0]}); nothing was measured"
            raise MeasureError(sentence) from None
