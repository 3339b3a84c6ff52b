"""The Split page's texts; the page puts values where braces are."""

# page.py
MOST_REQUESTS = "Most requests per second"
LEAST_WORK_FIRST = "Least work on the first"
LEAST_WORK_SECOND = "Least work on the second"
NO_PARTITION_POINT = "No partition point to show: {reason}. These systems have two devices to cut between."
NO_SECOND_DEVICE = "{name} has no second device to cut for; it runs as {ways}"
INT8_HELP = "A quantised part at the edge: fewer bytes cross."
CUTS = "Where to cut · {count} points"
CUTS_ALT = "Latency of every cut with its parts: {answer}."
CUTS_TABLE_ALT = "Every cut with the parts of its latency"
FRAME_HELP = "After the camera's encoder."
NONE_RUNS = "none of the three runs this network"
NO_PLACE = "no place answers in time and keeps up with one camera"
PLACES_ANSWER = "{first} answers first, in {latency}; {most} serves most cameras, "
PLACES_ALT = "From frame to answer at each execution point: {answer}."
UPLINK_COLUMN = "Uplink of a camera (Mbit/s)"
PLACES_TABLE_ALT = "Uplink, cameras and limit of each execution point"
PLACES_CAPTION = (
    "Far edge: an ARM CPU. Metro edge: a Xeon. Core: a GPU in a data centre. Machines, links and distances are "
    "assumed; the document names the placements only. A frame at a time in {precision}. Encoded frames travel and "
    "answers travel back; the cuts above send decoded inputs and end with the answer."
)
WHAT_IFS_CAPTION = "What-ifs and layer formats are of the scenario's own system; these machines are the catalog's."
FORWARDING_ANSWER = "with {executors} executors busy, line rate from {size:.0f} B up; some smaller packets are dropped"
FORWARDING_ALT = "Forwarded traffic against packet size: {answer}."
WAIT_COLUMN = "Wait for 64 B (cycles)"
MEMORIES_ALT = "Memories of the network processor with latency and width"
DEPTH_FIRST_ANSWER = "{speedup} as fast, {depth} moved instead of "
DEPTH_FIRST = "Depth-first (fused-tile) execution"
CHAINS_ALT = "Activations moved by the largest chains: {answer}."
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
