"""The only cache. Everything in it is immutable and found by a scenario's token or by nothing at all."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.shared import formats as fmt
from engine.cost.report import Report
from engine.evaluate import evaluate
from engine.resolve.choices import Choices, choices
from engine.scenario import ScenarioError, decode

if TYPE_CHECKING:
    from app.shared.load import Answer, Load, LoadDetail, ServingLoad
    from engine.analyses.machine import MachineReport
    from engine.analyses.microservice import Microservice
    from engine.analyses.node.operator_kinds import KindColumn
    from engine.analyses.node.tilings import Mapped
    from engine.analyses.programs import Listing, Values
    from engine.choose import Answer as ChosenAnswer
    from engine.published.measured.compare import Measured
    from engine.sweep import Attribution
    from engine.traffic import RequestTimeline, Sla
    from engine.traffic.engines.operating_points import Carried, OperatingPoint

# frozen dataclasses: their repr says all of them
_BY_REPR: dict[str | type[Any], Callable[[Any], Any]] = {
    "app.shared.load.Load": repr,
    "app.shared.load.ServingLoad": repr,
    "engine.traffic.sla.Sla": repr,
}


@st.cache_resource(max_entries=512, show_spinner=False)
def report(token: str) -> Report:
    """Report of a token; raises what `decode` and `evaluate` raise, and then keeps nothing."""
    return evaluate(decode(token))


@st.cache_resource(max_entries=256, show_spinner=False)
def options(token: str) -> Choices:
    """What may be picked beside a scenario."""
    return choices(decode(token))


@st.cache_resource(max_entries=512, show_spinner=False)
def attribution(base: str, other: str, figure: str) -> Attribution:
    """Where the difference of a figure between two tokens comes from; every mixture of both is evaluated."""
    from engine.sweep import attribute  # read when two scenarios are first compared

    return attribute(decode(base), decode(other), figure)


@st.cache_resource(max_entries=64, show_spinner=False)
def chosen(token: str) -> ChosenAnswer:
    """What should carry a workload: the answer to a question's token; raises what `choose` raises."""
    from engine.choose import choose  # read when its page is first opened

    return choose(token)


@st.cache_resource(max_entries=64, show_spinner=False)
def machine(token: str) -> MachineReport:
    """Units, fabric, tiles and arithmetic of a scenario's machine; small networks are run for it."""
    from engine.analyses.machine import (
        machine as machine_of,  # compiled products, read when its part of a page is first opened
    )

    return machine_of(decode(token))


@st.cache_resource(max_entries=256, show_spinner=False)
def pool(token: str, devices: int, clients: int, cores: int, query_ms: float) -> Microservice:
    """A scenario's pool with clients; raises what `microservice` raises."""
    from engine.analyses.microservice import Client, microservice  # compiled queues, read when the page is first opened

    return microservice(decode(token), devices, clients, Client(cores, fmt.MILLISECOND.si(query_ms)))


@st.cache_resource(max_entries=64, show_spinner=False)
def pool_waits(token: str, devices: int, cores: int, query_ms: float) -> tuple[tuple[int, float], ...]:
    """The 95th percentile along the number of clients."""
    from engine.analyses.microservice import Client, waits

    return waits(decode(token), devices, Client(cores, fmt.MILLISECOND.si(query_ms)))


@st.cache_resource(max_entries=1, show_spinner=False)
def published() -> list[dict]:
    """Every published figure beside its prediction."""
    from engine.published import validate  # its predictions are read when the page is first opened

    return validate()


@st.cache_resource(max_entries=16, show_spinner=False)
def measured(text: bytes, most: int) -> Measured:
    """A reader's table of at most so many measurements, each priced; ScenarioError where it can't be used at all."""
    from engine.published.measured.compare import compared, read_measured  # read when a table is first given

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measured.csv"
        path.write_bytes(text)
        data = read_measured(path)
    if len(data.rows) > most:
        raise ScenarioError(
            f"the table has {len(data.rows):,} rows; at most {most:,} are allowed here, any number with "
            "`python -m engine compare-measured`"
        )
    return compared(data)


@st.cache_resource(max_entries=64, show_spinner=False)
def listing(token: str, text: str) -> Listing:
    """A program timed on a scenario's machine."""
    from engine.analyses.programs import listing as found

    return found(decode(token), text)


@st.cache_resource(max_entries=64, show_spinner=False)
def executed(token: str, text: str, most: int) -> tuple[Values, ...]:
    """So many instructions of a program run on numbers."""
    from engine.analyses.programs import execute

    return execute(decode(token), text, most=most)


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=_BY_REPR)
def load_answer(load: Load, sla: Sla) -> Answer:
    """What a scenario carries inside an agreement, and the curve."""
    from app.shared.load import answer  # compiled queues, read when the page that shows them is first opened

    return answer(load, sla)


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=_BY_REPR)
def load_point(load: Load, sla: Sla, qps: float) -> LoadDetail:
    """One load in full."""
    from app.shared.load import point

    return point(load, sla, qps, load_answer(load, sla).capacity)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=_BY_REPR)
def load_window(load: Load, qps: float) -> RequestTimeline:
    """Forty requests on their way."""
    from app.shared.load import window

    return window(load, qps)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=_BY_REPR)
def serving_points(load: ServingLoad) -> tuple[OperatingPoint, tuple[OperatingPoint, ...]]:
    """A serving engine at its load, and along it."""
    from app.shared.load import serving_points as points

    return points(load)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=_BY_REPR)
def serving_most(load: ServingLoad) -> Carried:
    """The highest load that keeps a serving engine's limits."""
    from app.shared.load import serving_most as most

    return most(load)


@st.cache_resource(max_entries=256, show_spinner=False)
def arrangements(token: str) -> dict[str, str | None]:
    """How many queues a scenario can be, with reasons where it can't."""
    from engine.traffic.arrangements import arrangements as found

    return found(decode(token))


@st.cache_resource(max_entries=64, show_spinner=False)
def kinds(token: str) -> tuple[KindColumn, ...]:
    """Time by kind of operator, as it is and with each optimisation turned over."""
    from engine.analyses.node.operator_kinds import by_kind

    return by_kind(decode(token))


@st.cache_resource(max_entries=64, show_spinner=False)
def tiled_names(token: str) -> tuple[str, ...]:
    """Products on a scenario's cards."""
    from engine.analyses.node.tilings import products

    return tuple(op.name for _, op, _ in products(decode(token)))


@st.cache_resource(max_entries=64, show_spinner="Searching tilings")
def tiled(token: str, name: str) -> Mapped:
    """The tilings of one product and a map of its blocks."""
    from engine.analyses.node.tilings import mapped, products

    return next(mapped(*row) for row in products(decode(token)) if row[1].name == name)


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
