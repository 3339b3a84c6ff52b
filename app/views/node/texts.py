"""The Node page's texts; the page puts values where braces are."""

# page.py
POWER = "Power at full load"
TRAFFIC = "Traffic on each wire"
SPEED_UPS = "Speed-up of each optimisation"
GAIN_HELP = "On compared with off, the others as set."
ALONE_HELP = "On compared with off, all others off."
CORE_SPLIT_ANSWER = "{best} of {cores} for {operator} is best"
POWER_ANSWER = "{power}: cards {idle} idle and {work} of work, switch {chassis}, host {host}"
WORK_BY_PART = "The cards' work: {shares}."
CAP_TAKES = " Their power limit leaves {share} of the clock."
KINDS = "**Time by kind of operator** :gray[· before and after each optimisation]"

# charts.py
WIRE_HOVER = (
    "<b>{name}</b><br>{bytes_per_request} per request, {used} of {bandwidth}<br>{time} of a request's "
    "latency<extra></extra>"
)

# facts.py
NO_HOST = "{name} has no host: there is nothing at the other end of its links."
NO_NODE = "{name} is not a node of cards behind a switch: its topology is {topology}."
NO_SWITCH = "this device has no switch"
MS = "as it is (ms)"

# pool.py
NO_END = "queue grows without bound"
CLIENTS_HELP = "How many clients fill one instance; below 1, a client needs several instances."
WAIT_HELP = "To an idle instance, network included; below it with these clients."
POOL = "one pool, called by many CPU servers over the network"
DEVICES = "Devices in the pool"
CORES = "Cores per client"
CORE_TIME = "Core time per query (ms)"
CORE_TIME_HELP = "What a client's core spends on a query beside the call. Assumed."
POOL_CAPTION = (
    "{message}. More than one client shares an instance where a query takes {shared_above} of core time or more. "
    "Poisson arrivals, first come first served."
)
POOL_ALT = "95th percentile along the number of clients: {message}."

# tilings.py
TILINGS = "**Tilings of a product** :gray[· blocks and loops for two levels of memory, all of them searched]"
NO_TILE = "No tile of this product fits a core's memory."
TILINGS_ANSWER = "{moved} into and out of cores, no tiling below {least}"
BYTES_AXIS = "Bytes into and out of cores"
COLUMNS_AXIS = "Columns of a block"
ROWS_AXIS = "Rows of a block"
TILINGS_ALT = "Bytes by block of {name}: {answer}."
TRAFFIC_COLUMN = "Into and out of cores"
TILINGS_CAPTION = (
    "The star is the fastest tiling. Blocks are as deep as fits; empty cells do not fit. "
    "Pixels that windows of two blocks share are read by both."
)
