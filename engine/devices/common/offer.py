"""What some families offer beside a price: tables kept, packets forwarded, results exchanged, a clock that gives way.

Estimates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.devices.common.job import Job
from hardware_specs.schema import Device, NicMemory
from model_zoo.ops import Op


@dataclass(frozen=True)
class TableMemory:
    """How devices keep embedding tables, for plans that leave some of them elsewhere.

    Attributes
    ----------
    bits : job -> stored bits of an element, its part of a row's scale included. [-]
    split : (op, tables elsewhere, switches, model) -> the operator with the tables that stay (None: none does), and
        the one with the others.
    """

    bits: Callable[[Job], float]
    split: Callable[[Op, int, Mapping[str, bool], Mapping[str, float]], tuple[Op | None, Op]]


@dataclass(frozen=True)
class PacketPath:
    """What a device that forwards packets passes on while so many of its threads infer. Estimates.

    Attributes
    ----------
    max_threads, usual : device -> threads that may infer, and those its document has infer. [-]
    infer : job -> threads that infer it. [-]
    line : device -> traffic of all its ports. [B/s]
    beside : (device, packets [B], a job or the threads of one inference, share of their engines' slots that they issue
        in, model) -> the packet from which on all are forwarded at line rate [B], None where no size is; traffic
        forwarded at each size [B/s].
    times : job -> between two packets forwarded beside the job, and of one that is alone. [s]
    memories : device -> each memory its threads read, and the wait for so many bytes of it. [B], [cycle]
    """

    max_threads: Callable[[Device], int]
    usual: Callable[[Device], int]
    infer: Callable[[Job], float]
    line: Callable[[Device], float]
    beside: Callable[
        [Device, Sequence[float], float | Job, float, Mapping[str, float]], tuple[float | None, tuple[float, ...]]
    ]
    times: Callable[[Job], tuple[float, float]]
    memories: Callable[[Device, float], tuple[tuple[NicMemory, float], ...]]


@dataclass(frozen=True)
class CollectiveWire:
    """How devices of a family exchange results of operators that they share.

    Attributes
    ----------
    format : (device, format) -> the format that results travel in.
    form : (job, kind) -> `engine.devices.common.collective.FORMAT`; None: from the link's own data.
    issue : job -> host time of one call, where it issues a collective like an operator; None: no such time. [s]
    """

    format: Callable[[Device, str], str]
    form: Callable[[Job, str], Sequence[float]] | None = None
    issue: Callable[[Job], float] | None = None


@dataclass(frozen=True)
class Governor:
    """How far a device's clock and voltage go down where its work would draw more than its cap. [-]

    Attributes
    ----------
    lowest : share of its highest clock that it can go down to; below, it pauses.
    slope : share of the voltage that goes with the share of the clock that goes.
    reach : its highest clock over the one that energies are stated at.
    """

    lowest: float = 1.0
    slope: float = 0.0
    reach: float = 1.0


NO_GOVERNOR = Governor()
