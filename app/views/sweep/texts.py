"""The Sweep page's texts; the page puts values where braces are."""

# page.py
FRONT_ANSWER = "{count:,} of {feasible} feasible designs; better is {better}"
FRONT_ALT = "Pareto front of {x} against {y}: {answer}."
NOT_FRONT = "not on the front"
ALIKE = "{alike:,} designs reach exactly these figures; this is the first of them."
BRUSHED = "{shown} of {count} rows, selected by the brush"
SELECT_ONE = "{count} rows; select a row for its card"
MOUSE, PICK, BOX = "In the charts", "Pick a design", "Draw a box"
BRUSH_HELP = "{count:,} designs counted; draw a box in a chart to filter them, pick a design for its card."
NONE_KEPT = "No design of the front lies in the box: draw another, or clear it."
INSIDE = "{inside:,} of {count:,} designs in the box, {front:,} of them on the front."
UPRIGHT_ALT = "Designs on the front along {axes}, a line for each design"
ALIKE_IN = "The same in all of them: {alike}."
FRONT = "Designs on the front"
EXPORT = "Export the front, CSV"
EXPORT_HELP = "Every design of the front with its link's token, settings and figures in SI."
STOPPED_BEFORE_ANY = "Sweep stopped before its first designs were done. Run it again for all of them."
NOTHING_RUN = "{why} Nothing was run"
OUT_OF_DATE = ":orange-badge[out of date] Inputs changed. Run again; these results are from before the change."
STOPPED = "Sweep stopped at {done} designs{why}. What is below covers those; run again for the rest."
READY = "**{size} {noun} are ready to be tried**"
READY_ALONG = "{ready}, along {axes}. Change the axes on the left."

# background.py
SETTLING = "{points} in closed form; the front runs through the calendar of passes"
TIED_LENGTHS = "Axes that are set together need equally many values: {counts}"

SENSITIVITY = "Sensitivity of the first objective"
NOTHING_MOVES = "No number of this design moves its {label} by as much as 0.05%."
SENSITIVITY_CAPTION = "Every number of the selected design {share} down (hatched) and up (solid). {said}."
INVERSE = "The smallest change that meets my limits"
NO_LIMITS = "The scenario fits and has no limits: set a latency, a power or a budget under Constraints."
INVERSE_CAPTION = "Along the axes on the left, from the current scenario: fewest axes changed, then least far."
NOTHING_TO_CHANGE = "Nothing has to change: the scenario meets every limit."

# controls.py
KIND, SERVING = "What is swept", "Serving engine"
SERVING_OBJECTIVES = (
    "Front of output tokens per second per device over those per user. Every point is answered in closed form; the "
    "front's points run through the calendar of passes."
)
NOTHING_CHANGED = "{why} Nothing was changed"
NO_VALUES = "an axis needs at least one value"
LOG_HELP = "Equal ratios between steps instead of equal distances."
TIED_HELP = "Values are paired, first with first, instead of combined; each axis has equally many."
CONSTRAINTS = "**Constraints** :gray[· fits in memory, and]"
LATENCY_LIMIT = "Latency of a request ≤"
NO_COST = "Cost is no objective here: hardware that an axis changes has no list price."
SEARCH_HELP = (
    "Tries a part of the designs, each picked from the results so far: a front close to the true front, not proven to "
    "be it. More than {most} designs can only be searched."
)
USUAL_AXES = "Back to the usual axes"

# objectives.py
LATENCY_END_END = "Latency end to end"
TIME_FIRST_TOKEN = "Time to first token"
TIME_PER_OUTPUT_TOKEN = "Time per output token"
COST_PER_MILLION = "Cost of 1 M {unit}s"

# questions.py
TOO_MANY_DESIGNS = (
    "{size:,} designs would be looked through; at most {most:,} are allowed here: take axes away or give them fewer "
    "steps"
)
NEAREST_DOES_NOT_FIT = "the nearest does not fit in memory"
NO_DESIGN_KEEPS = "No design on these axes keeps every limit: {missed}."

# spaces.py
SPACE_TOO_LONG = "This space has {count:,} characters; at most {most:,} are allowed"
SPACE_DAMAGED = "This space is damaged: it does not begin as a space does"
SPACE_VERSION = "This space was made by another version ({token}; this server reads {version})"
SPACE_NO_AXES = "This space is damaged: it does not hold axes"
SPACE_AXES = "This space has {count} axes; at most {most} different axes are allowed"
SPACE_OBJECTIVES = "This space has {count} objectives; 1 to 3 are allowed"
SPACE_TIES = "This space ties an axis that it does not have, or ties an axis twice"
FREE_POWER = (
    "Free in this model: power does not follow some of these axes, so figures of power are no objectives. Set the "
    "device's power under Hardware overrides to have them."
)
SPACE_STEPS = "An axis of this space has {steps} steps; 1 to {most:,} are allowed"
SPACE_VALUES = "An axis of this space is not a list of 1 to {most:,} values"
SHOWING = "{why} Showing {whose} axes"
LEFT_OUT = "Left out of this space, because the system does not have it: {lost}."

# tables.py
FOUND_BY = "Found by"
POINTS_PACE = " ({done} points/s in closed form, {simulated} of them run through the calendar of passes)"
NO_SUCH_COMBINATION = "combination not supported by the system"
PACE = " (set up in {setup}, priced at {done} designs/s)"
RESULT = "{done}{rate}: {share} meet every limit, **{count:,}** on the front, {best}."
NO_DESIGN = "No design meets all limits."
BINDING_LIMIT = " The binding limit is {failed}, missed by {share}."
