"""The words of the app: labels, one-line helps, the sentences of a page, and what a number means in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from app.shared import formats as fmt
from app.shared import specs
from app.shared.figures.roofline import points
from app.shared.figures.style import RESOURCE_LABELS, level_name
from engine.cost.report import Report
from engine.cost.rows import RESOURCE_NAMES, busy_of
from engine.devices import FAMILIES
from engine.devices.common.contract import Span
from engine.resolve.bind import named
from engine.resolve.draft import drafted
from engine.scenario import Scenario
from engine.scenario.configuration import partition
from engine.scenario.fields import FIELDS, Field, field
from engine.scenario.formats import BITS, LABELS
from engine.scenario.sentences import cost_unit
from entries.files import read_plain
from model_zoo.catalog import default_zoo

WORDS: dict[str, dict[str, Any]] = read_plain(Path(__file__).with_name("glossary.yaml"))
HELP, SCHEMES, BETWEEN, LEVERS = (WORDS[name] for name in ("help", "schemes", "between", "levers"))


def texts_of(module: str) -> SimpleNamespace:
    """Texts by name, of a module's folder."""
    return SimpleNamespace(**read_plain(Path(module).with_name("texts.yaml")))


@dataclass(frozen=True)
class Metric:
    """A figure of a report: its name there, its label, SI unit, whether more of it is better, and a line of help."""

    name: str
    label: str
    unit: str
    rising: bool = False
    help: str = ""

    @classmethod
    def of(cls, name: str, unit: str = "unit", label: str = "") -> Self:
        """The figure of a name; of a report that counts a unit, in that unit."""
        row = WORDS["figures"][name]
        words = (text.format(unit=cost_unit(unit), u=rate_unit(unit)) for text in (label or row["label"], row["unit"]))
        return cls(name, *words, row.get("rising", False), HELP.get(row.get("help"), ""))

    def text(self, value: float | None) -> str:
        """A value of the figure with its unit."""
        return fmt.usd(value) if self.unit == "$" else fmt.si(value, self.unit)


def format_label(name: str) -> str:
    """A number format as people write it."""
    return LABELS.get(name, name)


def value_label(value: Any) -> str:
    """A value of a scenario's field as people write it: `FP16`, `On path`, `9,024`, `as activations`, `on`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    return SCHEMES.get(value, format_label(value))


def tidy(label: str) -> str:
    """`memory hbm bandwidth` -> `HBM bandwidth`, `peak fp16` -> `Peak FP16`, `peer link: latency` without its colon.

    The block of a spec that only its family has (`npu tiles`) needs no name.
    """
    words = label.replace("link: ", "link ").removeprefix("memory ").split(" ")
    labels = [format_label(w) if w in BITS else w for w in words if w not in FAMILIES or len(words) == 1]
    return level_name(" ".join(labels))


def rate_unit(unit: str) -> str:
    """`token` -> `tok`: the short form that carries a rate."""
    return WORDS["rates"].get(unit, unit)


def against(now: float | None, base: float | None, rising: bool, time: bool = False) -> tuple[str, str] | None:
    """A figure against a baseline's in words, `3.48× faster`, and the colour that says whether it is better.

    None where either is unknown. `rising`: more is better.
    """
    text = fmt.ratio_text(now, base, *(("slower", "faster") if time else ("more", "less")))
    if text is None or now is None or base is None:
        return None
    return text, "gray" if text == "same" else "green" if (now > base) == rising else "red"


def per(report: Report) -> str:
    """What one headline latency belongs to."""
    batch, items = report.scenario.batch, report.scenario.inputs
    if report.unit == "item" and items > batch:
        return f"request of {items:,} items in batches of {batch}"
    if batch > 1:
        return f"batch of {batch}"
    return "request" if report.ttft_s is not None else report.unit


def lengths(workload: str, inputs: int | None = None, outputs: int | None = None) -> dict[str, tuple[str, int]]:
    """Lengths that a request has, as its network calls them, with these values, else the network's own."""
    kind, usual = default_zoo().family(workload), default_zoo().workload(workload).request
    pairs = {
        "inputs": (kind.input_label, inputs or usual.inputs),
        "outputs": (kind.output_label, outputs or usual.outputs),
    }
    return {name: (label, value) for name, (label, value) in pairs.items() if label}


