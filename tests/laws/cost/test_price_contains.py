"""What a price contains is said beside it: every part that is paid for, and nothing where there is no price."""

from __future__ import annotations

from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario, why_not
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each

CATALOG = default_catalog()


@each("id", CATALOG.ids("systems"))
def test_every_priced_system_says_what_its_price_contains(id: str) -> None:
    runs = (w for w in ("mlp-mnist", "binary-mlp-mnist", "gpt2-345m", *default_zoo().ids()) if why_not(id, w) is None)
    report = evaluate(default_scenario(id, next(runs)))
    assert bool(report.price_contains) == (report.capex_usd is not None)
    assert report.to_dict()["price_contains"] == report.price_contains


def test_a_node_names_its_host_switch_and_nic() -> None:
    names = evaluate(default_scenario("fb-node", "dlrm-more-complex")).price_contains
    parts = [CATALOG.device("m2-card"), CATALOG.device("xeon-d-2191"), CATALOG.link("pcie-switch"),
             CATALOG.link("nic-50g-shared")]  # fmt: skip
    assert names == (f"6 × {parts[0].name}", *(part.name for part in parts[1:]))
