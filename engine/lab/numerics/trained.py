"""Wide & Deep trained on this host, and what INT8 costs it.

Measurements: accuracies on rows held out of training, times of this host at this moment.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from engine.lab.numerics.criteo import clicks
from engine.lab.numerics.metrics import auc, log_loss, sqnr_db
from engine.lab.numerics.wide_deep import WideDeep, prepare, train
from engine.lab.numerics.wide_deep_serving import SCHEMES, serve_fp32, serve_int8
from engine.lab.timing import MeasurementCancelled, Progress, Spread, clock_for, sample
from engine.numerics.formats import NumericsError

MOST_ROWS = 400_000
_CALIBRATION = 5_000


@dataclass(frozen=True)
class Quality:
    """How well a network in a precision does on held-out rows."""

    precision: str
    accuracy: float
    auc: float
    log_loss: float  # [nat]
    changed: float  # share of answers other than FP32's
    layers_db: tuple[float, ...]  # signal over error of what each deep layer is given, against FP32. [dB]


@dataclass(frozen=True)
class Speed:
    """Time of one batch. [s]"""

    precision: str
    batch: int
    threads: int
    time: Spread

    @property
    def rate(self) -> float:
        """Samples a second. [1/s]"""
        return self.batch / self.time.median


@dataclass(frozen=True)
class WideDeepStudy:
    """Wide & Deep after training on so many synthetic rows."""

    rows: int
    held_out: int
    base: float  # accuracy of always saying no click
    quality: tuple[Quality, ...]
    speed: tuple[Speed, ...]

    def accuracy_loss(self, precision: str = "INT8 as published") -> float:
        """Accuracy of FP32 less that of another precision. [fraction of all answers]"""
        accuracy = {q.precision: q.accuracy for q in self.quality}
        return accuracy["FP32"] - accuracy[precision]

    @property
    def gain(self) -> float:
        """INT8's rate over FP32's. [-]"""
        rates = {s.precision: s.rate for s in self.speed}
        return rates["INT8 as published"] / rates["FP32"]


@lru_cache(maxsize=2)
def _model(rows: int) -> WideDeep:
    return train(clicks(rows))


def wide_deep_study(
    rows: int = 100_000,
    batch: int = 512,
    threads: int = 1,
    held_out: int = 50_000,
    progress: Progress | None = None,
) -> WideDeepStudy:
    """Train, judge on held-out rows and time each precision; a model of the same rows is trained once a process.

    NumericsError for a number out of range.
    """
    for name, value, low, high in (
        ("rows", rows, 1024, MOST_ROWS),
        ("held_out", held_out, 100, MOST_ROWS),
        ("batch", batch, 1, 65536),
        ("threads", threads, 1, 64),
    ):
        if not low <= value <= high:
            raise NumericsError(f"{name} is {value}; allowed: {low} to {high}")
    steps = 3 + 2 * len(SCHEMES)
    step = iter(range(1, steps + 1))

    def report() -> None:
        if progress is not None and progress(next(step), steps) is False:
            raise MeasurementCancelled

    model = _model(rows)
    report()
    raw = clicks(held_out, seed=1)
    test = prepare(raw, model.top)
    picks = np.arange(batch) % held_out
    quality, speed, plain, exact = [], [], [], np.empty(0)
    calibration = prepare(clicks(min(_CALIBRATION, rows)), model.top)
    for name, scheme in ({"FP32": None} | SCHEMES).items():
        server = serve_int8(model, calibration, scheme) if scheme else serve_fp32(model)
        p = server(raw.ids, test.numbers)
        exact = p if scheme is None else exact
        right = float(((p > 0.5) == test.labels).mean())
        flips = float(((p > 0.5) != (exact > 0.5)).mean())
        inputs = server.inside(raw.ids, test.numbers)
        plain = plain or inputs
        ratios = tuple(sqnr_db(a, b) for a, b in zip(plain, inputs, strict=True)) if quality else ()
        quality.append(Quality(name, right, auc(test.labels, p), log_loss(test.labels, p), flips, ratios))
        report()
        once = partial(server, raw.ids[picks], test.numbers[picks], threads=threads)
        speed.append(Speed(name, batch, threads, sample(once, clock_for(threads), seconds=0.5)))
        report()
    return WideDeepStudy(rows, held_out, float(1 - test.labels.mean()), tuple(quality), tuple(speed))
