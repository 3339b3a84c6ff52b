"""A pool of accelerators behind the network that CPU servers share: the Node page of such a system."""

from typing import Any

import streamlit as st

from app.shared import cached, parts
from app.shared import formats as fmt
from app.shared.widgets.choices import number
from app.views.node import charts, texts
from engine.analyses.microservice import Client, Microservice, microservice, waits
from engine.cost.report import Report


def _figures(service: Microservice) -> None:
    busy = "over capacity" if service.p95_s is None else f"{fmt.percent(service.utilisation)} busy"
    wait = texts.NO_END if service.p95_s is None else f"p95 {fmt.seconds(service.p95_s)}"
    instances, limit = fmt.counted(service.instances, "instance"), f"{service.most_clients:,} at most"
    rows = [
        ("Pool, requests/s", fmt.si(service.pool_qps), f"{instances}, {busy}"),
        ("One client, requests/s", fmt.si(service.client_qps), fmt.counted(service.clients, "client")),
        ("Clients per instance", fmt.digits3(service.clients_per_instance), limit, texts.CLIENTS_HELP),
        ("Request to answer", fmt.seconds(service.latency_s), wait, texts.WAIT_HELP),
    ]
    parts.metrics(rows, 4)


def pool(report: Report) -> None:
    """The pool's knobs and what it carries."""
    low = report.scenario.devices if report.scenario.scheme != "replicas" else 1
    with parts.card("Hardware microservice", texts.POOL, stretch=False):
        first, second, third, fourth = st.columns(4)
        devices = number(texts.DEVICES, low, 100_000, max(8, low), "pool.devices", widget=first.number_input)
        clients = number("Clients", 1, 1_000_000, 4, "pool.clients", widget=second.number_input)
        cores = number(texts.CORES, 1, 1024, 16, "pool.cores", widget=third.number_input)
        kwargs: dict[str, Any] = {"widget": fourth.number_input, "help": texts.CORE_TIME_HELP}
        core_ms = number(texts.CORE_TIME, 0.001, 100_000.0, 50.0, "pool.ms", **kwargs)
        scenario, client = report.scenario, Client(cores, fmt.MILLISECOND.si(core_ms))
        service = cached.answer(microservice, scenario, devices, clients, client)
        _figures(service)
        st.caption(
            texts.POOL_CAPTION.format(
                message=fmt.plain(service.message), shared_above=fmt.seconds(service.shared_above_s)
            )
        )
        curve = cached.answer(waits, scenario, devices, client)
        if len(curve) > 1:
            fig = charts.waits(curve, clients, parts.dark())
            parts.figure(fig, texts.POOL_ALT.format(message=service.message), "pool")
