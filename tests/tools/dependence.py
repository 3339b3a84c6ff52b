"""What each prediction depends on, found by changing it: from this follow a claim's kind and its role.

``python -m tests.tools.published --dependence`` recomputes the file that `validate` reads. Everything is changed and
put back in this process: the time of every operator, every constant of the cost models, every number of the catalog and
of the zoo, and one by one each constant that names the claims it was fitted on, read off or chosen in view of.
"""

import math
import random
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic import BaseModel

from engine.devices import FAMILIES, family
from engine.devices.common.contract import DeviceFamily, PhaseCost
from engine.devices.common.job import Job
from engine.published.kinds import THRESHOLD, moves
from engine.published.prediction import Prediction, value_of
from hardware_specs.catalog import default_catalog
from hardware_specs.quantity import Quantity
from model_zoo.catalog import default_zoo
from model_zoo.ops import Graph, Op
from model_zoo.schema import Number

# --- changing things and putting them back ---------------------------------------------------------------------------


def _forget() -> None:
    """Empties every cache of a result of the models; what is compiled stays."""
    for name, module in list(sys.modules.items()):
        if name.startswith("engine.") and not name.startswith(("engine.kernels", "engine.lab")):
            for member in list(vars(module).values()):
                if hasattr(member, "cache_clear") and member not in (family, default_catalog, default_zoo, moves):
                    member.cache_clear()
    default_zoo()._lower.cache_clear()


@contextmanager
def _swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    object.__setattr__(owner, name, value)
    _forget()
    try:
        yield
    finally:
        object.__setattr__(owner, name, before)
        _forget()


@contextmanager
def _held(read: dict[Any, Any], key: Any, value: Any) -> Iterator[None]:
    before = read[key]
    read[key] = value
    _forget()
    try:
        yield
    finally:
        read[key] = before
        _forget()


def _factor(name: str, spread: float) -> float:
    """A factor between 1 and `spread` that the name decides. [-]"""
    return spread ** random.Random(zlib.crc32(name.encode())).random()


def _repriced(fam: DeviceFamily, change: Callable[[Job, PhaseCost], PhaseCost]) -> Iterator[Any]:
    price = fam.price
    yield _swapped(fam, "price", lambda job, **given: change(job, price(job, **given)))


def _slowed(seed: str, spread: float) -> Callable[[Job, PhaseCost], PhaseCost]:
    def change(job: Job, cost: PhaseCost) -> PhaseCost:
        factors = np.array([_factor(f"{seed}{job.device.kind}{op.kind}{op.name}", spread) for op in job.ops])
        other = tuple((name, resource, seconds * spread) for name, resource, seconds in cost.overheads)
        return replace(cost, seconds=cost.seconds * factors[:, None], overheads=other)

    return change


def _families() -> list[DeviceFamily]:
    return [family(kind) for kind in FAMILIES]


@contextmanager
def _times(seed: str, spread: float) -> Iterator[None]:
    """Every operator takes longer by a factor of its own."""
    with ExitStack() as stack:
        for fam in _families():
            for one in _repriced(fam, _slowed(seed, spread)):
                stack.enter_context(one)
        yield


