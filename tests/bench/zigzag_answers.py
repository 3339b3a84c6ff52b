"""Asks ZigZag 3.9.1 for the mappings that `zigzag_table` compares with: writes zigzag.json. About three minutes.

`pip install zigzag-dse==3.9.1 six` in an environment of its own, then `python tests/bench/zigzag_answers.py`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

PRODUCTS = {
    "ResNet-50 stage 1, 1 x 1": (3136, 64, 256),
    "ResNet-50 stage 4, 1 x 1": (56, 512, 2048),
    "BERT-base query": (128, 768, 768),
    "BERT-base feed-forward": (128, 3072, 768),
    "DLRM top, first": (64, 1024, 480),
    "DLRM top, second": (64, 1024, 1024),
}
MAPPING = [
    {
        "name": "default",
        "spatial_mapping": {"D1": ["B, 8"], "D2": ["C, 8"], "D3": ["K, 8"]},
        "memory_operand_links": {"O": "O", "W": "I2", "I": "I1"},
    }
]


def answer(name: str, boundaries: str, aim: str, folder: Path) -> dict[str, Any]:
    """ZigZag's best mapping of a product by an aim, its cycles and energy [pJ]."""
    import zigzag
    from zigzag.api import get_hardware_performance_zigzag

    layer = {
        "id": 0,
        "name": "product",
        "operator_type": "Gemm",
        "equation": "O[b][k]+=I[b][c]*W[k][c]",
        "dimension_relations": [],
        "loop_dims": ["B", "K", "C"],
        "loop_sizes": list(PRODUCTS[name]),
        "operand_precision": {"W": 8, "I": 8, "O": 32, "O_final": 8},
        "operand_source": {"W": 0, "I": 0},
    }
    (folder / "workload.yaml").write_text(json.dumps([layer]))
    (folder / "mapping.yaml").write_text(json.dumps(MAPPING))
    energy, cycles, found = get_hardware_performance_zigzag(
        str(folder / "workload.yaml"),
        str(Path(zigzag.__file__).parent / "inputs/hardware/gemm_l1_l3.yaml"),
        str(folder / "mapping.yaml"),
        opt=aim,
        lpf_limit=6,
        dump_folder=str(folder / "out"),
        pickle_filename=str(folder / "out/found.pickle"),
        loma_show_progress_bar=False,
        temporal_mapping_type=boundaries,
    )
    loops = found[0][1][0][0].temporal_mapping.mapping_dic_stationary.items()
    m, n, k = PRODUCTS[name]
    named = {str(o): [[[str(d), count] for d, count in level] for level in levels] for o, levels in loops}
    return {"layer": name, "m": m, "n": n, "k": k, "boundaries": boundaries, "aim": aim} | {
        "picojoules": energy,
        "cycles": cycles,
        "loops": named,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as at:
        rows = [answer(n, b, a, Path(at)) for b in ("even", "uneven") for n in PRODUCTS for a in ("latency", "energy")]
    lines = ",\n".join(map(json.dumps, rows))
    (Path(__file__).parent / "zigzag.json").write_text(f"[\n{lines}\n]\n")
