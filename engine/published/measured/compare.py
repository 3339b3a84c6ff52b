"""Rows of measurements held against predictions: each row's error, what groups of them show, what the bands held."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.cost.error_bands import ErrorBand
from engine.devices.gpu.operators.rows import Table, csv_line, read_rows
from engine.evaluate import evaluate
from engine.published.measured import arrivals, cpu_tables, recommender
from engine.published.measured.serving import BenchmarkRun, under_load
from engine.published.measured.table import Figure, Header, amount, format_of, grouped, sorted_out, terms
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError, decode, token_in
from engine.scenario.overrides import apply, apply_all
from engine.traffic.engines.scheduler import POLICIES
from entries.schema import InputError
from hardware_specs.catalog import Catalog, default_catalog
from model_zoo.catalog import Zoo, default_zoo


@dataclass(frozen=True)
class Row:
    """One row: what was measured [SI], and its scenario or the reason why it is skipped."""

    number: int  # in the file, from 1
    measured: Mapping[str, float]
    scenario: Scenario | None = None
    concurrency: int | None = None  # requests in flight; None: `scenario.batch` of them from start to end
    engine: BenchmarkRun | None = None  # that keeps them so
    rate: arrivals.ReplicaLoad | recommender.RecommenderLoad | None = None  # of requests that come at any time
    reason: str = ""
    predicted: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)  # figures that can't be predicted, and why
    band: ErrorBand | None = None
    column: str = ""  # of its one figure, where a line has several runs
    parts: float = 1.0  # alike and at once, whose rate is measured together

    @property
    def errors(self) -> dict[str, float]:
        """Predicted over measured, less one, of each figure that has both. [-]"""
        return {
            name: self.predicted[name] / value - 1.0 for name, value in self.measured.items() if name in self.predicted
        }


@dataclass(frozen=True)
class Measured:
    """A table of measurements, read."""

    name: str
    table: Table
    columns: Header
    rows: tuple[Row, ...]


def read_measured(path: Path, settings: Sequence[str] = (), catalog: Catalog | None = None) -> Measured:
    """A table with every row's scenario, ``settings`` applied to each.

    Raises
    ------
    ScenarioError
        Where the file as a whole can't be used: a column that is unknown or has no unit, a figure that is none.
    """
    catalog, zoo = catalog or default_catalog(), default_zoo()
    table = read_rows(path)
    at_rate = {"accelerator", "n_accel", "scenario", "target_qps"} <= set(table.header)  # runs at a stated one
    if cpu_tables.is_cpu_table(table.header) and not at_rate:
        return _read_cpus(path.name, table, settings, catalog, zoo)
    columns = arrivals.columns_of(table.header) if at_rate else sorted_out(table.header)
    result = []
    for at in range(len(table.lines)):
        cells = {name: values[at].strip() for name, values in table.columns.items()}
        try:
            figures = {f.attribute: f.scale * amount(cells, f.column) for f in columns.figures if cells[f.column]}
        except ScenarioError as error:
            raise ScenarioError(f"row {at + 1}: {error}") from None
        try:
            if not figures:
                raise ScenarioError("no figure was measured")
            if at_rate:
                of = recommender if cells["model"].startswith("dlrm") else arrivals
                scenario, rate = of.run_of(cells, catalog, zoo)
                result.append(Row(at + 1, figures, apply_all(scenario, list(settings)), rate=rate))
                continue
            (scenario, concurrency), *prefills = (
                _scenario(worker, of, settings, catalog, zoo) for worker, of in _workers(cells, columns)
            )
            engine = None if concurrency is None else _engine(cells, scenario)
            if engine is not None and prefills:
                workers = int(cells["prefill_num_workers"]), int(cells["decode_num_workers"])
                engine = replace(engine, prefill=prefills[0][0], workers=workers, port_b_per_s=terms()["port_b_per_s"])
            result.append(Row(at + 1, figures, scenario, concurrency, engine))
        except InputError as error:
            result.append(Row(at + 1, figures, reason=str(error)))
    return Measured(path.name, table, columns, tuple(result))


def _read_cpus(name: str, table: Table, settings: Sequence[str], catalog: Catalog, zoo: Zoo) -> Measured:
    """A table of networks on named CPUs: a run for each format of a line."""
    rows = []
    for at in range(len(table.lines)):
        cells = {name: values[at].strip() for name, values in table.columns.items()}
        figures: list[tuple[str, str, str, float]] = []
        try:
            figures = list(cpu_tables.figures_of(cells))
            if not figures:
                raise ScenarioError("no figure was measured")
            for column, format, attribute, value in figures:
                scenario, parts = cpu_tables.scenario_of(cells, format, attribute, catalog, zoo)
                parts = parts if attribute == cpu_tables.RATE else 1.0
                scenario = apply_all(scenario, list(settings))
                rows.append(Row(at + 1, {attribute: value / parts}, scenario, column=column, parts=parts))
        except InputError as error:
            count = sum(row.number == at + 1 for row in rows)
            rows += [
                Row(at + 1, {attribute: value}, reason=str(error), column=column)
                for column, _, attribute, value in figures[count:]
            ] or [Row(at + 1, {}, reason=str(error))]
    return Measured(name, table, cpu_tables.columns_of(table.header), tuple(rows))


def _workers(cells: Mapping[str, str], columns: Header) -> list[tuple[Mapping[str, str], Header]]:
    """A row as one of an engine alone; of a deployment whose prefill and decode run apart, a worker of each, decode's
    first. ScenarioError for devices that its workers can't share.
    """
    names, sides = terms(), []
    if not any(cells[name] for name in columns.serving if name.startswith(("prefill_", "decode_"))):
        return [(cells, columns)]
    for side in ("decode", "prefill"):
        worker = {name: cells.get(f"{side}_{name}", "") for name in names["apart"]}
        count, total = (int(worker[name]) if worker[name].isdecimal() else 0 for name in ("num_workers", "gpus"))
        if not count or not total or total % count:
            raise ScenarioError(
                f"{side}_gpus is {worker['gpus'][:40]!r} of {worker['num_workers'][:40]!r} workers: each needs as many"
            )
        of = replace(columns, fields={**columns.fields, "devices": "gpus"}, serving=tuple(names["serving"]))
        sides.append(({**cells, **worker, "gpus": str(total // count)}, of))
    return sides


def _scenario(
    cells: Mapping[str, str], columns: Header, settings: Sequence[str], catalog: Catalog, zoo: Zoo
) -> tuple[Scenario, int | None]:
    """A row's scenario and its requests in flight; ScenarioError or Unsupported says why it has none."""
    data = {name: cells[column] for name, column in columns.fields.items() if cells[column]}
    if "token" in data:
        base = decode(token_in(data.pop("token")))
    else:
        lacking = next((name for name in ("system", "workload") if name not in data), None)
        if lacking:
            raise ScenarioError(f"{lacking} is not given")
        data |= _checkpoint(data, zoo)
        system, workload = catalog.resolve(data.pop("system")), zoo.resolve(data.pop("workload"))
        partition = {name: data[name] for name in ("devices", "scheme") if name in data}
        base = default_scenario(system, workload, catalog, zoo, **partition)
    serving = {name: cells[name] for name in columns.serving if cells.get(name)}
    concurrency = _in_flight(serving, data) if "concurrency" in columns.serving else None
    if "precision" in data:
        data["precision"] = format_of(data["precision"], catalog.device(catalog.system(base.system).devices[0].device))
    for path, value in data.items():
        resolve = {"system": catalog.resolve, "workload": zoo.resolve}.get(path, str)
        base = apply(base, path, resolve(value))
    if serving.get("spec", "") in terms()["guessing_spec"]:
        base = apply(base, "params.guesses", _guess_layers(serving["spec"], base, zoo))
    for path in columns.settings:
        if cells[path]:
            base = apply(base, path, cells[path])
    if concurrency is not None:
        kind = catalog.device(catalog.system(base.system).devices[0].device).kind
        base = _with_engine(base.with_(batch=concurrency), cells, data, kind)
    return apply_all(base, list(settings)), concurrency


