"""A million designs a click: every design of a space through the cost model of `evaluate`, bit for bit.

The public face, for pages, the command line and notebooks::

    from engine.sweep import Space, space_of, sweep

    space = space_of({
        "scenario": {"system": "v100-appliance", "workload": "gpt2-1.5b", "set": {"batch": 8}},   # or a token
        "axes": {
            "batch": [1, 2, 4, 8],                                                                # a list
            "devices.0.memory.hbm.bandwidth": {"from": 5e11, "to": 4e12, "steps": 50, "scale": "log"},
            "platform": [{"precision": "fp16", "scheme": "single"}, {"scheme": "tensor", "devices": 4}],  # together
        },
        "constraints": ["fits", "latency_s <= 0.5"],
        "objectives": ["latency_s:min", "throughput_per_w:max"],                                 # 1 to 4
    })                                       # also from a YAML file's path or a token; `space.token` for a link
    result = sweep(space, progress=lambda done, size: ..., cancelled=lambda: False)
    result.front        # Front: numbers, values (objectives, n), rows()
    result.top          # the ten best by the first objective alone; sweep(space, top=k) for more
    result.cloud        # (len(result.figures), <= 3000) with cloud_numbers and cloud_state (0 fits, 1 not, 2 refused)
    result.counts       # size, done, skipped, refused, unfit, missed (of each limit), kept, sentences
    result.seconds
    write_rows(table_rows(space), Path("all.csv"))   # every design of a small space
    space.scenario(n)   # the Scenario of design n; encode() of it re-evaluates to the same bits

A space too large for that is searched::

    search(space, 20_000, seed=0)                      # 20,000 designs, each picked from the results so far

Questions around it::

    sensitivity(scenario, "latency_s", share=0.1)       # (Sensitivity: path value base low high width, ...), widest
    attribute(base, other, "latency_s").shares          # {"batching": s, "hardware": s, ...}, summing to the difference
    inverse(space, start).changes                       # the smallest that keep the space's limits; `binding` says why

A sweep runs on the process-wide thread pool or any `concurrent.futures` executor and finds the same bytes on each.
"""

from engine.sweep.attribution import Attribution, attribute
from engine.sweep.axis import Axis
from engine.sweep.goals import FIGURES, Limit, Objective, objectives_of
from engine.sweep.inverse import Inverse, inverse
from engine.sweep.pricing.blocks import TABLE_LIMIT, figures_of, price, table_rows
from engine.sweep.result import Front, SweepResult, write_rows
from engine.sweep.run import SweepCancelled, sweep
from engine.sweep.search import search
from engine.sweep.sensitivity import Sensitivity, knobs_of, sensitivity
from engine.sweep.space import Space, space_of
