"""A scenario on a system and a network that may not offer all of it. Exact choices, no figures."""

from collections.abc import Callable
from typing import Any

from engine.resolve.choices import choices, default_scenario
from engine.scenario import Scenario
from engine.scenario.fields import BY_FAMILY
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo


def fit_to_pair(
    wanted: Scenario, *others: Scenario, catalog: Catalog | None = None, zoo: Zoo | None = None
) -> Scenario:
    """A scenario with what its system and its network do not offer taken from others, the first that has what they do.

    Where none has, it takes the pair's default; streams are at most those of the device. ScenarioError or Unsupported
    where the pair runs in no way.
    """
    start = default_scenario(wanted.system, wanted.workload, catalog, zoo)
    options = choices(start, catalog, zoo)
    owners = (wanted, *others, start)

    def pick(field: str, accepts: Callable[[Any], bool]) -> Any:
        return next((v for s in owners if accepts(v := getattr(s, field))), getattr(start, field))

    def tile_fits(tile: tuple[int, ...]) -> bool:
        return not tile or (
            len(tile) == len(options.knobs) and all(k.takes(v) for v, k in zip(tile, options.knobs, strict=True))
        )

    precision = pick("precision", lambda v: v in options.formats)
    changes = {
        "precision": precision,
        "tile": pick("tile", tile_fits),
        "streams": min(wanted.streams, options.max_streams),
        "switches": {s.name: wanted.switches.get(s.name, s.default) for s in options.switches},
        "params": wanted.params if wanted.params.keys() <= {p.name for p in options.params} else start.params,
        "layers": wanted.layers if precision == wanted.precision else {},
    }
    changes |= {of.path: pick(of.path, lambda v, of=of: options.takes(of, v)) for of in BY_FAMILY}
    for s in owners:
        if s.scheme in options.schemes and s.devices in options.device_counts and s.split <= len(options.splits):
            changes |= {"scheme": s.scheme, "devices": s.devices, "split": s.split}
            there = choices(start.with_(scheme=s.scheme, split=s.split), catalog, zoo)
            changes["second_split"] = s.second_split if s.second_split in there.second_cuts else None
            break
    return wanted.with_(**changes)
