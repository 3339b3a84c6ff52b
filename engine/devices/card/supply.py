"""What a card gives one stream: seconds a multiply-add, a lane operation, a byte and a start take there. Estimates."""

from __future__ import annotations

from engine.devices.card.placement import card_of, levels, wide_format
from engine.devices.common.contract import Job

__all__ = ["supply"]


def _byte_s(job: Job) -> float:
    """LPDDR time of a byte, streams sharing the channel. [s/B]"""
    far, _ = levels(job.device)
    bandwidth = far.bandwidth.si if far.bandwidth else float("inf")
    return job.streams / (bandwidth * job.model["offchip_efficiency"])


def supply(job: Job) -> list[float]:
    """What the card gives one stream, in the order of `engine.devices.card.cores.SUPPLY`. [s per unit]"""
    card, model = card_of(job.device), job.model
    clock = card.clock.max.si
    return [
        1.0 / (card.mac_per_cycle[job.format].si * clock),
        1.0 / (card.mac_per_cycle[wide_format(job.device, job.format)].si * clock),
        1.0 / (card.vector_bits.si / 16 * clock),
        1.0 / clock,
        1.0 / (card.vector_bits.si / 8 * clock),
        _byte_s(job),
        model["kernel_start"],
        model["dispatch"],
        1.0 / model["host_rate"],
        model["host_start"],
        job.streams / model["nvm_rate"],
        1.0 / model["decoder_rate"],
    ]
