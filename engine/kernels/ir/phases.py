"""Several threads in one compiled call: jobs dealt by atomic counters, phases closed by waiting for their last job.

A phase has two counters: jobs taken and jobs done. Whoever takes a job does it; a phase is over when all are done. One
thread can do everything alone, so a gang never waits for a thread that was not started, and a slow one is helped.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, intrinsic, kernel, types

__all__ = ["STRIDE", "counters", "job_done", "reached", "take_job", "wait_for"]

STRIDE = 16
"""Counters of one phase in a flat int64 array: taken at the first, done a cache line later."""
_SPINS = 512 if JIT_ENABLED else 1  # looks at a counter before the thread offers its core to others
_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_HAS_YIELD = hasattr(os, "sched_yield")


def counters(phases: int) -> np.ndarray:
    """Fresh counters for a number of phases."""
    return np.zeros(phases * STRIDE, np.int64)


def _place(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.gep(data, [args[1]])


def _added(offset: int) -> Any:
    @intrinsic
    def generated(typingctx: Any, counts: Any, phase: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            index = builder.add(builder.mul(args[1], _I64(STRIDE)), _I64(offset))
            place = _place(context, builder, signature, [args[0], index])
            return builder.atomic_rmw("add", place, _I64(1), "seq_cst")

        return types.intp(counts, types.intp), codegen

    return generated


@intrinsic
def _wait(typingctx: Any, counts: Any, phase: Any, jobs: Any) -> Any:
    """IR of :data:`wait_for`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        index = builder.add(builder.mul(args[1], _I64(STRIDE)), _I64(STRIDE // 2))
        place = _place(context, builder, signature, [args[0], index])
        before, head = builder.block, builder.append_basic_block("look")
        again, rest, after = (builder.append_basic_block(name) for name in ("again", "rest", "over"))
        builder.branch(head)
        builder.position_at_end(head)
        spins = builder.phi(_I64)
        spins.add_incoming(_I64(0), before)
        done = builder.load_atomic(place, "seq_cst", 8)
        builder.cbranch(builder.icmp_signed(">=", done, args[2]), after, again)
        builder.position_at_end(again)
        following = builder.add(spins, _I64(1))
        spins.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, _I64(_SPINS)), head, rest)
        builder.position_at_end(rest)
        if _HAS_YIELD:
            known = builder.module.globals.get("sched_yield")
            builder.call(known or ir.Function(builder.module, ir.FunctionType(_I32, []), "sched_yield"), [])
        spins.add_incoming(_I64(0), builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return types.void(counts, types.intp, types.intp), codegen


@intrinsic
def _look_now(typingctx: Any, counts: Any, index: Any) -> Any:
    """IR: the counter at ``index``, read anew."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature, args), "seq_cst", 8)

    return types.intp(counts, types.intp), codegen


@intrinsic
def _offer_core(typingctx: Any) -> Any:
    """IR: let another thread have the core, where the system can."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if _HAS_YIELD:
            known = builder.module.globals.get("sched_yield")
            builder.call(known or ir.Function(builder.module, ir.FunctionType(_I32, []), "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen


_look: Any = _look_now if JIT_ENABLED else lambda counts, index: counts[index]
_offer: Any = _offer_core if JIT_ENABLED else os.sched_yield if _HAS_YIELD else lambda: None


@kernel
def reached(counts, index, wanted, rests):
    """Whether counter ``index`` of the flat array is at least ``wanted`` before the core was offered ``rests`` times.

    Negative ``rests`` wait for as long as it takes.
    """
    while True:
        for _ in range(_SPINS):
            if _look(counts, index) >= wanted:
                return True
        if rests == 0:
            return False
        rests -= 1
        _offer()


_guard = threading.Lock()


def _take_python(counts: Any, phase: int) -> int:
    with _guard:
        counts[phase * STRIDE] += 1
        return int(counts[phase * STRIDE]) - 1


def _done_python(counts: Any, phase: int) -> None:
    with _guard:
        counts[phase * STRIDE + STRIDE // 2] += 1


def _wait_python(counts: Any, phase: int, jobs: int) -> None:
    while counts[phase * STRIDE + STRIDE // 2] < jobs:
        os.sched_yield()


take_job: Any = _added(0) if JIT_ENABLED else _take_python
"""``take_job(counts, phase)``: number of the next job, which may be beyond the last."""
job_done: Any = _added(STRIDE // 2) if JIT_ENABLED else _done_python
"""``job_done(counts, phase)``: a taken job is finished and its results are visible to who waits."""
wait_for: Any = _wait if JIT_ENABLED else _wait_python
"""``wait_for(counts, phase, jobs)``: returns when that many jobs of the phase are done."""