def _bounded(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


@contextmanager
def _model(seed: str, spread: float) -> Iterator[None]:
    """Every constant of every cost model grows by a factor of its own, but for shapes, which bound one another."""
    with ExitStack() as stack:
        for fam in _families():
            changed = tuple(
                p
                if p.unit == "element"
                else replace(p, value=_bounded(p.value * _factor(seed + p.name, spread), p.low, p.high))
                for p in fam.parameters
            )
            stack.enter_context(_swapped(fam, "parameters", changed))
        yield


def _walk(node: Any, change: Callable[[str, Any], Any], at: str = "") -> Any:
    """A copy of a spec with every quantity or number changed, told apart by its path."""
    if isinstance(node, Quantity | Number):
        return change(at, node)
    if isinstance(node, BaseModel):
        result = {name: _walk(getattr(node, name), change, f"{at}.{name}") for name in type(node).model_fields}
        return node.model_copy(update=result)
    if isinstance(node, Mapping):
        return {key: _walk(value, change, f"{at}.{key}") for key, value in node.items()}
    if isinstance(node, tuple):
        return tuple(_walk(value, change, f"{at}.{i}") for i, value in enumerate(node))
    return node


def _scaled(q: Quantity, factor: float) -> Quantity:
    value = q.si * factor
    return q.model_copy(update={"value": value if q.dimension == "1" else f"{value:.12g} {q.dimension}"})


def _sized(number: Number, factor: float) -> Number:
    def grown(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(grown(v) for v in value)
        if isinstance(value, int) and not isinstance(value, bool):
            return max(1, round(value * factor))
        return value * factor if isinstance(value, float) else value

    return number.model_copy(update={"value": grown(number.value)})


@contextmanager
def _catalog(seed: str, spread: float) -> Iterator[None]:
    """Every number of every device, system, link and NIC grows by a factor of its own."""
    catalog = default_catalog()
    with ExitStack() as stack:
        for section in ("devices", "links", "nics", "systems"):
            for id in catalog.ids(section):
                spec = catalog._get(section, id)
                changed = _walk(spec, lambda at, q, id=id: _scaled(q, _factor(f"{seed}{id}{at}", spread)))
                stack.enter_context(_held(catalog._read, (section, id), changed))
        yield


@contextmanager
def _zoo() -> Iterator[None]:
    """Every size of every network doubles."""
    zoo = default_zoo()
    with ExitStack() as stack:
        for id in zoo.ids():
            if not zoo.is_guest(id):
                changed = _walk(zoo.workload(id).params, lambda _, number: _sized(number, 2.0))
                stack.enter_context(_held(zoo._read, id, zoo.workload(id).model_copy(update={"params": changed})))
        yield


@contextmanager
def _lowered(change: Callable[[str, Graph], Graph]) -> Iterator[None]:
    zoo = default_zoo()
    lowered = lru_cache(maxsize=512)(lambda id, overrides: change(id, zoo._lower_uncached(id, overrides)))
    with _swapped(zoo, "_lower", lowered):
        yield


def _deepened(id: str, graph: Graph) -> Graph:
    """Every operator of a network sums over more, by a factor of its own, and moves as much more."""

    def changed(op: Op) -> Op:
        f = _factor(id + op.name, 2.0)
        return replace(
            op, k=op.k * f, reads=op.reads * f, writes=op.writes * f, stored=op.stored * f, weights=op.weights * f
        )

    phases = tuple(replace(phase, ops=tuple(changed(op) for op in phase.ops)) for phase in graph.phases)
    return replace(graph, phases=phases)


@contextmanager
def _watched(networks: list[str], priced: list[str]) -> Iterator[None]:
    """Notes every network that is lowered and every family that prices a job."""
    with ExitStack() as stack:
        stack.enter_context(_lowered(lambda id, graph: networks.append(id) or graph))
        for fam in _families():
            for one in _repriced(fam, lambda job, cost: priced.append(job.device.id) or cost):
                stack.enter_context(one)
        yield


def _roofline(job: Job, cost: PhaseCost) -> PhaseCost:
    """The naive price: each operator at the dense peak, or at the bandwidth of the memory behind it, nothing else."""
    far = max((m.bandwidth.si for m in job.device.memory if m.role == "offchip" and m.bandwidth), default=math.inf)
    seconds = np.zeros_like(cost.seconds)
    work = np.divide(cost.flops, cost.peak, out=np.zeros_like(cost.flops), where=cost.peak > 0)
    seconds[:, 0] = np.maximum(work, cost.offchip / far)
    return replace(cost, seconds=seconds, overheads=())


@contextmanager
def _naive() -> Iterator[None]:
    """Every operator at the roofline of its device's data sheet, and no fixed cost."""
    with ExitStack() as stack:
        for fam in _families():
            for one in _repriced(fam, _roofline):
                stack.enter_context(one)
            stack.enter_context(_swapped(fam, "request", None))
        yield


# --- constants that name claims --------------------------------------------------------------------------------------


def constants() -> dict[str, tuple[tuple[str, ...], tuple[Any, ...]]]:
    """Each constant that was fitted on claims, read off them or chosen in view of them: those, and how to change it."""
    result: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {}
    for fam in _families():
        for p in fam.parameters:
            if p.claims:
                result[f"{fam.kind}.{p.name}"] = (p.claims, ("parameter", fam.kind, p.name))
    catalog, zoo = default_catalog(), default_zoo()
    for section in ("devices", "links"):
        for id in catalog.ids(section):
            named: dict[str, tuple[str, ...]] = {}
            spec = catalog._get(section, id)
            _walk(spec, lambda at, q, named=named: named.update({at: q.claims} if q.claims else {}) or q)
            for at, claims in named.items():
                result[f"{id}{at}"] = (claims, (section, id, at))
    for id in zoo.ids():
        for name, number in zoo.workload(id).params.items():
            if number.claims and not zoo.is_guest(id):
                result[f"{id}.{name}"] = (number.claims, ("workload", id, name))
    return result


@contextmanager
def _constant(how: tuple[Any, ...], factor: float) -> Iterator[None]:
    where, id, name = how
    with ExitStack() as stack:
        if where == "parameter":
            fam = family(id)
            changed = tuple(
                replace(p, value=_bounded(p.value * factor, p.low, p.high)) if p.name == name else p
                for p in fam.parameters
            )
            stack.enter_context(_swapped(fam, "parameters", changed))
        elif where in ("devices", "links"):
            catalog = default_catalog()
            changed = _walk(catalog._get(where, id), lambda at, q: _scaled(q, factor) if at == name else q)
            stack.enter_context(_held(catalog._read, (where, id), changed))
        else:
            zoo = default_zoo()
            workload = zoo.workload(id)
            params = {**workload.params, name: _sized(workload.params[name], factor)}
            stack.enter_context(_held(zoo._read, id, workload.model_copy(update={"params": params})))
        yield


# --- what moves ------------------------------------------------------------------------------------------------------


def _value(given: Mapping[str, Prediction], id: str) -> Any:
    try:
        return value_of(given, id)
    except Exception as error:  # what can no longer be computed at all depends on what was changed
        return f"{type(error).__name__}"


def _change(before: Any, after: Any) -> float:
    """Largest relative change of a prediction; infinite where it is no number and another. [-]"""
    pair = [[v] if isinstance(v, int | float) and not isinstance(v, bool) else v for v in (before, after)]
    if all(isinstance(v, list | tuple) and all(isinstance(x, int | float) for x in v) for v in pair):
        return max(abs(a - b) / abs(b) if b else float(a != b) for b, a in zip(*pair, strict=True))
    return 0.0 if before == after else math.inf


def _kept(change: float) -> float:
    """A change as the file keeps it: four digits, and no infinity, which JSON lacks."""
    return float(f"{min(change, 1e6):.4g}")


def moved(given: Mapping[str, Prediction], ids: Iterable[str], how: tuple[Any, ...]) -> dict[str, float]:
    """Relative change of predictions where a constant is halved or doubled, whichever changes them more. [-]"""
    ids = tuple(ids)
    before = {id: _value(given, id) for id in ids}
    most = dict.fromkeys(ids, 0.0)
    for factor in (0.5, 2.0):
        with _constant(how, factor):
            for id in ids:
                most[id] = max(most[id], _change(before[id], _value(given, id)))
    return most


@dataclass(frozen=True)
class _Reads:
    """What one prediction looks at: what it can't see can't move it, and needs no changing."""

    networks: frozenset[str]
    priced: frozenset[str]
    specs: frozenset[Any]  # keys of the catalog's and the zoo's entries

    def of(self, how: tuple[Any, ...]) -> bool:
        """Whether it may read a constant."""
        where, id, _ = how
        if where == "parameter":
            devices = [key[1] for key in self.specs if isinstance(key, tuple) and key[0] == "devices"]
            return any(default_catalog().device(device).kind == id for device in devices)
        return (where, id) in self.specs or (where == "workload" and id in self.networks | self.specs)

    def group(self, name: str) -> bool:
        """Whether a group of changes may move it: every time, every model constant, the catalog or the zoo."""
        seen = {"times": self.priced, "zoo": self.networks, "model": self.specs, "catalog": self.specs}
        return bool(seen[name])


class _Noted(dict[Any, Any]):
    """Entries that note which of them are read."""

    def __init__(self, entries: Mapping[Any, Any], seen: set[Any]) -> None:
        super().__init__(entries)
        self.seen = seen

    def __getitem__(self, key: Any) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)


def _read(given: Mapping[str, Prediction], id: str) -> tuple[Any, _Reads]:
    """A prediction, and what it looks at."""
    networks: list[str] = []
    priced: list[str] = []
    specs: set[Any] = set()
    catalog, zoo = default_catalog(), default_zoo()
    with (
        _watched(networks, priced),
        _swapped(catalog, "_read", _Noted(catalog._read, specs)),
        _swapped(zoo, "_read", _Noted(zoo._read, specs)),
    ):
        value = _value(given, id)
    return value, _Reads(frozenset(networks), frozenset(priced), frozenset(specs))


def _moves(given: Mapping[str, Prediction], ids: Iterable[str]) -> tuple[dict[str, dict[str, Any]], dict[str, _Reads]]:
    """Relative change of each prediction as operators, cost models, the catalog and networks change; what each reads.

    What is no number is moved by the times it is decided from, even where they would have to change by more. Times and
    constants of the models are changed until a prediction moves.
    """
    moves: dict[str, dict[str, Any]] = {}
    before, reads = {}, {}
    for id in ids:
        before[id], reads[id] = _read(given, id)
        words = isinstance(before[id], bool | list)
        moved_by = {"times": words and reads[id].priced, "zoo": words and reads[id].networks}
        moves[id] = {"catalog": 0.0, "model": 0.0} | {k: math.inf if v else 0.0 for k, v in moved_by.items()}
    groups: list[tuple[str, Any]] = [("catalog", lambda: _catalog("a", 1.25)), ("zoo", _zoo)]
    groups.append(("zoo", lambda: _lowered(_deepened)))
    for seed in ("a", "b", "c"):
        groups += [("times", lambda s=seed: _times(s, 1.5)), ("times", lambda s=seed: _times(s, 9.0))]
        groups += [("model", lambda s=seed: _model(s, 1.25)), ("model", lambda s=seed: _model(s, 4.0))]
    for name, group in groups:
        left = [
            id for id, one in moves.items() if reads[id].group(name) and (name in ("catalog", "zoo") or not one[name])
        ]
        with group():
            for id in left:
                moves[id][name] = max(moves[id][name], _change(before[id], _value(given, id)))
    return moves, reads


def dependence(given: Mapping[str, Prediction], ids: Iterable[str] | None = None) -> dict[str, Any]:
    """What moves each prediction, and each constant that names claims with every prediction it moves by over 1%."""
    ids = tuple(ids or given)
    found_moves, reads = _moves(given, ids)
    moves: dict[str, Any] = {id: {k: _kept(v) for k, v in one.items()} for id, one in found_moves.items()}
    timed = [id for id in ids if not given[id].of and (moves[id]["times"] or moves[id]["model"])]
    with _naive():
        for id in timed:
            moves[id]["naive"] = _value(given, id)
    document = {}
    for name, (claims, how) in constants().items():
        read = {id for id in {*timed, *(id for id in claims if id in given)} if id not in reads or reads[id].of(how)}
        changed = moved(given, read, how)
        document[name] = {
            "claims": list(claims),
            "moves": {id: _kept(change) for id, change in sorted(changed.items()) if change > THRESHOLD},
        }
    return {"constants": document, "predictions": moves}
