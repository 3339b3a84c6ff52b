"""What a card gives one stream: seconds a multiply-add, a lane operation, a byte and a start take there. Estimates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.devices.card.placement import card_of, levels, wide_format
from engine.devices.common.contract import Job
from hardware_specs.schema import Card

__all__ = ["SUPPLY_OF", "supply"]


def _card(job: Job) -> Card:
    return card_of(job.device)


def _byte_s(job: Job) -> float:
    """LPDDR time of a byte, streams sharing the channel. [s/B]"""
    far, _ = levels(job.device)
    bandwidth = far.bandwidth.si if far.bandwidth else float("inf")
    return job.streams / (bandwidth * job.model["offchip_efficiency"])


SUPPLY_OF: tuple[Callable[[Job], float], ...] = (
    lambda job: 1.0 / (_card(job).mac_per_cycle[job.format].si * _card(job).clock.max.si),
    lambda job: 1.0 / (_card(job).mac_per_cycle[wide_format(job.device, job.format)].si * _card(job).clock.max.si),
    lambda job: 1.0 / (_card(job).vector_bits.si / 16 * _card(job).clock.max.si),
    lambda job: 1.0 / _card(job).clock.max.si,
    lambda job: 1.0 / (_card(job).vector_bits.si / 8 * _card(job).clock.max.si),
    _byte_s,
    lambda job: job.model["kernel_start"],
    lambda job: job.model["dispatch"],
    lambda job: 1.0 / job.model["host_rate"],
    lambda job: job.model["host_start"],
    lambda job: job.streams / job.model["nvm_rate"],
    lambda job: 1.0 / job.model["decoder_rate"],
)
"""What the card gives one stream, in the order of `card_cores.SUPPLY`. Each on its own, for a sweep. [s per unit]"""


def supply(job: Job) -> np.ndarray:
    """`SUPPLY_OF` as a column of the supply array. [s per unit]"""
    return np.array([rate(job) for rate in SUPPLY_OF])