def _with_engine(scenario: Scenario, cells: Mapping[str, str], data: Mapping[str, str], kind: str) -> Scenario:
    """A scenario with the lengths that a row's client sends, and what its engine does where the row does not say."""
    source, framework = cells.get("source", ""), cells.get("framework", "")
    share = terms()["mean_length"].get(source, 1.0)
    lengths = {name: max(1, round(share * getattr(scenario, name))) for name in ("inputs", "outputs")}
    scenario = scenario.with_(**lengths)
    if (ranks := cells.get("attn_dp", "")).isdecimal() and int(ranks) > 1:
        scenario = apply(scenario, "attention_dp", int(ranks))
    if kind == "gpu" and framework in terms()["runtimes"] and scenario.runtime is None:
        scenario = apply(scenario, "runtime", framework)
    if framework in terms()["kept_wide"].get(source, ()) and scenario.precision == "fp8" and "kv_format" not in data:
        scenario = apply(scenario, "kv_format", "fp16")
    return scenario


def _checkpoint(settings: Mapping[str, str], zoo: Zoo) -> dict[str, str]:
    """A row's network and format, where the network's name ends in the format its weights were stored in."""
    plain, _, format = settings["workload"].rpartition("-")
    if (format := format.lower()) not in terms()["checkpoints"] or zoo.resolve(plain) == plain:
        return {}
    return {"workload": plain, "precision": settings.get("precision", format)}


