"""docs/SCENARIO.md from the schema and the table of fields: ``python -m tests.architecture.scenario`` writes it."""

from functools import cache
from pathlib import Path
from typing import Any

from engine import default_scenario
from engine.resolve.choices import Choices, choices, why_not
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario
from engine.scenario.fields import FIELDS, Field
from engine.scenario.scenario import TOKEN_LIMIT, VERSION, Costs, Limits, Percent, Share
from hardware_specs import default_catalog

TARGET = Path(__file__).resolve().parents[2] / "docs" / "SCENARIO.md"
_KINDS = {
    "id": "an id of the catalog",
    "count": "a whole number",
    "tile": "whole numbers, one per tiling knob of the system",
    "map": "values by name",
    "record": "numbers by name",
}


_CHOICES = [
    (int | None, "a whole number that the system offers"),
    (Percent | None, "a percentage, as `25%`"),
    (Share | None, "`by-capacity` or a percentage, as `25%`"),
]
_NETWORKS = ("llama3.1-70b", "resnet50", "wide-deep-criteo")


@cache
def _lists() -> tuple[Choices, ...]:
    """What every system of the catalog and every preset offers."""
    pairs = ((system, network) for system in default_catalog().ids("systems") for network in _NETWORKS)
    usual = [default_scenario(*pair) for pair in pairs if why_not(*pair) is None]
    return tuple(choices(scenario) for scenario in (*usual, *(preset.scenario for preset in PRESETS.values())))


def choice_of(of: Field) -> str:
    """What a field with a list of values takes: of names, each that some system offers for some network."""
    annotation = Scenario.model_fields[of.path].annotation
    by_kind = [text for kind, text in _CHOICES if kind == annotation]
    names = dict.fromkeys(value for lists in _lists() for value in lists.of(of) if value != of.none)
    return by_kind[0] if by_kind else ", ".join(f"`{name}`" for name in names)


def limits_of(info: Any) -> str:
    """What the schema allows of a number: `1 to 65536`, `above 0, up to 20`."""
    at = {name: getattr(m, name) for m in info.metadata for name in ("ge", "gt", "le") if hasattr(m, name)}
    if not at:
        return ""
    low = f"{at['ge']:,.12g}" if "ge" in at else f"above {at['gt']:,.12g}"
    return f"{low} to {at['le']:,.12g}" if "ge" in at else f"{low}, up to {at['le']:,.12g}"


def default_of(info: Any) -> str:
    """What it is when left out of `Scenario(...)`; nothing where its parts have their own."""
    if info.is_required():
        return "required"
    if isinstance(info.default, Costs | Limits):
        return ""
    empty = {"{}": "none", "()": "none", "None": "none"}
    return empty.get(str(info.default), str(info.default))


def row(of: Field) -> str:
    """A line of the table of fields."""
    info = Scenario.model_fields[of.path]
    parts = (choice_of(of),) if of.kind == "choice" else (_KINDS[of.kind], limits_of(info))
    takes = ", ".join(filter(None, parts))
    shown = of.none if of.none is not None and default_of(info) == "none" else default_of(info)
    flag = f"`--{of.path.replace('_', '-')}`" if of.flag else ""
    return f"| `{of.path}` | {of.label} | {takes} | {shown} | {flag} | {of.group} | {of.help} |"


def written() -> str:
    """The text of docs/SCENARIO.md."""
    lines = [
        "# A scenario and its token",
        "",
        "Written by `python -m tests.architecture.scenario` from the schema and `engine/scenario/fields.yaml`.",
        "A test holds it true.",
        "",
        "## Fields",
        "",
        "In the order of the sidebar. A setting by path (`--set batch=8`, an axis of a sweep) uses the same names;",
        "`params.*`, `switches.*`, `layers.*`, `costs.*`, `limits.*` and `tile.0` reach inside, and `devices.0.*`,",
        "`host.*`, `links.*`, `model.*` set an entry of `overrides`. The default is the schema's: a scenario file and",
        "the command line take the pair's own for what they leave out. A gain is attributed by group.",
        "",
        "| field | label | takes | default | flag | group | what it is |",
        "|---|---|---|---|---|---|---|",
        *map(row, FIELDS),
        "",
    ]
    for name, model in (("costs", Costs), ("limits", Limits)):
        lines += [f"## `{name}`", "", "| number | allowed | default |", "|---|---|---|"]
        lines += [f"| `{k}` | {limits_of(info)} | {default_of(info)} |" for k, info in model.model_fields.items()]
        lines.append("")
    kept = [f"`{of.path}`" for of in FIELDS if Scenario.model_fields[of.path].default is None]
    lines += [
        "## Token",
        "",
        f"A token is the version ({VERSION}), then `j` or `z`, then base64url without padding of four bytes and a",
        "body. The body is JSON with sorted keys and no spaces, or (`z`) the same deflated, whichever is shorter; the",
        "four bytes are the CRC-32 of the JSON, big-endian. It has at most",
        f"{TOKEN_LIMIT:,} characters and stands in an address as `?s=`.",
        "",
        "The JSON has `version` and every field above, defaults too, so a link keeps its meaning when a default changes"
        + (f". Left out where nothing is set: {', '.join(kept)}." if kept else "."),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(written())
