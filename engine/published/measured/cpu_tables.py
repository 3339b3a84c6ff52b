"""Published tables of CPUs as they come: networks in two formats by cores, or on boards by threads."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from engine.devices.cpu.record import cpu_of
from engine.evaluate import evaluate
from engine.published.measured.table import TIME, Figure, Header, amount, grouped
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import apply
from entries.files import load_yaml
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo

LATENCY, RATE = "latency_s", "throughput_per_s"
_COLUMNS = ("min_ms", "avg_ms", "int8", "fp32")
_CORES = "devices.0.cpu.cores"
_CLUSTER = re.compile(r"([\d.]+) ?[Gg][Hh][Zz](?: ?[x*] ?(\d+))?")
_LITTLE = "1"  # `powersave` of a row that ran on the slow cores
_OF_NETWORKS = ("name", "is", "runtime")  # keys of an entry that are no settings
_LAYOUT = ("cores_per_instance", "instances", "threads")  # columns that say how a row shares its part out


@cache
def names() -> dict[str, Any]:
    """What these tables call things."""
    return load_yaml((Path(__file__).parent / "cpu_names.yaml").read_bytes())


def is_cpu_table(header: Sequence[str]) -> bool:
    """Whether a table's rows are networks on named CPUs: a part, a network, and a figure or one for each format."""
    columns = set(header)
    return bool({"cpu", "device"} & columns) and bool({"model", "net"} & columns) and bool(set(_COLUMNS) & columns)


def columns_of(header: Sequence[str]) -> Header:
    """A table's columns: figures of a row are in its own `unit`, and its formats beside each other."""
    return Header({}, tuple(Figure(name, LATENCY, 1e-3) for name in _COLUMNS if name in header), (), ())


def figures_of(cells: Mapping[str, str]) -> Iterator[tuple[str, str, str, float]]:
    """Of each measured figure of a row its column, format, attribute of a report and value in SI.

    A row's least time stands for it where it has one: the steadier figure. ScenarioError for what is no number.
    """
    unit = cells.get("unit", "ms").lower()
    for column in _COLUMNS:
        if not cells.get(column) or (column == "avg_ms" and cells.get("min_ms")):
            continue
        value, scale = amount(cells, column), TIME.get("ms" if column.endswith("_ms") else unit)
        if scale is None and not re.search(r"(/s|/sec|ps|per second)$", unit):
            raise ScenarioError(f"unit is {unit[:20]!r}; {', '.join(TIME)} or a rate, as fps or samples/s, is needed")
        format = column if column in ("int8", "fp32") else cells.get("precision", "fp")
        yield column, format, *((RATE, value) if scale is None else (LATENCY, value * scale))


