"""Fit the constants of the GPU operator models on one half of the measured shapes, and judge them on the other.

    python -m tests.bench.fit_gpu_operators [--data DIR] [--kinds gemm,moe] [--only hopper] [--write] [--table FILE]

Reads ``<kind>.csv.xz`` of ``--data`` (the thinned rows beside this file unless given), prints a row of errors for
each part, format and runtime, and with ``--write`` renews ``fitted.yaml`` and ``bands.yaml`` beside the models.
``--table`` fits nothing: it writes how far off the shipped constants are, beside what was aimed at and how far
runtimes disagree.
Shapes are halved by a digest of the shape, so that a shape left out is left out on every part.
"""

import argparse
import lzma
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.optimize import least_squares

from engine.devices.gpu.operators.kinds import KINDS, Kind
from engine.devices.gpu.operators.predict import named_part, variant_of
from engine.devices.gpu.operators.record import NoModel, Part, facts
from engine.devices.gpu.operators.rows import parse_columns, read_rows
from engine.devices.gpu.operators.slots import REGIME, REGIMES, SECONDS

HERE = Path(__file__).parent / "gpu_operators"
HOME = Path(__file__).parents[2] / "engine" / "devices" / "gpu" / "operators"
LEAST_ROWS = 40  # of a band
FLOOR_RATE = 0.08  # residuals in logarithms beyond this count linearly: a few rows are 10 to 100 times off
WEIGHTS = {"sglang": 0.4, "int8_wo": 0.15, "int4_wo": 0.15, "sq": 0.15, "nvfp4": 0.5}
AIMS = {  # kind and format: median and 90th percentile of |predicted / measured - 1| that are aimed at
    "gemm bfloat16": (0.06, 0.20),
    "gemm fp8": (0.07, 0.20),
    "gemm fp8_block": (0.10, 0.35),
    "gemm nvfp4": (0.10, 0.35),
    "attention_decode": (0.08, 0.25),
    "attention_prefill": (0.12, 0.35),
    "moe": (0.18, 0.45),
    "all_reduce": (0.15, np.inf),
}
FEW_HEADS = 16  # KV heads up to which decoding is judged
TABLE = """# Measured GPU operators: how far off

Written by `python -m tests.bench.fit_gpu_operators --data DIR --table docs/GPU_OPERATORS.md`, from every row of the
sample that `tests/bench/gpu_operators/README.md` names: predicted over measured, on the half of the shapes that no
constant has seen. Decoding is judged where KV heads are {few} or fewer. Apart is how far two runtimes measured on the
same shapes disagree, after their median ratio is taken out (median / 90th percentile). Products of 16 bits run one
library in both, so there it is the data's own noise; elsewhere kernels differ.

| kind | part | format, runtime | rows | median | 90th | bias | aim | met | apart |
|---|---|---|---:|---:|---:|---:|---|---|---|
"""
FIRST = {"stream": 0.9, "softmax": 3e10, "block": 2e-6}  # constants that a later kind sets, before it has
HEAD = "# Written by `python -m tests.bench.fit_gpu_operators --write`: basis calibrated, on the files named `data`.\n"


