"""A timeline as a trace file: the Trace Event Format that Perfetto and chrome://tracing open. Times are estimates."""

import json
from collections.abc import Sequence
from typing import Any

from engine.cost.rows import RESOURCE_NAMES
from engine.devices.common.contract import Span


def trace(spans: Sequence[Span], of: str, **facts: str) -> str:
    """JSON of a trace: a process named after what is shown, a thread a unit, a complete event a bar. [us]

    ``facts`` (a token, versions) stand beside the events. Source: Trace Event Format, Google, "Complete Events".
    """
    units = list(dict.fromkeys(span.unit for span in spans))
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": of}}]
    for at, unit in enumerate(units, 1):
        named = {"ph": "M", "pid": 1, "tid": at}
        events.append(named | {"name": "thread_name", "args": {"name": unit}})
        events.append(named | {"name": "thread_sort_index", "args": {"sort_index": at}})
    events += [
        {
            "ph": "X",
            "name": span.name,
            "cat": RESOURCE_NAMES[span.resource],
            "pid": 1,
            "tid": units.index(span.unit) + 1,
            "ts": 1e6 * span.start_s,
            "dur": 1e6 * span.duration_s,
        }
        for span in spans
    ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": facts}, allow_nan=False) + "\n"
