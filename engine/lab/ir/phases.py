"""Several threads in one compiled call: jobs dealt by atomic counters, phases closed by waiting for their last job.

A phase has two counters: jobs taken and jobs done. Whoever takes a job does it; a phase is over when all are done. One
thread can do everything alone, so a group never waits for a thread that was not started, and a slow one is helped.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, intrinsic, kernel, types

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