def scenario_of(
    cells: Mapping[str, str], format: str, attribute: str, catalog: Catalog, zoo: Zoo
) -> tuple[Scenario, float]:
    """What a row ran in one of its formats, and the parts it did on. ScenarioError says what of it has no model.

    A rate (the row's ``attribute``) is of the streams that are fastest together where the row does not say how many:
    runtimes that are asked for throughput share the cores out themselves.
    """
    part, settings = _part(cells, catalog)
    workload, changes = _network(cells, zoo)
    base = default_scenario(_alone(part, catalog), workload, catalog, zoo)
    rates = cpu_of(catalog.device(part)).flop_per_cycle
    plain = settings.pop("plain", False)
    if format == "fp":
        format = "fp16" if "fp16" in rates and not plain else "fp32"
    if plain:  # 16 pairs take smull, smlal2 and sadalp: two cycles where a second pipe adds meanwhile, else three
        settings["devices.0.cpu.flop_per_cycle.int8"] = (
            f"{32.0 / (2.0 if rates['fp32'].si > 8.0 else 3.0):.4g} OP/cycle"
        )
    cores = int(float(settings.get(_CORES, cores_of(part, catalog))))
    threads = _whole(cells, "cores_per_instance" if cells.get("cores_per_instance") else "threads", cores)
    if threads > cores:
        raise ScenarioError(f"{threads} threads were used: {part} has {cores} cores")
    streams, parts = _instances(cells, cores, threads)
    layout = {"precision": format, "batch": _whole(cells, "batch"), "streams": streams, "tile": (threads,)}
    code = {"runtime": _runtime(cells), "model.shared_interpreter": 0.0}  # instances are processes
    for path, value in (settings | changes | layout | code).items():
        base = apply(base, path, value)
    if attribute == RATE and not any(map(cells.get, _LAYOUT)):
        ways = (base.with_(streams=n, tile=(cores // n,)) for n in range(1, cores + 1) if cores % n == 0)
        base = max(ways, key=lambda way: evaluate(way, catalog, zoo).throughput_per_s)
    return base, parts


def _whole(cells: Mapping[str, str], column: str, usual: int = 1) -> int:
    """A row's count, or the usual one where it has none; ScenarioError for another text."""
    value = amount(cells, column, usual)
    if value % 1.0:
        raise ScenarioError(f"{column} is {value:g}; a whole number is needed")
    return int(value)


def _alone(part: str, catalog: Catalog) -> str:
    """The system that is a part by itself, whatever it is called there; the part's own id where there is none."""
    if part in catalog.ids("systems"):
        return part
    systems = (id for id in catalog.ids("systems") if [g.device for g in catalog.system(id).devices] == [part])
    return next((id for id in systems if catalog.system(id).devices[0].count == 1), part)


def _instances(cells: Mapping[str, str], cores: int, threads: int) -> tuple[int, float]:
    """Instances that run on a part at once, and parts that a row counts together. [-]

    A latency of the Xeons' table times the rate of all is their number: each was taken while the others ran, so all
    cores are busy and share caches, clock and memory. A part is full where none are given; a board runs one network.
    """
    limit = cores // threads
    instances = amount(cells, "instances", limit if "cores_per_instance" in cells else 1.0)
    return (streams := max(1, min(int(instances), limit))), instances / streams


def _runtime(cells: Mapping[str, str]) -> str:
    """What ran a row."""
    words = [cells.get(name, "") for name in ("framework", "section", "variant", "model")]
    text = " ".join(words if "net" not in cells else ("ncnn",)).lower()
    return next(runtime["is"] for runtime in names()["runtimes"] if re.search(runtime["name"], text))


def cores_of(part: str, catalog: Catalog) -> float:
    """Cores of a part. [-]"""
    return cpu_of(catalog.device(part)).cores.si


def _part(cells: Mapping[str, str], catalog: Catalog) -> tuple[str, dict[str, Any]]:
    """A row's part in the catalog, and what differs from it: the cores that were used and their clock, by its name."""
    name = cells.get("cpu") or cells.get("device", "")
    devices, short = catalog.ids("devices"), _short(name)
    entry = next((id for id in devices if _short(id) == short), None)
    entry = entry or next((id for id in devices if _short(catalog.device(id).name) == short), None)
    if entry is not None and catalog.device(entry).kind == "cpu":
        return entry, {}
    spec = next((p for p in names()["parts"] if re.search(p["name"], name, re.I)), None)
    if spec is None:
        raise ScenarioError(f"the catalog lacks the part {name[:80]!r}; add it as a file under hardware_specs/devices")
    slow = cells.get("powersave") == _LITTLE
    part = spec.get("part") or spec.get("like") or spec["generic"]
    settings: dict[str, Any] = {"plain": True} if "plain" in spec else {}
    if slow and "little" in spec:
        part = spec["little"]
    for field, value in spec.get("of", {}).items():
        path, unit = names()["differs"][field]
        settings[f"devices.0.{path}"] = f"{value} {unit}".strip()
    if "generic" in spec:
        settings |= _cluster(name, slow)
    threads = _whole(cells, "threads")
    if "little" in spec and threads > float(settings.get(_CORES, cores_of(part, catalog))):
        part = spec["little"]  # shares are equal: the slow cores end last
        settings |= (_cluster(name, True) if "generic" in spec else {}) | {_CORES: str(threads)}
    if (clock := re.search(r"Overclock to ([\d.]+) ?GHz", name, re.I)) is not None:
        settings["devices.0.cpu.clock"] = f"{clock[1]} GHz"
    return part, settings


@lru_cache(maxsize=4096)
def _short(name: str) -> str:
    """A part's name without its maker, line and clock, as the catalog, tables and systems themselves have it."""
    return re.sub(names()["around"], "", name.lower().replace("+", "plus"))


def _cluster(name: str, slow: bool) -> dict[str, str]:
    """Cores and clock of a cluster by a part's name: the slowest clock's, or all that are faster."""
    clusters = [(float(clock), int(count or 1)) for clock, count in _CLUSTER.findall(name)]
    if not clusters:
        return {}
    slowest = min(clock for clock, _ in clusters)
    picks = [cluster for cluster in clusters if (cluster[0] == slowest) == slow] or clusters
    clock = min(clock for clock, _ in picks)
    return {_CORES: str(sum(count for _, count in picks)), "devices.0.cpu.clock": f"{clock} GHz"}


def _network(cells: Mapping[str, str], zoo: Zoo) -> tuple[str, dict[str, Any]]:
    """The network of a row and what is set of it; its name may end with its framework or, in brackets, its shape."""
    text = re.sub(r"\[[^\]]*\]", "", cells.get("model") or cells.get("net", "")).lower()
    name = re.sub(r"[^a-z0-9.]+", "_", text).strip("_")
    for known in dict.fromkeys((name, re.sub(names()["behind"], "", name))):
        for entry in names()["networks"]:
            if re.fullmatch(entry["name"], known) and entry.get("runtime") in (None, _runtime(cells)):
                return entry["is"], {path: value for path, value in entry.items() if path not in _OF_NETWORKS}
        if (ours := zoo.resolve(known.replace("_", "-"))) in zoo.ids():
            return ours, {}
    raise ScenarioError(f"the network {name[:60]!r} has no graph here")


TOTAL = "all parts", 0, "all kinds"


def parts_of(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """The `spread` of rows by part, cores, kind of network and format, and of INT8's gain over FP32; then of all.

    ``rows``: of `engine.published.measured.compare`, predicted. The ratio is of a line's two formats.
    """
    errors = list[tuple[tuple[str, int, str, str], float]]()
    lines: dict[int, dict[str, float]] = {}
    for row in rows:
        s, (name, error) = row.scenario, next(iter(row.errors.items()))
        figures, formats = {s.precision: error}, lines.setdefault(row.number, {})
        formats[s.precision] = 1.0 + error if name == RATE else 1.0 / (1.0 + error)
        if {"int8", "fp32"} <= formats.keys():
            figures["int8/fp32"] = formats["int8"] / formats["fp32"] - 1.0
        for figure, value in figures.items():
            errors += [((*of, figure), value) for of in ((s.system, s.tile[0], kind_of(s.workload)), TOTAL)]
    return grouped(("part", "cores", "kind", "figure"), errors)


def kind_of(workload: str) -> str:
    """What kind of network a workload is, as these tables are summed up."""
    return next(kind["name"] for kind in names()["kinds"] if re.search(kind["is"], workload))