def _guess_layers(spec: str, scenario: Scenario, zoo: Zoo) -> int:
    """Layers that a network has for guessing tokens ahead: as many tokens are guessed, where a table does not say."""
    layers = zoo.workload(scenario.workload).params.get("guess_layers")
    if layers is None or not isinstance(layers.value, int):
        raise ScenarioError(f"spec is {spec!r}: {scenario.workload} has no layer that guesses tokens ahead")
    return layers.value


def _engine(cells: Mapping[str, str], scenario: Scenario) -> BenchmarkRun:
    """How a row's serving engine forms passes and its clients ask; one that is not named, as most do."""
    names, run = terms(), dict[str, Any]()
    for entry in names["runs"]:
        if all(_is(column, cells.get(column, ""), value) for column, value in entry.get("of", {}).items()):
            run |= entry
    policy, together = POLICIES[run["policy"]], run.get("streamed", 1)
    serial = policy.serial  # it is what takes time for each sequence
    scheduler = replace(
        policy,
        asynchronous=run["asynchronous"],
        hidden=run["hidden"],
        host_s=names["host"]["pass_s"],
        sequence_s=0.0 if serial else names["host"]["sequence_s"],
        write_s=policy.write_s / together,
        repeat_s=policy.repeat_s / together,
        **{name: run[name] for name in ("budget", "balance_timeout") if name in run},
    )
    if run.get("whole_prompt"):
        longest = 2 * scenario.inputs / (1 + run.get("shortest", 1.0))
        scheduler = replace(scheduler, budget=max(scheduler.budget, math.ceil(longest) + scenario.batch))
    settings = {name: run[name] for name in ("shortest", "streamed", "turnaround_s") if name in run}
    name = " ".join(cells[column] for column in ("framework", "version") if cells.get(column))
    return BenchmarkRun(scheduler, name, **settings, **names["frontend"] | ({"token_s": 0.0} if serial else {}))


def _is(column: str, cell: str, value: str) -> bool:
    """Whether a row's cell says what an entry is of: a model's name by its end, a release by its beginning."""
    ours, theirs = (cell, value) if column != "model" else (cell.rpartition("/")[2], value)
    return ours == theirs or (column == "version" and ours.startswith(f"{value}."))


def _in_flight(serving: Mapping[str, str], settings: Mapping[str, str]) -> int | None:
    """Requests a serving engine was kept busy with, None where the row has a batch instead; ScenarioError where the way
    it was run has no model."""
    text = serving.get("concurrency", "")
    if not text and "batch" in settings:
        return None
    why = _why_not(serving, settings.get("devices", "1"))
    if why:
        raise ScenarioError(why)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 65536 or value != int(value):
        raise ScenarioError(f"concurrency is {text[:40]!r}: a whole number from 1 to 65536 is needed")
    return int(value)


