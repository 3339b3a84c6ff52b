"""Depth-first blocks of four networks on this machine: the measured gain beside the one the CPU model predicts.

The model gets this host as `python -m engine calibrate` writes it and has seen none of these blocks. CPU seconds of the
calling thread, medians of interleaved rounds.
"""

from engine.lab.host.calibrate import device_of, host
from engine.lab.host.measure.fused import BLOCKS, measure_block
from tests.bench.timing import Row, row


def rows() -> list[Row]:
    """One row a block: the measured gain, and its ratio to the predicted one, held within a quarter."""
    device, result = device_of(*host()), []
    for name in BLOCKS:
        run = measure_block(name, device, rounds=21, limit_s=5.0)
        ratio = run.gain / run.predicted_gain
        met = bool(run.gain > 1 and 0.75 <= ratio <= 1.25)
        against = f"predicted {run.predicted_gain:.2f} x"
        result.append(row(f"depth first: {run.title}", run.gain, "x", against, ratio, "gain > 1, 0.75 to 1.25", met))
    return result
