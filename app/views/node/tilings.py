"""How a product of the network is cut on a card: a map of two block sizes, the loops in words, bytes beside a bound."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.shared import boundary, cached, parts
from app.shared import formats as fmt
from app.shared.figures.heat import ObjectiveAxis, heat
from app.shared.widgets.choices import choose, switch
from engine.scenario import Scenario, encode

__all__ = ["tilings"]

_AIMS = {"latency": "Fastest", "energy": "Least energy", "traffic": "Least traffic"}


@boundary.fragment
def tilings(scenario: Scenario) -> None:
    """Every tiling of one product: how many, the best ones, and a map of a core's blocks."""
    with st.container(border=True):
        st.markdown("**Tilings of a product** :gray[· blocks and loops for two levels of memory, every one searched]")
        if not switch("Search them", "tilings"):
            return
        token = encode(scenario)
        name = choose("Product", {name: name for name in cached.tiled_names(token)}, "product")
        tiled = cached.tiled(token, name)
        if not tiled.product.best:
            st.info("No tile of this product fits a core's memory.", icon=":material/info:")
            return
        best = tiled.product.best["latency"]
        told = tiled.product.counted().capitalize()
        st.markdown(fmt.plain(f"{told}, {fmt.count(tiled.product.tried)} tried. Fastest: {best.words()}."))
        known = [v for row in tiled.bytes for v in row if v is not None]
        answer = f"{fmt.si(best.near_bytes, 'B')} into and out of cores, no tiling below "
        answer += fmt.si(tiled.product.least[0], "B")
        if known:
            rows, columns = tiled.rows, tiled.columns
            now = (best.inner[0], best.inner[1])
            star = (_nearest(rows, now[0]), _nearest(columns, now[1]))
            axis = ObjectiveAxis("Bytes into and out of cores", "B", fmt.scale(known, "B"), True)
            fig = heat(
                [f"{v:,}" for v in columns], [f"{v:,}" for v in rows], tiled.bytes, None, star,
                ("Columns of a block", "Rows of a block"), axis, parts.dark(),
            )  # fmt: skip
            parts.figure(fig, f"Bytes by block of {name}: {answer}.", "tilings")
        st.dataframe(
            pd.DataFrame(
                [
                    {
                        "Best by": _AIMS[aim],
                        "Time": fmt.seconds(tiling.seconds),
                        "Energy": fmt.si(tiling.joules, "J"),
                        "Into and out of cores": fmt.si(tiling.near_bytes, "B"),
                        "At least ": fmt.si(tiled.product.least[0], "B"),
                        "LPDDR": fmt.si(tiling.far_bytes, "B"),
                        "At least": fmt.si(tiled.product.least[1], "B"),
                    }
                    for aim, tiling in tiled.product.best.items()
                ]
            ),
            hide_index=True,
            alt=f"The best tilings of {name} by latency, energy and traffic, with lower bounds of bytes",
        )
        st.caption("The star is the fastest one. Blocks are as deep as fits; what stays empty does not fit.")


def _nearest(sizes: tuple[int, ...], size: int) -> int:
    """Place of the smallest block size that holds so many rows or columns."""
    return next((i for i, one in enumerate(sizes) if one >= size), len(sizes) - 1)
