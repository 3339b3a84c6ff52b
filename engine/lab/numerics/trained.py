"""Wide & Deep trained on this host, and what INT8 costs it.

Measurements: accuracies on rows held out of training, times of this host at this moment.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.lab.numerics.criteo import clicks
from engine.lab.numerics.metrics import auc, log_loss, sqnr_db
from engine.lab.numerics.wide_deep import WideDeep, prepare, probabilities, train
from engine.lab.numerics.wide_deep_serving import (
    ON_CODES,
    PUBLISHED,
    REFINED,
    SYMMETRIC,
    Scheme,
    Server,
    serve_fp32,
    serve_int8,
)
from engine.lab.timing import MeasurementCancelled, Progress, Spread, clock_for, sample
from engine.numerics.formats import NumericsError

MOST_ROWS = 400_000
_CALIBRATION = 5_000


_SCHEMES: dict[str, Scheme | None] = {
    "FP32": None,
    "INT8 as published": PUBLISHED,
    "INT8 symmetric first": SYMMETRIC,
    "INT8 calibrated on INT8": ON_CODES,
    "INT8 refined": REFINED,
}


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

    def gain(self, batch: int) -> float:
        """INT8's rate over FP32's at a batch. [-]"""
        by = {s.precision: s.rate for s in self.speed if s.batch == batch}
        return by["INT8 as published"] / by["FP32"]


@lru_cache(maxsize=2)
def _model(rows: int) -> WideDeep:
    return train(clicks(rows))


def _report(progress: Progress | None, step: int, of: int) -> None:
    if progress is not None and progress(step, of) is False:
        raise MeasurementCancelled


def wide_deep_study(
    rows: int = 100_000,
    batches: tuple[int, ...] = (64, 512),
    threads: int = 1,
    held_out: int = 50_000,
    progress: Progress | None = None,
) -> WideDeepStudy:
    """Train, judge on held-out rows and time each precision; a model of the same rows is trained once a process.

    NumericsError for a number out of range.
    """
    for name, value, low, high in (("rows", rows, 1024, MOST_ROWS), ("held_out", held_out, 100, MOST_ROWS)):
        if not low <= value <= high:
            raise NumericsError(f"{name} is {value}; allowed: {low} to {high}")
    wrong = [b for b in batches if not 1 <= b <= 65536]
    if wrong or not batches:
        raise NumericsError(f"batch is {wrong[0] if wrong else 'missing'}; allowed: 1 to 65536")
    if not 1 <= threads <= 64:
        raise NumericsError(f"threads is {threads}; allowed: 1 to 64")
    steps = 1 + len(_SCHEMES) * (1 + len(batches))
    model, step = _model(rows), 1
    _report(progress, step, steps)
    raw = clicks(held_out, seed=1)
    test = prepare(raw, model.top)
    exact = probabilities(model, test)
    quality, speed, plain = [], [], []
    calibration = prepare(clicks(min(_CALIBRATION, rows)), model.top)
    for name, scheme in _SCHEMES.items():
        server = serve_int8(model, calibration, scheme) if scheme else serve_fp32(model)
        p = server(raw.ids, test.numbers)
        right = float(((p > 0.5) == test.labels).mean())
        flips = float(((p > 0.5) != (exact > 0.5)).mean())
        inputs = server.inside(raw.ids, test.numbers)
        plain = plain or inputs
        ratios = tuple(sqnr_db(a, b) for a, b in zip(plain, inputs, strict=True)) if quality else ()
        quality.append(Quality(name, right, auc(test.labels, p), log_loss(test.labels, p), flips, ratios))
        step += 1
        _report(progress, step, steps)
        for batch in batches:
            picks = np.arange(batch) % held_out
            ids, numbers = raw.ids[picks], test.numbers[picks]

            def once(server: Server = server, ids: np.ndarray = ids, numbers: np.ndarray = numbers) -> object:
                return server(ids, numbers, threads=threads)

            speed.append(Speed(name, batch, threads, sample(once, clock_for(threads), seconds=0.5)))
            step += 1
            _report(progress, step, steps)
    return WideDeepStudy(rows, held_out, float(1 - test.labels.mean()), tuple(quality), tuple(speed))