@dataclass(frozen=True)
class Group:
    """Measured rows of one part, format and runtime."""

    kind: Kind
    part: Part
    texts: dict[str, str]
    name: str
    numbers: dict[str, np.ndarray]
    seconds: np.ndarray
    fit: np.ndarray  # rows the constants may see

    @property
    def has_own(self) -> bool:
        """Whether some of the rows ran in a kernel with a block for every query head."""
        way = facts()["decode_kernels"].get(f"{self.part.generation} {self.name}", {})
        return self.kind.name == "attention_decode" and "own_resident" in way

    def predicted(self, given: Mapping[str, Any] | None, rows: np.ndarray) -> np.ndarray:
        """Answers to rows with the constants that the package ships, or with ``given`` ones for their format."""
        part, (format, _) = self.part, self.name.split()
        if given is not None:
            kernels = part.constants.get(self.kind.name, {}) | {format: given["kernels"]}
            part = replace(part, constants={**part.constants, "machine": given["machine"], self.kind.name: kernels})
        return self.kind.model(part, self.texts, {k: v[rows] for k, v in self.numbers.items()}, False)

    def residual(self, given: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        return np.log(self.predicted(given, rows)[:, SECONDS] / self.seconds[rows])


def groups_of(kind: Kind, data: Path) -> Iterator[Group]:
    """Rows of a kind's file by part, format and runtime; what has no model is left out."""
    for path in files_of(kind.name, data):
        yield from _groups_in(kind, path)


def files_of(kind: str, data: Path) -> list[Path]:
    """Files that hold rows of a kind: its own, and that of the kernels which runtimes choose beside the main ones."""
    return [path for path in (data / f"{kind}.csv.xz", data / f"{kind}_runtimes.csv.xz") if path.exists()]


def _groups_in(kind: Kind, path: Path) -> Iterator[Group]:
    table = read_rows(path)
    texts, numbers = parse_columns(kind, table.columns)
    seconds = np.array(table.columns["time_us"], dtype=np.str_).astype(np.float64) * 1e-6
    shapes = zip(*(numbers[name] for name in (*kind.shape, *kind.defaults)), strict=True)
    half = np.array([zlib.crc32(repr(tuple(map(float, shape))).encode()) % 2 == 0 for shape in shapes])
    keys = list(zip(*texts.values(), strict=True))
    for key in sorted(set(keys)):
        said = dict(zip(texts, key, strict=True))
        rows = np.array([other == key for other in keys]) & (seconds > 0.0)
        try:
            part = named_part(said["device"])
            mine = {name: column[rows] for name, column in numbers.items()}
            group = Group(kind, part, said, variant_of(kind, said), mine, seconds[rows], half[rows])
            yield group
        except NoModel as error:
            print(f"left out: {error}")


class Knobs:
    """Named positive numbers within ranges as a free vector: the logit of their place between the ends' logarithms."""

    def __init__(self, table: Mapping[str, Any], start: Mapping[str, float] | None) -> None:
        self.names = list(table)
        low = np.array([max(float(entry["range"][0]), 1e-13) for entry in table.values()])
        high = np.array([float(entry["range"][1]) for entry in table.values()])
        self.low, self.span = np.log(low), np.log(high / low)
        first = np.array(
            [
                start[name] if start and name in start else np.sqrt(a * b)
                for name, a, b in zip(self.names, low, high, strict=True)
            ]
        )
        place = np.clip((np.log(first) - self.low) / self.span, 0.02, 0.98)
        self.start = np.log(place / (1 - place)) + 1e-3

    def __call__(self, vector: np.ndarray) -> dict[str, float]:
        values = np.exp(self.low + self.span / (1 + np.exp(-vector)))
        return dict(zip(self.names, values.tolist(), strict=True))


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def weight(group: Group) -> float:
    """How much a group counts where constants are shared: the main body most."""
    return float(np.prod([WEIGHTS.get(word, 1.0) for word in group.name.split()]))


def solve(residual: Any, start: np.ndarray, evaluations: int = 30) -> np.ndarray:
    """Least squares of residuals in logarithms that outliers do not lead."""
    return least_squares(residual, start, loss="soft_l1", f_scale=FLOOR_RATE, diff_step=3e-3, max_nfev=evaluations).x


def fit_generation(kind: Kind, groups: list[Group], old: Mapping[str, Any]) -> dict[str, Any]:
    """Constants of a kind on a generation: {"machine": ..., kind: {format: {runtime: ...}}}."""
    named: dict[str, list[Group]] = {}
    for group in groups:
        named.setdefault(group.name, []).append(group)
    before = {f"{f} {r}": v for f, by in old.get(kind.name, {}).items() for r, v in by.items()}
    table = facts()["kinds"][kind.name]
    own = {f"{name}-own" for name, (first, *_) in named.items() if first.has_own}
    knobs = {name: Knobs(table, before.get(name)) for name in (*named, *own)}
    rig = dict(old.get("machine", {}))
    sets = facts()["sets"][kind.name]
    thin = max(1, sum(g.fit.sum() for g in groups) // 6000)
    if sets:
        shared = Knobs({name: facts()["constants"][name] for name in sets}, rig)
        size = len(shared.names)
        start = np.concatenate([shared.start, *(k.start for k in knobs.values())])

        def joint(vector: np.ndarray) -> np.ndarray:
            machine, parts = FIRST | rig | shared(vector[:size]), []
            each = vector[size:].reshape(len(knobs), len(table))
            values = {name: knob(part) for (name, knob), part in zip(knobs.items(), each, strict=True)}
            for name, members in named.items():
                for g in members:
                    rows = np.flatnonzero(g.fit)[::thin]
                    parts.append(weight(g) * g.residual(given_of(name, machine, values), rows))
            return np.concatenate(parts)

        rig |= rounded(shared(solve(joint, start)[:size]))
    result: dict[str, Any] = {"machine": rig}
    for name, members in named.items():
        mine = {each: knobs[each] for each in (name, f"{name}-own") if each in knobs}

        def values(vector: np.ndarray, mine: dict[str, Knobs] = mine) -> dict[str, dict[str, float]]:
            each = vector.reshape(len(mine), len(table))
            return {name: knob(part) for (name, knob), part in zip(mine.items(), each, strict=True)}

        def alone(vector: np.ndarray, name: str = name, members: list[Group] = members, values: Any = values) -> Any:
            given = given_of(name, FIRST | rig, values(vector))
            return np.concatenate([g.residual(given, np.flatnonzero(g.fit)) for g in members])

        for each, fitted in values(solve(alone, np.concatenate([k.start for k in mine.values()]))).items():
            format, runtime = each.split()
            result.setdefault(kind.name, {}).setdefault(format, {})[runtime] = rounded(fitted)
    return result


def given_of(name: str, machine: Mapping[str, float], values: Mapping[str, Any]) -> dict[str, Any]:
    """Constants of one format and runtime: of the generation, and by kernel, its own ones where they have some."""
    _, runtime = name.split()
    kernels = {
        kernel: values[key] for kernel, key in ((runtime, name), (f"{runtime}-own", f"{name}-own")) if key in values
    }
    return {"machine": machine, "kernels": kernels}


def judge(group: Group, found: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Measured over predicted, and the regime, of the rows the constants have not seen."""
    values = {f"{f} {r}": v for f, by in found[group.kind.name].items() for r, v in by.items()}
    given = given_of(group.name, FIRST | found["machine"], values)
    rows = np.flatnonzero(~group.fit)
    answer = group.predicted(given, rows)
    return group.seconds[rows] / answer[:, SECONDS], answer[:, REGIME].astype(int)


def judge_shipped(group: Group) -> np.ndarray:
    """Predicted over measured of the rows left out, with the constants the package ships."""
    rows = np.flatnonzero(~group.fit)
    return group.predicted(None, rows)[:, SECONDS] / group.seconds[rows]


def told(group: Group, ratio: np.ndarray) -> str:
    error = 1 / ratio - 1
    return (
        f"{group.kind.name:18} {group.part.id:16} {group.name:26} {len(ratio):6} "
        f"{np.median(np.abs(error)):7.1%} {np.quantile(np.abs(error), 0.9):7.1%} {np.median(error):+7.1%}"
    )


def ends(ratio: np.ndarray) -> list[float]:
    return [float(f"{v:.3g}") for v in np.quantile(ratio, (0.05, 0.95))]


def banded(judged: list[tuple[Group, np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Bands of a kind by variant and regime, from rows left out; at least forty rows a band."""
    merged: dict[str, list[np.ndarray]] = {}
    for group, ratio, regime in judged:
        merged.setdefault(f"{group.part.generation} {group.name}", []).append(np.stack([ratio, regime]))
    table: dict[str, Any] = {}
    for key, parts in merged.items():
        ratio, regime = np.concatenate(parts, axis=1)
        mine = {"all": ratio} | {name: ratio[regime == i] for i, name in enumerate(REGIMES)}
        if mine := {name: ends(rows) for name, rows in mine.items() if len(rows) >= LEAST_ROWS}:
            table[key] = mine
    return table | {"all": ends(np.concatenate([ratio for _, ratio, _ in judged]))}


def noise_of(groups: list[Group]) -> dict[str, tuple[float, float]]:
    """Disagreement of the runtimes of each part and format on shapes they share: median and 90th percentile. [-]"""
    seen: dict[str, dict[tuple[float, ...], dict[str, list[float]]]] = {}
    for g in groups:
        format, runtime = g.name.split()
        if "-" in runtime:  # kernels that stand in where a runtime's own take no such head
            continue
        shapes = seen.setdefault(f"{g.part.id} {format}", {})
        for *shape, seconds in zip(*g.numbers.values(), g.seconds, strict=True):
            shapes.setdefault(tuple(shape), {}).setdefault(runtime, []).append(seconds)
    result = {}
    for name, shapes in seen.items():
        both = [[float(np.median(v)) for _, v in sorted(by.items())][:2] for by in shapes.values() if len(by) > 1]
        if len(both) >= LEAST_ROWS:
            ratio = np.divide(*np.array(both).T)
            spread = np.abs(ratio / np.median(ratio) - 1.0)
            result[name] = float(np.median(spread)), float(np.quantile(spread, 0.9))
    return result


def tabled(data: Path) -> Iterator[str]:
    """A line of the table for each kind, part, format and runtime, with the constants the package ships."""
    for kind in KINDS.values():
        groups = list(groups_of(kind, data))
        noise, pooled = noise_of(groups), {}
        for group in groups:
            ratio = judge_shipped(group)
            if kind.name == "attention_decode":
                ratio = ratio[group.numbers["kv_heads"][~group.fit] <= FEW_HEADS]
            pooled.setdefault((group.part.id, group.name), []).append(ratio)
        for (part, name), parts in pooled.items():
            ratio = np.concatenate(parts)
            error, format = np.abs(ratio - 1.0), name.split()[0]
            median, tail = np.median(error), np.quantile(error, 0.9)
            aim = AIMS.get(f"{kind.name} {format}", AIMS.get(kind.name))
            told = f"{aim[0]:.0%} / {aim[1]:.0%}".removesuffix(" / inf%") if aim else ""
            met = ("yes" if median <= aim[0] and tail <= aim[1] else "no") if aim else ""
            own = "{:.0%} / {:.0%}".format(*noise[f"{part} {format}"]) if f"{part} {format}" in noise else ""
            yield (
                f"| {kind.name} | {part} | {name} | {len(ratio)} | {median:.1%} | {tail:.0%} | "
                f"{np.median(ratio) - 1.0:+.1%} | {told} | {met} | {own} |"
            )


def thinned(source: Path, names: list[str], share: int) -> None:
    """Writes every ``share``-th row of files, chosen by a digest of the row, so that all of it stays represented."""
    for name in names:
        with lzma.open(source / f"{name}.csv.xz", "rt") as file:
            head, *rows = file.read().splitlines()
        with lzma.open(HERE / f"{name}.csv.xz", "wt", preset=9) as file:
            file.write("\n".join([head, *(row for row in rows if zlib.crc32(row.encode()) // 2 % share == 0)]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--only", help="one generation")
    parser.add_argument("--bands", action="store_true", help="keep the constants, judge and band them anew")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write how far off the shipped constants are")
    parser.add_argument("--thin", type=int, metavar="N", help="keep every N-th row of --data, fit nothing")
    args = parser.parse_args()
    if args.table:
        args.table.write_text(TABLE.format(few=FEW_HEADS) + "\n".join(tabled(args.data)) + "\n")
        return
    if args.thin:
        thinned(args.data, args.kinds.split(","), args.thin)
        return
    files = {name: HOME / f"{name}.yaml" for name in ("fitted", "bands")}
    held = {name: (yaml.safe_load(path.read_text()) or {}) if path.exists() else {} for name, path in files.items()}
    print(f"{'kind':18} {'part':16} {'format, runtime':26} {'rows':>6} {'median':>7} {'p90':>7} {'bias':>7}")
    for name in args.kinds.split(","):
        kind, judged = KINDS[name], []
        by_generation: dict[str, list[Group]] = {}
        for group in groups_of(kind, args.data):
            by_generation.setdefault(group.part.generation, []).append(group)
        for generation, groups in by_generation.items():
            if args.only and generation != args.only:
                continue
            old = held["fitted"].get(generation, {})
            found = old if args.bands else fit_generation(kind, groups, old)
            data = sorted({*old.get("data", []), *(path.name for path in files_of(name, args.data))})
            parts = sorted({*old.get("parts", []), *(g.part.id for g in groups)})
            held["fitted"][generation] = {"basis": "calibrated", "data": data, "parts": parts} | {
                key: value for key, value in (old | found).items() if key not in ("basis", "data", "parts")
            }
            for group in groups:
                ratio, regime = judge(group, found)
                judged.append((group, ratio, regime))
                print(told(group, ratio), flush=True)
        held["bands"][name] = (held["bands"].get(name, {}) if args.only else {}) | banded(judged)
        if args.write:
            for file, path in files.items():
                path.write_text(HEAD + yaml.safe_dump(held[file], sort_keys=False))


if __name__ == "__main__":
    main()
