"""Requests through a serving engine's calendar of passes, on each of its replicas. Simulated."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.kernels.events.calendar import BINS, calendar
from engine.kernels.events.passes import (
    COUNTS,
    HOST_PEAK,
    PASS,
    PEAK,
    PREEMPTED,
    SWAPPED,
    Requests,
    Rules,
    Times,
    idle_engine,
)
from engine.kernels.events.rng import stream_key
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.service import TrafficError

_INSTANTS = ("arrive", "first", "finish")  # of requests, that a run fills in
_GUESS_STREAM = 6  # of the draws that decide whether a guess is right
_KINDS = {name: kind for name, kind in Rules.__annotations__.items() if name in Scheduler.__annotations__}


@dataclass(frozen=True, eq=False)
class PassRun:
    """What a calendar leaves beside the requests' instants: passes, preemptions, blocks, gaps in bins.

    Of several replicas together: passes in the order of their starts, peaks of blocks in use added up. ``swaps``:
    blocks that crossed the host's link, and the most in its memory; empty where none may.
    """

    log: NDArray[np.float64]
    passes: int
    preemptions: int
    blocks: int
    peak: int
    busy_s: float
    gaps: NDArray[np.int64]
    sums: NDArray[np.float64]
    swaps: tuple[int, ...] = ()


def run_passes(
    times: Times,
    scheduler: Scheduler,
    asked: Requests,
    clients: int = 0,
    *,
    seed: int = 0,
    places: int | None = None,
    groups: int = 1,
    classes: int = 1,
    log_rows: int = 0,
    decodes: bool = False,
) -> PassRun:
    """Run requests through a serving engine, dealt to its replicas in turn; ``asked`` receives their instants.

    Parameters
    ----------
    clients
        Of a closed loop, dealt likewise; 0: all arrivals are given.
    places
        Waiting places of all replicas together, split evenly: who finds them taken while the engine works is turned
        away. None: no limit.
    groups, classes
        Consecutive batches of requests, and priorities, whose gaps between tokens are counted apart: all of a class
        first.
    log_rows
        Passes whose log is kept, of each replica.
    decodes
        Prompts come with their keys and values, so that the last token of each is a step of decoding.

    TrafficError where blocks are swapped without a link, or more than the host's memory takes, or where a preempted
    sequence is more than a pass takes whole.
    """
    if scheduler.preempt == "swap" and scheduler.swap_s <= 0.0:
        raise TrafficError("preempt is 'swap' without a link to the host; swap_s must be a block's seconds there")
    count = min(scheduler.replicas, clients or asked.arrive.size)
    gaps, sums = np.zeros((classes * groups, BINS), np.int64), np.zeros((classes * groups, BINS))
    accept = np.array(scheduler.acceptance, float)
    blocks = scheduler.kv_blocks or int((-(-(asked.inputs + asked.outputs) // scheduler.block)).sum())
    logs, totals, busy_s, passes = [], np.zeros(COUNTS, np.int64), 0.0, 0
    for r in range(count):
        part = asked if count == 1 else Requests(*(np.ascontiguousarray(values[r::count]) for values in asked))
        rules = rules_of(scheduler, blocks, -1 if places is None else len(range(r, places, count)))
        rules = rules._replace(decodes=decodes, read_s=0.0 if decodes else rules.read_s)
        requests, flight = part.arrive.size, len(range(r, clients, count))
        rows = _dealt(part, ranks := min(scheduler.ranks, flight or requests))
        key, log = stream_key(seed, _GUESS_STREAM, r), np.empty((log_rows, len(PASS)))
        state = idle_engine(rows, rules.seats, groups, classes, rules.serial)
        dealt = _counts(requests, ranks), _counts(flight, ranks)
        run, rows_kept, busy = calendar(rows, state, *dealt, rules, times, accept, key, gaps, sums, log)
        if run < 0:
            raise TrafficError(
                f"budget is {scheduler.budget}; without chunks it must take a preempted sequence again, its prompt and "
                f"what it had generated: give at least {(part.inputs + part.outputs).max()}, chunks, or more kv_blocks"
            )
        logs.append(log[:rows_kept])
        totals += state.n.sum(axis=0)
        if scheduler.swap_blocks is not None and (full := int(state.n[:, HOST_PEAK].max())) > scheduler.swap_blocks:
            raise TrafficError(
                f"swap_blocks is {scheduler.swap_blocks}; preempted sequences have {full} in the host's memory at once"
            )
        passes += run
        busy_s += busy
        for name in _INSTANTS if ranks > 1 else ():  # back from the rows of the ranks
            getattr(part, name)[:] = getattr(rows, name).T.ravel()[:requests]
        if count > 1:
            for name in _INSTANTS:
                getattr(asked, name)[r::count] = getattr(part, name)
    merged = np.concatenate(logs)
    order = np.argsort(merged[:, 0], kind="stable")
    room, lost, peak = count * scheduler.ranks * blocks, int(totals[PREEMPTED]), int(totals[PEAK])
    swaps = (int(totals[SWAPPED]), int(totals[HOST_PEAK])) if scheduler.preempt == "swap" else ()
    return PassRun(merged[order], passes, lost, room, peak, busy_s, gaps, sums, swaps)


def rules_of(scheduler: Scheduler, blocks: int, places: int = -1) -> Rules:
    """A scheduler's rules as the calendar takes them, with so many blocks of cache and places to wait; -1: any."""
    return Rules(
        **{name: kind(getattr(scheduler, name)) for name, kind in _KINDS.items()},
        mixed=not scheduler.prefill_first,
        blocks=blocks,
        seats=scheduler.max_seqs,
        late=scheduler.asynchronous,
        row_s=float(scheduler.sequence_s),
        hides=scheduler.asynchronous and scheduler.hidden,
        guesses=len(scheduler.acceptance),
        places=places,
        swaps=scheduler.preempt == "swap",
        serial=scheduler.serial,
    )


def _counts(total: int, ranks: int) -> NDArray[np.int64]:
    """How many of each rank, dealt in turn. [-]"""
    return np.array([len(range(r, total, ranks)) for r in range(ranks)])


def _dealt(asked: Requests, ranks: int) -> Requests:
    """Requests dealt to ranks in turn, a row each; what a shorter row lacks is 0."""
    if ranks == 1:
        return Requests(*(values.reshape(1, -1) for values in asked))
    short = -asked.arrive.size % ranks
    return Requests(*(np.ascontiguousarray(np.pad(values, (0, short)).reshape(-1, ranks).T) for values in asked))


def requests_of(
    arrive: NDArray[np.float64],
    inputs: NDArray[np.int64],
    outputs: NDArray[np.int64],
    cached: NDArray[np.int64] | None = None,
    think: NDArray[np.float64] | None = None,
    priority: NDArray[np.int64] | None = None,
) -> Requests:
    """Requests as the calendar takes them: arrivals and think times [s], tokens; their instants are nan before."""
    n, blank = arrive.size, np.full(arrive.size, np.nan)
    hit, urgent = (np.zeros(n, np.int64) if values is None else values for values in (cached, priority))
    return Requests(arrive, inputs, outputs, hit, np.zeros(n) if think is None else think, blank, blank.copy(), urgent)
