"""What a card gives one stream: seconds a multiply-add, a lane operation, a byte and a start take there. Estimates."""

from engine.devices.card.placement import card_of, cores_of, levels, line_bytes, wide_format
from engine.devices.common.cached import remembered
from engine.devices.common.column import larger, one_by_one
from engine.devices.common.counts import places
from engine.devices.common.job import Job

S = places(
    "low_s wide_s lane_s cycle_s port_s far_s start_s solo_s host_op_s host_start_s beyond_s pixel_s sram_s cache_s "
    "line_s"
)
"""What a card supplies: rows of an array with a column for each design. [s per unit]"""


def _byte_s(job: Job) -> float:
    """LPDDR time of a byte, streams sharing the channel. [s/B]"""
    far, _ = levels(job.device)
    bandwidth = far.bandwidth.si if far.bandwidth else float("inf")
    return job.streams / (bandwidth * job.model["offchip_efficiency"])


def _near_s(job: Job, per: str) -> float:
    """Time of a byte in the on-chip memory of a core, or in the one they share, where it has a bandwidth. [s/B]"""
    near_s = [m.bandwidth.si for m in levels(job.device)[1] if m.per == per and m.bandwidth is not None]
    return (job.streams if per == "device" else 1.0) / near_s[0] if near_s else 0.0


def _busy_banks(banks: float, waiting: float) -> float:
    """Banks of a channel that so many requests to rows anywhere keep busy, on average. [-]"""
    return banks * (1.0 - (1.0 - 1.0 / banks) ** max(waiting, 1.0))


def _line_s(job: Job) -> float:
    """LPDDR time of a line that is read by itself: the slowest of three. [s]

    A bank opens a row for it, and is busy for a row cycle; the wires carry it; and a core waits for it with only so
    many others outstanding. Lines are dealt to the channels in turn, requests to banks by chance.
    """
    far, _ = levels(job.device)
    transfer_s = line_bytes(far) * _byte_s(job)
    if far.bandwidth is None or far.channel is None or far.banks is None or far.row_cycle is None:
        return transfer_s
    channels = far.bandwidth.si / far.channel.si
    waiting = job.model["outstanding"] * cores_of(job)
    banks = one_by_one(_busy_banks, far.banks.si, waiting * job.streams / channels)
    row_s = job.streams * far.row_cycle.si / (banks * channels * job.model["offchip_efficiency"])
    latency = far.latency.si if far.latency is not None else 0.0
    return larger(larger(transfer_s, row_s), latency / waiting)


@remembered(lambda job: job.key)
def supply(job: Job) -> list[float]:
    """What the card gives one stream, in the order of `S`. [s per unit]"""
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
        _near_s(job, "core"),
        _near_s(job, "device"),
        _line_s(job),
    ]