def _why_not(serving: Mapping[str, str], devices: str) -> str:
    """Why a serving engine's run says nothing of our model, in a sentence; empty where it does."""
    names = terms()
    flags = [flag for flag in serving.get("flags", "").split(";") if flag in names["left_out"]]
    if flags:
        return f"flagged {flags[0]} in its table: {names['left_out'][flags[0]]}"
    if serving.get("spec", "") not in (*names["plain_spec"], *names["guessing_spec"]):
        return f"spec is {serving['spec'][:40]!r}: guessing tokens ahead is modelled with a network's own layers for it"
    if serving.get("pp", "1") != "1":
        return f"pp is {serving['pp'][:40]}: rows of an engine with pipeline stages are not compared"
    for name in ("attn_dp", "moe_ep"):  # experts apart, or some of them, read the same bytes and add up the same sums
        parts = serving.get(name, "1")
        if not (parts.isdecimal() and devices.isdecimal() and int(parts) and int(devices) % int(parts) == 0):
            return f"{name} is {parts[:40]} of {devices[:40]} devices: a number that divides them is modelled"
    ranks = serving.get("attn_dp", "1")
    if serving.get("tp", devices) != (tp := str(int(devices) // int(ranks))):
        return f"tp is {serving.get('tp', devices)[:40]}: {devices[:40]} devices in {ranks[:40]} ranks are {tp} each"
    return ""


def figures_of(row: Row, catalog: Catalog) -> tuple[dict[str, float], dict[str, str], ErrorBand | None]:
    """Predictions of a row's measured figures [SI], why others have none, and their error band."""
    scenario = row.scenario
    assert scenario is not None
    missing: dict[str, str] = {}
    if row.rate is not None:
        if isinstance(row.rate, recommender.RecommenderLoad):
            result = recommender.predicted_at(scenario, row.rate, catalog)
        else:
            result = arrivals.predicted_at(scenario, row.rate, catalog)
        missing = dict.fromkeys(row.measured.keys() - result.keys(), "of such a run the model has no such figure")
        return {name: result[name] for name in row.measured if name in result}, missing, None
    if row.engine is not None and row.concurrency is not None:
        result = under_load(scenario, row.concurrency, row.engine, catalog)
        missing = dict.fromkeys(row.measured.keys() - result.keys(), "of a run under load only TTFT and TPOT are")
        figures = {name: value for name, value in result.items() if name in row.measured}
        return figures, missing, evaluate(scenario, catalog).error_band
    report = evaluate(scenario, catalog)
    figures = {}
    for name in row.measured:
        value = getattr(report, name)
        if value is None or not value > 0.0:
            missing[name] = f"{report.system_name} has no {name} for {report.workload_name}"
        else:
            figures[name] = float(value)
    return figures, missing, report.error_band


def predict(data: Measured, catalog: Catalog | None = None) -> Measured:
    """The same table with every row's predictions, or the reason why it has none."""
    return replace(data, rows=tuple(_predict(row, catalog or default_catalog()) for row in data.rows))


def _predict(row: Row, catalog: Catalog) -> Row:
    if row.scenario is None:
        return row
    try:
        figures, missing, band = figures_of(row, catalog)
    except InputError as error:
        return replace(row, reason=str(error))
    reason = "" if figures else next(iter(missing.values()))
    return replace(row, reason=reason, predicted=figures, missing=missing, band=band)


def groups(rows: Sequence[Row], by: str = "family") -> list[dict[str, Any]]:
    """Count, median, 90th percentile and bias (median of the signed errors) by system, network, format and figure.

    ``by``: networks of a ``family`` together, or each ``workload`` by itself; or rows of a serving ``engine``.
    """

    def keys(row: Row) -> tuple[str, str, str]:
        s = row.scenario
        assert s is not None
        if by == "engine":
            return s.system, row.engine.name if row.engine is not None else "", s.precision
        return s.system, s.workload if by == "workload" else default_zoo().workload(s.workload).family, s.precision

    errors = (((*keys(row), name), error) for row in rows for name, error in row.errors.items())
    return grouped(("system", by, "precision", "figure"), errors)


def coverage(rows: Sequence[Row]) -> dict[str, int]:
    """Predicted figures with an error band, those of them that lie in it, and those without evidence for any."""
    pairs = [
        (row.band, error)
        for row in rows
        for name, error in row.errors.items()
        if row.engine is None or name != "ttft_s"  # bands are of passes: of what waits for many of them there is none
    ]
    bands = [(band, error) for band, error in pairs if band is not None and band.relative is not None]
    hits = sum(band.holds(error) for band, error in bands)
    return {"banded": len(bands), "held": hits, "no_evidence": len(pairs) - len(bands)}


def reasons(rows: Sequence[Row]) -> Counter[str]:
    """Rows without a prediction, by reason."""
    return Counter(row.reason for row in rows if row.reason)


def _lines(data: Measured) -> Iterator[str]:
    figures = data.columns.figures
    yield csv_line([*data.table.header, *(f"predicted_{f.column}" for f in figures), "reason"])
    runs: dict[int, list[Row]] = {}
    for row in data.rows:
        runs.setdefault(row.number, []).append(row)
    for number, line in enumerate(data.table.lines, 1):
        cells = {column: text for row in runs[number] for column, text in _cells(row, figures)}
        reason = next((row.reason for row in runs[number] if row.reason), "")
        yield f"{line},{csv_line([*(cells.get(f.column, '') for f in figures), reason])}"


def _cells(row: Row, figures: Sequence[Figure]) -> Iterator[tuple[str, str]]:
    """What a run fills in of its line: each predicted figure in the unit of its column."""
    for f in figures:
        value = row.predicted.get(f.attribute)
        if row.column == f.column and row.predicted:
            name, value = next(iter(row.predicted.items()))
            yield f.column, f"{value * row.parts if name == cpu_tables.RATE else value / f.scale:.6g}"
        elif not row.column and value is not None:
            yield f.column, f"{value / f.scale:.6g}"


def write_back(path: Path, data: Measured) -> None:
    """Every row as it was, with `predicted_<figure>` beside each measured figure and `reason` where there is none."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in _lines(data))
