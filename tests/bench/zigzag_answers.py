"""Asks ZigZag 3.9.1 for the mappings that `zigzag_table` compares with: writes zigzag.json. About fifteen minutes.

`pip install zigzag-dse==3.9.1 six` in an environment of its own, then `python tests/bench/zigzag_answers.py`. Mappings
of ours that it is to price stand in zigzag_orders.json, which `python -m tests.bench.zigzag_table --orders` writes.
"""

import json
import tempfile
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PRODUCTS = {
    "ResNet-50 stage 1, 1 x 1": (3136, 64, 256),
    "ResNet-50 stage 4, 1 x 1": (56, 512, 2048),
    "BERT-base query": (128, 768, 768),
    "BERT-base feed-forward": (128, 3072, 768),
    "DLRM top, first": (64, 1024, 480),
    "DLRM top, second": (64, 1024, 1024),
}
CONVOLUTIONS = {  # filters, channels, height and width of what leaves, window, stride
    "ResNet-18 stem": (64, 3, 112, 7, 2),
    "ResNet-18 stage 1": (64, 64, 56, 3, 1),
    "ResNet-18 stage 3, first": (256, 128, 14, 3, 2),
    "AlexNet second": (192, 64, 27, 5, 1),
    "VGG-16 stage 5": (512, 512, 14, 3, 1),
}
MACHINES = {  # images, which stand side by side where an axis of the array is theirs; what lies on it; bits of a sum
    "gemm_l1_l3": (8, {"D1": ["B, 8"], "D2": ["C, 8"], "D3": ["K, 8"]}, 32),
    "tpu_like": (1, {"D1": ["K, 32"], "D2": ["C, 32"]}, 16),
}
PRODUCT = {
    "operator_type": "Gemm", "equation": "O[b][k]+=I[b][c]*W[k][c]", "dimension_relations": [],
}  # fmt: skip


def _convolution(name: str, machine: str) -> dict[str, Any]:
    filters, channels, side, window, stride = CONVOLUTIONS[name]
    sizes = {"B": MACHINES[machine][0], "K": filters, "C": channels, "OY": side, "OX": side, "FY": window, "FX": window}
    return {
        "operator_type": "Conv",
        "equation": "O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]",
        "dimension_relations": [f"ix={stride}*ox+1*fx", f"iy={stride}*oy+1*fy"],
        "loop_dims": list(sizes),
        "loop_sizes": list(sizes.values()),
    }


def answer(
    layer: dict[str, Any], machine: str, ask: dict[str, str], folder: Path, order: list | None
) -> dict[str, Any]:
    """ZigZag's best mapping of a layer by an aim, or the one given: its loops, cycles and energy [pJ]."""
    import zigzag
    from zigzag.api import get_hardware_performance_zigzag

    _, spatial, bits = MACHINES[machine]
    layer |= {"id": 0, "name": "layer", "operand_source": {"W": 0, "I": 0}}
    layer |= {"operand_precision": {"W": 8, "I": 8, "O": bits, "O_final": 8}}
    mapping = {"name": "default", "spatial_mapping": spatial, "memory_operand_links": {"O": "O", "W": "I2", "I": "I1"}}
    if order:
        mapping["temporal_ordering"] = order
    (folder / "workload.yaml").write_text(json.dumps([layer]))
    (folder / "mapping.yaml").write_text(json.dumps([mapping]))
    energy, cycles, found = get_hardware_performance_zigzag(
        str(folder / "workload.yaml"),
        str(Path(zigzag.__file__).parent / f"inputs/hardware/{machine}.yaml"),
        str(folder / "mapping.yaml"),
        opt=ask["aim"],
        lpf_limit=6,
        dump_folder=str(folder / "out"),
        pickle_filename=str(folder / "out/found.pickle"),
        loma_show_progress_bar=False,
        temporal_mapping_type=ask["boundaries"],
    )
    loops = found[0][1][0][0].temporal_mapping.mapping_dic_stationary.items()
    named = {str(o): [[[str(d), count] for d, count in level] for level in levels] for o, levels in loops}
    return (
        {"tool": f"zigzag-dse {version('zigzag-dse')}"} | ask | {"picojoules": energy, "cycles": cycles, "loops": named}
    )


def _asked() -> list[tuple[dict[str, Any], dict[str, Any], str, list | None]]:
    """What is asked, the layer, the machine and the mapping to price, if it is given."""
    result = []
    aims = ("latency", "energy")
    for ask in [{"boundaries": b, "aim": a, "layer": n} for b in ("even", "uneven") for n in PRODUCTS for a in aims]:
        m, n, k = PRODUCTS[ask["layer"]]
        layer = PRODUCT | {"loop_dims": ["B", "K", "C"], "loop_sizes": [m, n, k]}
        result.append((ask | {"m": m, "n": n, "k": k}, layer, "gemm_l1_l3", None))
    orders = json.loads((HERE / "zigzag_orders.json").read_text())
    for machine, (name, shape), aim in product(MACHINES, CONVOLUTIONS.items(), aims):
        ask = {"layer": name, "machine": machine, "boundaries": "even", "aim": aim}
        ask["shape"] = [MACHINES[machine][0], *shape]
        result.append((ask, _convolution(name, machine), machine, None))
        if order := orders.get(f"{machine} {name} {aim}"):
            result.append((ask | {"of": "ours"}, _convolution(name, machine), machine, order))
    return result


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as at:
        rows = [answer(layer, machine, ask, Path(at), order) for ask, layer, machine, order in _asked()]
    lines = ",\n".join(map(json.dumps, rows))
    (HERE / "zigzag.json").write_text(f"[\n{lines}\n]\n")
