"""A pool of accelerators behind the network that CPU servers share: the Node page of such a system."""

from __future__ import annotations

import streamlit as st

from app.shared import cached, parts
from app.shared import formats as fmt
from app.shared.figures import machine
from app.shared.widgets.checked import checked
from engine.analyses.microservice import Microservice
from engine.cost.report import Report
from engine.scenario import encode

__all__ = ["pool"]


def _figures(service: Microservice) -> None:
    busy = "over capacity" if service.p95_s is None else f"{fmt.percent(service.utilisation)} busy"
    waits = "no end to the wait" if service.p95_s is None else f"p95 {fmt.seconds(service.p95_s)}"
    fills = "How many clients fill one instance; below one, a client needs several."
    idle = "To an idle instance, network included; below it with these clients."
    with st.grid(4, min_column_width=150):
        for label, value, below, help in (
            ("Pool, requests/s", fmt.si(service.pool_qps), f"{service.instances:,} instances", None),
            ("A client, requests/s", fmt.si(service.client_qps), busy, None),
            (
                "Clients an instance",
                fmt.digits3(service.clients_per_instance),
                f"{service.most_clients:,} at most",
                fills,
            ),
            ("Request to answer", fmt.seconds(service.latency_s), waits, idle),
        ):
            st.metric(label, value, below, border=True, delta_color="off", delta_arrow="off", help=help)


def pool(report: Report) -> None:
    """The pool's knobs and what it carries."""
    own = report.scenario.devices if report.scenario.scheme != "replicas" else 1
    with parts.card("Hardware microservice", "one pool, called by many CPU servers over the network", stretch=False):
        one, two, three, four = st.columns(4)
        devices = checked(one.number_input, "Devices in the pool", own, 100_000, max(8, own), key="pool.devices")
        clients = checked(two.number_input, "Clients", 1, 1_000_000, 4, key="pool.clients")
        cores = checked(three.number_input, "Cores of a client", 1, 1024, 16, key="pool.cores")
        spent = checked(
            four.number_input,
            "Core time a query (ms)",
            0.001,
            100_000.0,
            50.0,
            key="pool.ms",
            help="What a client's core spends on a query beside the call. Assumed.",
        )
        service = cached.pool(encode(report.scenario), int(devices), int(clients), int(cores), float(spent))
        _figures(service)
        st.caption(
            f"{fmt.plain(service.message)}. More than one client shares an instance where a query takes "
            f"{fmt.seconds(service.shared_above_s)} of core time or more. Poisson arrivals, first come first served."
        )
        curve = cached.pool_waits(encode(report.scenario), int(devices), int(cores), float(spent))
        if len(curve) > 1:
            fig = machine.waits(curve, int(clients), parts.dark())
            parts.figure(fig, f"95th percentile along the number of clients: {service.message}.", "pool")