def knobs(scenario: Scenario, default: Scenario | None) -> list[str]:
    """A scenario's knobs in words, those every reader needs first, then whatever differs from the pair's default."""
    parts = [f"{in_text(field('batch').label)} {scenario.batch:,}"]
    if scenario.inputs > 1 or scenario.outputs > 1:
        parts.append(f"{scenario.inputs:,} in, {scenario.outputs:,} out")
    parts.append(format_label(scenario.precision))
    if scenario.layers:
        formats = " or ".join(sorted({format_label(format) for format in scenario.layers.values()}))
        parts.append(f"{fmt.counted(len(scenario.layers), 'layer')} in {formats}")
    unset = (f for f in FIELDS if f.kind in ("choice", "tile") and f.none is not None and f.column)
    parts += [f"{in_text(f.label)} {_value_text(f, scenario)}" for f in unset if getattr(scenario, f.path)]
    parts.append(_value_text(field("scheme"), scenario))
    if scenario.streams > 1:
        parts.append(f"{scenario.streams} {in_text(field('streams').label)}")
    if scenario.scheme == "split":
        parts.append(partition(scenario))
    parts += _sizes(scenario)
    normal = default.switches if default else {}
    labels = {s.name: in_text(s.label) for s in named(scenario.with_(overrides={})).family.switches}
    parts += [
        f"{labels.get(name, name)} {'on' if on else 'off'}"
        for name, on in scenario.switches.items()
        if on != normal.get(name, on)
    ]
    parts += [f"{tidy(label)} {value}" for label, value in specs.overridden(scenario)]
    return parts


def _sizes(scenario: Scenario) -> list[str]:
    """Parameters of the network that a scenario sets, the sizes of a draft network by its name where it has one."""
    zoo, draft = default_zoo(), drafted(scenario)
    labels = {name: in_text(row[0]) for name, row in zoo.family(scenario.workload).adjustable.items()}
    rows = {name: v for name, v in scenario.params.items() if draft is None or not name.startswith("draft_")}
    parts = [f"{labels.get(name, name)} {fmt.decimal(value)}" for name, value in rows.items()]
    return parts + ([f"draft {zoo.workload(draft).name}"] if draft else [])


def _value_text(of: Field, scenario: Scenario) -> str:
    """A field's value amid a line: `FP16`, `6 × 16`, `tensor on 4 devices`, how many are set by name, or `none`."""
    value = getattr(scenario, of.path)
    if of.display(value) == of.none:
        return str(of.none)
    if of.path == "scheme":
        return value_label(value).lower() + (f" on {scenario.devices} devices" if scenario.devices > 1 else "")
    if of.path == "params":
        return ", ".join(_sizes(scenario))
    if of.kind == "tile":
        return " × ".join(map(str, value))
    return f"{len(value)}" if of.kind == "map" else value_label(value)


