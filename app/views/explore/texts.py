"""The Explore page's texts; the page puts values where braces are."""

# page.py
WHERE_TIME_GOES = "Where the time goes"
NO_MEMORY_LEVEL = "The family of this device models no memory level."
TRAFFIC_EACH_LINK = "Traffic on each link"
NO_OTHER_VALUE = "no other value fits"
NO_MORE_THROUGHPUT = "no other {knob} gives more throughput"
KNOB_ANSWER = "{name} gives {gain} the throughput at {cost} the latency"
OPERATORS_ANSWER = "{count} rows, slowest first; select a row for its detail"
SMALLER_CHANGE_WOULD = "A smaller change of it would {stops}."
DOES_NOT_FIT = "Latency, throughput and cost are not shown: they would describe a machine that cannot hold the model."

# headline.py
LATENCY_HELP = "{latency} Here: one {unit}, to its last token."
NO_POWER = " No power is published for this system."
WHAT_IF_PRICE = "no price: a what-if"
WHAT_IF_PRICE_HELP = "Hardware that a what-if changes has no list price; set a price among the hardware overrides."
NO_PRICE_HELP = "No price is published for a device of this system."
