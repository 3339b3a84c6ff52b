"""``python -m engine choose``: what should carry a workload under limits, every system tried."""

from __future__ import annotations

import argparse
from typing import Any

from engine.choose.question import READABLE, read_fields, read_number
from engine.cli.command import Answer
from engine.scenario import ScenarioError
from engine.scenario.sentences import amount

_COSTS = {
    "years": ("years", "lifetime [a]"),
    "pue": ("pue", "facility over machine power"),
    "kwh": ("energy_usd_per_kwh", "energy [USD/kWh]"),
    "host": ("host_usd", "host of up to eight devices where the catalog prices none [USD]; 5,000 when left out"),
}


def add_choose(p: argparse.ArgumentParser) -> None:
    """Arguments of a question."""
    p.add_argument("workload", nargs="?", help="a workload's id, preset:ID of a question, or a question's token")
    p.add_argument("--inputs", help="length of a request; the workload's own when left out")
    p.add_argument("--outputs", help="tokens a decoder generates for a request")
    p.add_argument("--latency", metavar="TIME", help="99%% of requests answered within, as 100ms")
    p.add_argument("--ttft", metavar="TIME", help="time to first token at most, as 500ms")
    p.add_argument("--tpot", metavar="TIME", help="time per output token at most, as 25ms")
    p.add_argument("--power", metavar="WATT", help="power of one instance at most [W]")
    p.add_argument("--qps", help="demand, requests per second")
    p.add_argument("--users", help="demand, requests in flight")
    p.add_argument("--batch", help="this batch alone; the best when left out")
    p.add_argument("--bits", help="fewest bits of a weight that are tried: 32, 16, 8 (default) or 4")
    p.add_argument("--systems", help="candidates, comma-separated; all when left out")
    p.add_argument(
        "--price", action="append", default=[], metavar="SYSTEM=USD[/h]",
        help="your price of one device, bought or by the hour: h100-sxm=28000 or h100-sxm=2.10/h",
    )  # fmt: skip
    p.add_argument(
        "--what-if", action="append", default=[], metavar="SYSTEM:PATH=VALUE",
        help="hardware of your own, told apart: h100-sxm:devices.0.memory.hbm.bandwidth=5 TB/s",
    )  # fmt: skip
    for name, help in _COSTS.items():
        p.add_argument(f"--{name}", help=help[1])


def _prices(texts: list[str]) -> dict[str, dict[str, float]]:
    prices = {}
    for text in texts:
        system, _, value = text.partition("=")
        hourly = value.endswith("/h")
        number = read_number(f"price of {system[:40]}", value.removesuffix("/h"))
        prices[system] = {"usd_per_hour" if hourly else "usd": number}
    return prices


def _what_ifs(texts: list[str]) -> list[dict[str, Any]]:
    """One what-if a system, with all that is changed of it."""
    by_part: dict[str, dict[str, str]] = {}
    for text in texts:
        system, _, change = text.partition(":")
        path, equals, value = change.partition("=")
        if not equals:
            raise ScenarioError(f"what-if is {text[:60]!r}: SYSTEM:PATH=VALUE is needed")
        by_part.setdefault(system, {})[path] = value
    return [{"system": system, "overrides": overrides} for system, overrides in by_part.items()]


def _question(args: argparse.Namespace) -> Any:
    from engine.choose import question_of
    from engine.choose.presets import QUESTIONS, question

    target = args.workload
    if target is None:
        raise ScenarioError(f"a workload is needed, or one of preset:{', preset:'.join(QUESTIONS)}")
    fields: dict[str, Any]
    if target.startswith("preset:"):
        fields = question(target.removeprefix("preset:")).model_dump(exclude_defaults=True)
    elif target.startswith("1q"):
        fields = question_of(target).model_dump(exclude_defaults=True)
    else:
        fields = {"workload": target}
    fields |= read_fields({name: text for name in READABLE if (text := getattr(args, name, None)) is not None})
    if args.systems:
        fields["systems"] = [id.strip() for id in args.systems.split(",") if id.strip()]
    fields["prices"] = {**fields.get("prices", {}), **_prices(args.price)}
    fields["what_ifs"] = [*fields.get("what_ifs", []), *_what_ifs(args.what_if)]
    costs = {name: (field, getattr(args, name)) for name, (field, _) in _COSTS.items()}
    given_costs = {field: read_number(name, value) for name, (field, value) in costs.items() if value is not None}
    fields["costs"] = {**fields.get("costs", {}), **given_costs}
    return question_of(fields)


def choose(args: argparse.Namespace) -> Answer:
    """Every system tried, ranked by money, and why it loses."""
    import engine.choose

    answer = engine.choose.choose(_question(args))
    lines = [answer.sentence, ""]
    for row in (*answer.rows, *answer.what_ifs):
        best = row.best
        figures = ""
        if best is not None:
            money = "no price" if best.usd_per_million is None else f"${best.usd_per_million:.3g}/M {answer.priced}s"
            pace = f"{amount(best.rate_per_device, '').strip()} {answer.unit}s/s per device"
            figures = f"{amount(1 / best.speed, 's'):>9}  {pace:28} {money:22}"
        lines.append(f"{row.rank or '-':>3} {row.label:28} {row.configuration:34} {figures} {row.reason}".rstrip())
    lines += ["", f"{answer.tried:,} designs in {answer.seconds:.2f} s; token {answer.question.token}"]
    return answer.to_dict(), lines
