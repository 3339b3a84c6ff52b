"""A fitted part as a device of the user's catalog, in the system it was measured in."""

from pathlib import Path

from engine.published.measured.fit import FittedPart
from engine.scenario.files import beside, writable
from hardware_specs.catalog import Catalog, spec_text
from hardware_specs.quantity import SpecError, parse
from hardware_specs.schema import Device, System

SUFFIX = "-calibrated"
_LONGEST = 63  # characters of an id


def _called(id: str) -> str:
    """Id of what a fit makes of an entry."""
    return f"{id[: _LONGEST - len(SUFFIX)]}{SUFFIX}"


def _number(value: float, unit: str) -> str:
    """A constant as a spec prints it: with its unit where the catalog reads that, in SI in any case."""
    shown = f"{value:.6g}"
    try:
        return f"{shown} {unit}" if unit != "1" and parse(f"1 {unit}") == (1.0, unit) else shown
    except SpecError:
        return shown


def specs_of(fit: FittedPart, comparison: str, catalog: Catalog) -> tuple[Device, System | None]:
    """The part with its constants moved, and its system around it; None where a part by itself is the system.

    ``comparison``: where the measurements come from, the evidence of every constant that moved.
    """
    device = fit.device
    moved = {
        m.name: {
            "value": _number(m.after, m.unit),
            "basis": "calibrated",
            "claims": [comparison],
            "note": f"fitted to {fit.rows} measured rows; before, {m.basis}, it was {m.before:.6g}",
        }
        for m in fit.moved
    }
    data = device.model_dump(mode="json", exclude_defaults=True)
    data |= {"id": _called(device.id), "name": f"{device.name[:100]}, calibrated", "power": data.get("power", {})}
    data["model"] = data.get("model", {}) | moved
    own = Device.model_validate(data)
    system = catalog.system(fit.system)
    if catalog.alone(system.id):
        return own, None
    group = system.devices[0].model_copy(update={"device": own.id})
    around = system.model_copy(
        update={
            "id": _called(system.id),
            "name": f"{system.name[:100]}, calibrated",
            "devices": (group, *system.devices[1:]),
            "aliases": (),
        }
    )
    return own, around


def files_of(system: str, device: str, root: Path) -> tuple[Path, Path]:
    """Where a fit is written: the device's file and the system's."""
    return root / "devices" / f"{_called(device)}.yaml", root / "systems" / f"{_called(system)}.yaml"


def write_fit(fit: FittedPart, comparison: str, catalog: Catalog, root: Path, force: bool) -> tuple[str, list[Path]]:
    """Writes the device and its system into a catalog folder; the id of the new system, and the files.

    ScenarioError where a file is there already and ``force`` is not given, or can't be written.
    """
    device, system = specs_of(fit, comparison, catalog)
    at, around = files_of(fit.system, fit.device.id, root)
    texts = {at: spec_text(device)}
    if system is not None:
        texts[around] = spec_text(system)
    for path in texts:
        writable(path, force, folder=True)
    for path, text in texts.items():
        with beside(path) as fresh:
            fresh.write_text(text)
    return (device.id if system is None else system.id), list(texts)
