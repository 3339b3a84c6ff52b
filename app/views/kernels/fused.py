"""Blocks of networks run depth first on the machine that serves the page, beside what the model expects of them."""

from collections.abc import Callable

from app.shared import host_runs, parts
from app.shared.report_tables import columns
from app.views.kernels import charts, texts
from engine.lab.host.measure.fused import BLOCKS, FusedRun
from engine.lab.host.measure.jobs import block
from engine.lab.host.measure.run import Bounds

_BOUNDS = Bounds(bytes=2e8, seconds=0.6)  # of each block: buffers, and time spent sampling


def on_this_host() -> None:
    """A card with every block."""
    words = [f"{at} of {len(BLOCKS)}: {entry.title}" for at, entry in enumerate(BLOCKS.values(), 1)]
    runs = [((block, name, _BOUNDS), lambda _, text=text: text) for name, text in zip(BLOCKS, words, strict=True)]
    idle = texts.BLOCKS_NOT_MEASURED.format(count=len(BLOCKS)), texts.BLOCKS_NOT_MEASURED_CAPTION
    button = {"icon": ":material/timer:", "help": texts.RUN_HELP}
    host_runs.card(texts.ON_THIS_HOST, texts.RUN_HOST, runs, _show, idle, "k.fused", **button)


def _show(rows: list[FusedRun], say: Callable[[str], object]) -> None:
    faster = sum(run.gain > 1 for run in rows)
    close = sum(abs(run.gain / run.predicted_gain - 1) <= 0.25 for run in rows)
    answer = texts.MEASURED_ANSWER.format(faster=faster, count=len(rows), close=close)
    say(answer)
    parts.figure(charts.speedups(rows, parts.dark()), f"{texts.ON_THIS_HOST}: {answer}.", "fused-host")
    parts.table(columns(rows, texts.BLOCK_COLUMNS), tall=None)
