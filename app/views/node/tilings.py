"""How a product of the network is cut on a card: a map of two block sizes, the loops in words, bytes beside a bound."""

import streamlit as st

from app.shared import boundary, cached, parts
from app.shared import formats as fmt
from app.shared.figures.heat import heat
from app.shared.widgets.choices import choose, switch
from app.views.node import texts
from engine.analyses.node.tilings import Mapped, products, tiling_map
from engine.scenario import Scenario

_AIMS = {"latency": "Fastest", "energy": "Least energy", "traffic": "Least traffic"}


def tiled_product(scenario: Scenario, name: str) -> Mapped:
    """The tilings of one product and a map of its blocks."""
    return next(tiling_map(*row) for row in products(scenario) if row[1].name == name)


@boundary.fragment
def tilings(scenario: Scenario) -> None:
    """Every tiling of one product: how many, the best ones, and a map of a core's blocks."""
    with st.container(border=True):
        st.markdown(texts.TILINGS)
        if not switch("Search them", "tilings"):
            return
        name = choose("Product", {op.name: op.name for _, op, _ in cached.answer(products, scenario)}, "product")
        with st.spinner("Searching tilings"):
            mapping = cached.answer(tiled_product, scenario, name)
        if not mapping.product.best:
            st.info(texts.NO_TILE, icon=":material/info:")
            return
        best = mapping.product.best["latency"]
        tilings = mapping.product.count_text().capitalize()
        st.markdown(fmt.plain(f"{tilings}, {fmt.count(mapping.product.evaluations)} tried. Fastest: {best.words()}."))
        sizes = [v for row in mapping.bytes for v in row if v is not None]
        traffic, bound = fmt.si(best.near_bytes, "B"), fmt.si(mapping.product.bounds[0], "B")
        answer = texts.TILINGS_ANSWER.format(moved=traffic, least=bound)
        if sizes:
            rows, columns = mapping.rows, mapping.columns
            star = (_nearest(rows, best.inner[0]), _nearest(columns, best.inner[1]))
            titles, scale = (texts.COLUMNS_AXIS, texts.ROWS_AXIS), fmt.scale(sizes, "B")
            fig = heat(columns, rows, mapping.bytes, None, star, titles, texts.BYTES_AXIS, scale, parts.dark())
            parts.figure(fig, texts.TILINGS_ALT.format(name=name, answer=answer), "tilings")
        parts.table(
            [
                {
                    "Best by": _AIMS[aim],
                    "Time": fmt.seconds(tiling.seconds),
                    "Energy": fmt.si(tiling.joules, "J"),
                    texts.TRAFFIC_COLUMN: fmt.si(tiling.near_bytes, "B"),
                    texts.TRAFFIC_BOUND_COLUMN: fmt.si(mapping.product.bounds[0], "B"),
                    "LPDDR": fmt.si(tiling.far_bytes, "B"),
                    "LPDDR, at least": fmt.si(mapping.product.bounds[1], "B"),
                }
                for aim, tiling in mapping.product.best.items()
            ]
        )
        st.caption(texts.TILINGS_CAPTION)


def _nearest(sizes: tuple[int, ...], size: int) -> int:
    """Place of the smallest block size that holds so many rows or columns."""
    return next((i for i, block in enumerate(sizes) if block >= size), len(sizes) - 1)
