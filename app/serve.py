"""The server: the pages of ``main.py`` behind the guard, and the upkeep beside them. `streamlit run app/serve.py`."""

import faulthandler
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse
from starlette.routing import Route

from app.server.guard import Guard, Health, PageStyle
from app.server.upkeep import upkeep
from app.shared import link
from app.shared.legible import early
from engine.evaluate import evaluate


@asynccontextmanager
async def alive(_: st.App) -> AsyncIterator[None]:
    """Upkeep as long as the server lives; where it dies of a signal, what every thread did is written down."""
    faulthandler.enable()
    stop = threading.Event()
    threading.Thread(target=upkeep, args=(stop,), name="upkeep", daemon=True).start()
    try:
        yield
    finally:
        stop.set()


app = st.App(
    "main.py",
    lifespan=alive,
    routes=[Route("/home", lambda request: RedirectResponse(f"/?{request.url.query}"))],  # Streamlit knows `/` alone
    middleware=[Middleware(Guard, health=Health(lambda: evaluate(link.home()))), Middleware(PageStyle, text=early())],
)
