"""``python -m engine choose``: what should carry a workload under limits, every system tried."""

import argparse
from typing import Any

import engine.choose
from engine.choose import Answer as Choice
from engine.choose import Row, question_of
from engine.choose.question import QUESTIONS, READABLE, read_fields, read_number
from engine.cli.command import Answer
from engine.cli.output import lines_of
from engine.scenario import ScenarioError
from engine.scenario.overrides import parse_setting
from engine.scenario.sentences import counted
from entries.schema import hint

_COSTS = {"years": "years", "pue": "pue", "kwh": "energy_usd_per_kwh", "host": "host_usd"}  # arguments -> fields


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
        path, value = parse_setting(change)
        by_part.setdefault(system, {})[path] = value
    return [{"system": system, "overrides": overrides} for system, overrides in by_part.items()]


def _question(args: argparse.Namespace) -> Any:
    target = args.workload
    if target is None:
        raise ScenarioError(f"a workload is needed, or one of preset:{', preset:'.join(QUESTIONS)}")
    fields: dict[str, Any]
    if target.startswith("preset:"):
        id = target.removeprefix("preset:")
        if id not in QUESTIONS:
            raise ScenarioError(f"question {id[:60]!r} is not known{hint(id, QUESTIONS)}")
        fields = QUESTIONS[id].question.model_dump(exclude_defaults=True)
    elif target.startswith("1q"):
        fields = question_of(target).model_dump(exclude_defaults=True)
    else:
        fields = {"workload": target}
    fields |= read_fields({name: text for name in READABLE if (text := getattr(args, name, None)) is not None})
    if args.systems:
        fields["systems"] = [id.strip() for id in args.systems.split(",")]
    if args.evidence_only:
        fields["evidence"] = "measured"
    fields["prices"] = {**fields.get("prices", {}), **_prices(args.price)}
    fields["what_ifs"] = [*fields.get("what_ifs", []), *_what_ifs(args.what_if)]
    costs = {name: value for name in _COSTS if (value := getattr(args, name)) is not None}
    fields["costs"] = fields.get("costs", {}) | {_COSTS[name]: read_number(name, text) for name, text in costs.items()}
    return question_of(fields)


def _cells(row: Row, answer: Choice) -> dict[str, Any]:
    """What a terminal shows of a row; what it is ranked by stands before the other figure of money."""
    best = row.best
    money = {"usd_per_million": f"usd_per_million_{answer.cost_unit.replace(' ', '_')}s"}
    if answer.by == "usd_per_hour":
        money = {"instances": "instances", "total_usd_per_hour": "usd_per_hour"} | money
    return {
        "rank": row.rank,
        "system": row.label,
        "arrangement": row.configuration,
        **_times(row),
        f"{answer.unit}s_per_device_per_s": getattr(best, "rate_per_device", None),
        **{label: getattr(best, name, None) for name, label in money.items()},
        "compared with the first": row.reason,
    }


def _times(row: Row) -> dict[str, float | None]:
    """What a user waits for, under load where it was simulated. [s]"""
    if row.load is not None:
        return {"ttft_p99_s": row.load.ttft_s, "tpot_p50_s": row.load.tpot_s}
    if row.best is None:
        return {"latency_s": None}
    return {"latency_s" if row.best.joined is None else "tpot_s": 1.0 / row.best.speed}


def choose(args: argparse.Namespace) -> Answer:
    """Every system tried, ranked by money, with its price and throughput against the winner."""
    answer = engine.choose.choose(_question(args))
    rows = [_cells(row, answer) for row in (*answer.rows, *answer.what_ifs)]
    lines = [answer.sentence, "", *lines_of(rows, limit=len(rows))]
    lines += ["", f"{counted(answer.designs, 'design')} in {answer.seconds:.2f} s; token {answer.question.token}"]
    return answer.to_dict(), lines
