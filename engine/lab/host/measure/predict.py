"""One operator of this host as the CPU model prices it."""

from engine.devices.common.contract import Job
from engine.devices.cpu import family
from hardware_specs.schema import Device
from model_zoo.ops import Graph, Op, Phase


def predict_op(device: Device, op: Op, precision: str, threads: int) -> float | None:
    """Time of one operator by itself, run again and again. [s] An estimate; None in formats the CPU has no rate for."""
    low = "fp32" if op.kind == "BinaryGemm" else precision
    if low not in family.formats(device) or (op.kind in ("EmbeddingBag", "Gather") and low != "fp32"):
        return None
    phase = Phase("kernel", (op,))
    switches = {switch.name: switch.name not in ("cold", "network") for switch in family.FAMILY.switches}
    job = Job(
        device=device,
        phase=phase,
        ops=phase.ops,
        graph=Graph((phase,), "call"),
        batch=1,
        length=1.0,
        context=1.0,
        max_context=1.0,
        ways=1,
        streams=1,
        format=low,
        tile=(threads,),
        switches=switches,
        model=family.FAMILY.model(device),
    )
    return family.price(job).total_s
