"""What a card's cores supply, in the order in which a schedule reads it (`engine.devices.card.points`)."""

from __future__ import annotations

# what a card supplies: rows of a supply array, a column a design point
(
    LOW_S,
    WIDE_S,
    LANE_S,
    CYCLE_S,
    PORT_S,
    FAR_S,
    START_S,
    SOLO_S,
    HOST_OP_S,
    HOST_START_S,
    BEYOND_S,
    PIXEL_S,
    SRAM_S,
    CACHE_S,
    LINE_S,
    SUPPLIES,
) = range(16)