def in_text(label: str) -> str:
    """A label amid a line: `Fused operators` -> `fused operators`, `FP16 features` as it is."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def differences(was: Scenario, now: Scenario, usual: Scenario | None) -> list[str]:
    """What of a scenario another one has otherwise, each as `precision FP16, not BF16`, beside system and workload.

    The request's own lengths and parameters are another workload's to set: they are compared on the same one. A switch
    that is gone counts where it was turned: it stood otherwise than in `usual`, the usual scenario of the former pair.
    """
    request = ("inputs", "outputs", "params") if was.workload != now.workload else ()
    skip = ("split", "switches", *request)  # switches are told below
    skip += ("scheme",) if was.scheme == now.scheme else ("devices",)  # told with another partition
    fields = [f for f in FIELDS if f.kind not in ("id", "record") and f.path not in skip]
    pairs = ((in_text(f.label), _value_text(f, was), _value_text(f, now)) for f in fields)
    rows = [f"{name} {new}, not {old}" for name, old, new in pairs if old != new]
    normal = usual.switches if usual else {}
    missing = [name for name, on in was.switches.items() if name not in now.switches and on != normal.get(name, on)]
    labels = {s.name: in_text(s.label) for s in named(was.with_(overrides={})).family.switches}
    return rows + ([f"without {', '.join(labels.get(name, name) for name in missing)}"] if missing else [])


def answer_breakdown(report: Report) -> str:
    """What most of the time is spent on."""
    return f"{fmt.percent(report.breakdown[report.bound] / report.latency_s)} {WORDS['waits'][report.bound]}"


def answer_roofline(report: Report) -> str:
    """How many of the drawn operators the commonest limit holds."""
    bounds = [p.op.bound for p in points(report)]
    if not bounds:
        return "no operator does arithmetic against memory"
    resource = max(set(bounds), key=lambda name: (bounds.count(name), name))
    noun = "operator is" if len(bounds) == 1 else "operators are"
    return f"{bounds.count(resource)} of {len(bounds)} {noun} limited by {RESOURCE_LABELS[resource].lower()}"


def answer_fits(report: Report) -> str:
    """Which memory levels are over capacity, else which is fullest."""
    rows = [row for row in report.memory if row.required] or list(report.memory)
    if not rows:
        return "no memory level is modelled"
    over = [row for row in rows if not row.fits]
    if over:
        names = " and ".join(dict.fromkeys(level_name(row.level) for row in over))
        remaining = len(rows) - len(over)
        return f"{names} {'is' if len(over) == 1 else 'are'} over capacity" + (
            f"; the other {remaining} fit" if remaining else ""
        )
    fit = [row for row in report.memory if row.required or row.need_bytes <= row.capacity_bytes]
    full = max(fit or rows, key=lambda row: row.need_bytes / row.capacity_bytes)
    part = list(dict.fromkeys(level_name(row.level) for row in report.memory if row not in fit))
    text = f"{' and '.join(part)} overflow{'' if len(part) > 1 else 's'}: the rest streams" if part else ""
    share = fmt.percent(full.need_bytes / full.capacity_bytes)
    return f"{text or 'everything fits'}; {level_name(full.level)} is {share} full"


def answer_links(report: Report) -> str:
    """How busy the busiest wire is."""
    busiest = max(report.links, key=lambda row: row.utilisation)
    if busiest.utilisation < 0.005:
        return "no wire is busy"
    return f"{busiest.name} is {fmt.percent(busiest.utilisation)} busy"


def answer_timeline(spans: Sequence[Span]) -> str:
    """Share of the shown piece that each unit's bars take."""
    end = max((s.start_s + s.duration_s for s in spans), default=0.0)
    if not end:
        return "nothing is timed"
    longest = sorted(busy_of(spans).items(), key=lambda item: -item[1])[:4]
    return ", ".join(f"{unit} {fmt.percent(min(1.0, time / end))}" for unit, time in longest) + " of the time"


def timelines(report: Report) -> list[tuple[str, str, Sequence[Span]]]:
    """(name, computed answer, bars): the whole request by resource, then a piece of it, unit by unit where it has
    units.
    """
    pieces = [("Timeline of a request", report.lanes)]
    units = {span.unit for span in report.timeline} - set(RESOURCE_NAMES.values())
    if report.timeline and (units or report.timeline_of.startswith("one of")):
        pieces.append((f"Timeline, {report.timeline_of}", report.timeline))
    return [(name, answer_timeline(spans), spans) for name, spans in pieces if spans]
