"""The scenario that a command line means: a token, a URL, a preset, a file or a pair, and what is changed in it."""

import argparse
from pathlib import Path

from engine.resolve.draft import with_draft
from engine.scenario import Scenario, ScenarioError, decode, token_in
from engine.scenario.fields import FIELDS
from engine.scenario.overrides import apply_all
from entries.files import read_plain

_FILE_LIMIT = 8 * 1024 * 1024  # bytes of a scenario file, which may be a whole report


def scenario_of(
    target: str | None,
    system: str | None = None,
    workload: str | None = None,
    devices: str | None = None,
    scheme: str | None = None,
) -> Scenario:
    """Scenario meant by a target: a token, a URL, ``preset:ID``, a YAML or JSON file, or a system and a workload.

    What the devices and the scheme of a pair leave open is the natural one.
    """
    from engine.resolve.choices import scenario_from
    from engine.resolve.presets import PRESETS, preset

    if target is not None and (system is not None or workload is not None):
        name, value = ("system", system) if system is not None else ("workload", workload)
        raise ScenarioError(
            f"--{name} is {str(value)[:60]!r} beside a scenario, which names its own: give one of the two, or "
            f"--set {name}=..."
        )
    if target is None:
        if not system or not workload:
            raise ScenarioError("a scenario is needed: a token, a URL, preset:ID, a file, or --system and --workload")
        pair = {"system": system, "workload": workload, "devices": devices, "scheme": scheme}
        return scenario_from({name: value for name, value in pair.items() if value is not None}, "scenario")
    if target.startswith("preset:"):
        return preset(target.removeprefix("preset:")).scenario
    path = Path(target)
    if path.suffix in (".yaml", ".yml", ".json"):
        data = read_plain(path, _FILE_LIMIT)
        if isinstance(data, dict) and "scenario" in data and "token" in data:
            data = data["scenario"]  # a report as exported
        if not isinstance(data, dict) or not {"system", "workload"} <= data.keys():
            raise ScenarioError(f"{path.name}: a scenario file needs at least `system` and `workload`")
        return scenario_from(data, path.name)
    token = token_in(target)
    if token == target.strip() and not token[:1].isdigit():
        advice = f"; nearest: preset:{target}" if target in PRESETS else ""
        allowed = "a token, a URL with ?s=, preset:ID or a .yaml, .yml or .json file is allowed"
        raise ScenarioError(f"scenario is {target[:60]!r}: {allowed}{advice}")
    return decode(token)


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """Arguments that mean a scenario and the settings changed in it."""
    parser.add_argument("scenario", nargs="?", help="token, URL, preset:ID, or a YAML/JSON file")
    for f in FIELDS:
        if f.flag:
            parser.add_argument(f"--{f.path.replace('_', '-')}", help=f.help)
    guesses = "a network that guesses tokens ahead (speculative decoding), as many as params.guesses"
    parser.add_argument("--draft", metavar="WORKLOAD", help=guesses)
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="any setting; may repeat")


def scenario_in(args: argparse.Namespace) -> Scenario:
    """The scenario meant by the arguments of `add_scenario`."""
    scenario = scenario_of(args.scenario, args.system, args.workload, args.devices, args.scheme)
    flags = {f.path: getattr(args, f.path) for f in FIELDS if f.flag and f.kind != "id"}
    if args.draft:
        scenario = with_draft(scenario, args.draft)
    changes = [f"{path}={value}" for path, value in flags.items() if value is not None]
    return apply_all(scenario, changes + args.set)
