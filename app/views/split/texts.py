"""The Split page's texts; the page puts values where braces are."""

# page.py
MOST_REQUESTS = "Most requests per second"
LEAST_WORK_FIRST = "Least work on the first"
LEAST_WORK_SECOND = "Least work on the second"
NO_PARTITION_POINT = "No partition point to show: {reason}. These systems have two devices to cut between."
NO_SECOND_DEVICE = "{name} has no second device to cut for; it runs as {ways}"
EXECUTORS = ("First device", "Second", "Third")
INT8_HELP = "A quantised part at the edge: fewer bytes cross."
CUTS = "Where to cut · {count} points"
FRAME_HELP = "After the camera's encoder."
NONE_RUNS = "no machine here runs this network"
NO_PLACE = "no place answers in time and keeps up with the cameras: {cameras}"
ANY_NUMBER = "any number, as each has its own machine"
TIERS = "Machines and links behind the cameras"
BATCH = "Frames together"
BATCH_HELP = "Frames that wait at this machine are taken together, up to this number."
CAMERAS_HELP = "They share the links and the machines behind them; with several, p99 is simulated."
FILTER = "Small network before it"
FILTER_HELP = "Sees every frame on the first machine; only frames that it passes on reach this network."
NOT_WHOLE = "Not whole at the {name}: {reason}"
PASSED = "Share of frames passed on"
MONTH_COLUMN = "Cost (USD per month)"
PLACES_ANSWER = "{first} answers first, in {latency}; {most} serves most cameras, "
PLACES_CAPTION = (
    "Machines, links and distances are assumed. Each camera has a machine of "
    "the far edge, all share the others. Frames travel encoded, answers travel back. Power counts machines that work, "
    "at this load; the cost is theirs over their years of use, with energy, and missing where one has no price."
)
WHAT_IFS_CAPTION = "What-ifs and layer formats are of the scenario's own system; these machines are the catalog's."
FORWARDING_ANSWER = "with {executors} executors busy, line rate from {size:.0f} B up; some smaller packets are dropped"
FORWARDING_NONE = "with {executors} executors busy no thread is left to forward"
TOGETHER = "Host and network processor at once"
TOGETHER_ANSWER = "{gain} more requests than the host alone, {per_joule} more for each joule at the wall"
WALL_COLUMN = "At the wall (W)"
JOULE_COLUMN = "Per joule at the wall"
TOGETHER_CAPTION = (
    "The host takes the largest batch on each core that stays under 7 ms, the network processor what is set here. Each "
    "has requests of its own; the host's cross the network processor. At the wall is with the machine that waits."
)
WAIT_COLUMN = "Wait for 64 B (cycles)"
DEPTH_FIRST_ANSWER = "{speedup} as fast, {depth} moved instead of "
DEPTH_FIRST_CAPTION = (
    "Compared with an eager framework that finishes every operator: tiles of a chain stay in a core's cache. An "
    "estimate; the Kernels page runs such blocks on this host."
)

# charts.py
CUTS_AXIS = "Operators on the first device"
PLACES_AXIS = "From frame to answer ({unit})"
CHAIN_HOVER = (
    "<b>{ops}</b><br>{before} before, {after} after<br>tile of {rows} rows × {channels} channels, {tile}<extra></extra>"
)
CHAINS_AXIS = "Moved ({unit}): grey before, in colour after"
