"""The only cache. Everything in it is immutable and found by a scenario's token, a question's arguments or nothing."""

import gc
import sys
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from engine.cost.report import Report
from engine.evaluate import evaluate
from engine.resolve.choices import Choices, choices
from engine.scenario import Scenario, decode, encode
from entries.schema import InputError

P = ParamSpec("P")
T = TypeVar("T")


@st.cache_resource(max_entries=512, show_spinner=False)
def report(token: str) -> Report:
    """Report of a token; raises what `decode` and `evaluate` raise, and then keeps nothing."""
    return evaluate(decode(token))


def try_report(scenario: Scenario, **changes: Any) -> Report | None:
    """Report of a scenario with these fields changed; None where that can't be evaluated."""
    try:
        return report(encode(scenario.with_(**changes) if changes else scenario))
    except InputError:
        return None


@st.cache_resource(max_entries=256, show_spinner=False)
def options(token: str) -> Choices:
    """What may be picked beside a scenario."""
    return choices(decode(token))


def fastest_tile(scenario: Scenario, sides: Mapping[int, int]) -> tuple[int, ...]:
    """The tile of least latency with these `sides` at some places: an estimate; others as they are set, or every
    value tried.
    """

    def latency(tile: tuple[int, ...]) -> float:
        trial = try_report(scenario, tile=tile)
        return trial.latency_s if trial is not None and trial.fits else float("inf")

    knobs = options(encode(scenario)).knobs
    free = [(now,) for now in scenario.tile] or [knob.values for knob in knobs]
    return min(product(*([sides[at]] if at in sides else values for at, values in enumerate(free))), key=latency)


@st.cache_resource(max_entries=512, show_spinner=False)
def _answer(key: str, _work: Callable[[], Any]) -> Any:
    return _work()


def answer(ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function of the engine answers; raises what it raises, and then keeps nothing.

    Arguments are scenarios or values whose repr says all of them.
    """
    words = (encode(value) if isinstance(value, Scenario) else repr(value) for value in (*args, *kwargs.items()))
    return _answer(" ".join((ask.__module__, getattr(ask, "__qualname__", ""), *words)), lambda: ask(*args, **kwargs))


@st.cache_resource(max_entries=1, show_spinner=False)
def warm_up(token: str) -> None:
    """What other pages need evaluated and imported once the first one is shown; then everything alive is frozen.

    Streamlit collects garbage after every rerun; with numba, plotly and pandas loaded that would be most of a rerun's
    time, and none of it is garbage.
    """
    import plotly.graph_objects  # noqa: F401  # imported so that the next page finds it loaded
    import pyarrow  # noqa: F401  # the same

    report(token)
    gc.collect()
    keep_modules()


_frozen = {"modules": 0}


def keep_modules() -> None:
    """Freeze again once a page has loaded modules of its own: collecting those after each rerun holds up readers."""
    if len(sys.modules) != _frozen["modules"]:
        _frozen["modules"] = len(sys.modules)
        gc.freeze()
