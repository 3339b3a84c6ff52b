"""The Choose page's texts; the page puts values where braces are."""

# page.py
CHEAPEST_FIRST = "{ranked} with a price, cheapest first"
SYSTEMS_MEET = "Systems that meet your limits"
RATIO_HELP = "Price and throughput per device, relative to the cheapest system's."
BAND_HELP = "Cost at both ends of the error band."
TOKEN_PRICES = (
    "{every} per million tokens, input and output together; apart, {input_usd} per million input tokens and "
    "{output_usd} per million output tokens"
)
PRICE_AN_HOUR = "{total} per hour for {many} of {configuration}, {busy} of the time busy"
JOINED = "Under load (continuous batching): TTFT {ttft}, TPOT {tpot}, {latency} end to end"
BATCH_TIMES = "{batch} started together (as Explore): TTFT {ttft}, TPOT {tpot}, {latency} end to end"
LENGTHS = "{inputs} input and {outputs} output tokens"
RATES = "{rate} per instance, {each} per device"
LOAD_HELP = "Simulate the queue in front of it."
COMPARE_HELP = "Add it to Compare."
FRONT = "Throughput per device vs {rate} per user"
FRONT_ANSWER = "{label} is fastest for one user"
DO_NOT_MEET = "{count} systems miss your limits"
WHAT_IF_CAPTION = "Hardware values of your own: not ranked among systems that exist; price and power are unknown."
METHOD_CAPTION = (
    "{workload}, {request} per request: {tried:,} designs of {systems} systems in {seconds}. "
    "Estimates. A limit on latency holds for 99% of "
    "requests that come independently; an instance is planned for at most 80% of its capacity. TPOT includes the "
    "prefills of other users (continuous batching)."
)

# charts.py
FRONT_HOVER = "<b>{label}</b><br>{configuration}<br>{rate} per device<br>{speed} per user<extra></extra>"

# controls.py
RESNET_AT_EDGE = "ResNet at the edge"
P99_HELP = "99% of requests are answered within this, waiting included."
TPOT_HELP = "Time per output token, the prefills of other users included."
RATE_HELP = "Power of one instance at full load."
DEMAND_HELP = (
    "Full load: one instance at its limits. QPS: requests that arrive independently. Users: each sends the next "
    "request once the last is answered."
)
PRECISION_DOWN_HELP = "Fewest bits per weight to try. Fewer bits are faster and can cost accuracy: see Numerics."
BATCH_HELP = "Only this batch is tried; leave it empty to try all."
CAPEX_HELP = "Purchase price of one device."
RENT_HELP = "Price of one device by the hour, energy and host included: it counts as its sum over the years in use."
WHAT_IF_HELP = "Also tries the hardware overrides of your scenario, labelled and not ranked among real systems."

# page_question.py
NOTHING_CHANGED = "{why} Nothing was changed"
SHOWING_FIRST_QUESTION = "{error}; showing the first question"
