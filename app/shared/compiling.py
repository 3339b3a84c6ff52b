"""What a page waits for while its formulas are made machine code, which a machine does once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx

from engine.devices import FAMILIES, family
from engine.kernels.jit import Compilation, compilation

_LOOK_S = 0.5  # between two looks; who waits less is told nothing


def sentence(now: Compilation) -> str:
    """What is compiled, and for how long by now."""
    kind = next((kind for kind, module in FAMILIES.items() if now.module.startswith(module.removesuffix("family"))), "")
    target = f"the price model ({family(kind).title})" if kind else "the functions that this takes"
    return f"Compiling {target}, once on this machine: {now.taken_s:.0f} s so far."


@contextmanager
def notice(slot: DeltaGenerator) -> Iterator[None]:
    """While what is inside takes longer than a moment and something is compiled, `slot` says what."""
    end = threading.Event()

    def watch() -> None:
        visible = False
        while not end.wait(_LOOK_S):
            if (now := compilation()) is not None:
                slot.info(sentence(now), icon=":material/hourglass_top:")
            elif visible:
                slot.empty()
            visible = now is not None
        if visible:
            slot.empty()

    watcher = threading.Thread(target=watch, name="compiling", daemon=True)
    add_script_run_ctx(watcher, get_script_run_ctx())
    watcher.start()
    try:
        yield
    finally:
        end.set()
        watcher.join()
