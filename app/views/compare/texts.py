"""The Compare page's texts; the page puts values where braces are."""

# page.py
ADD_SYSTEM_HELP = "Runs the current scenario's request"
ADD_LINK = "Add from a link or a token"
ADD_LINK_HELP = "A link of this app, a scenario's token, or the link of another comparison."
ADD_CURRENT = "Add the current scenario"
ALREADY_COMPARED = "The current scenario is compared already."
REMOVE_HELP = "Take {letter} out of the comparison"
METRICS_CAPTION = "Bold is the best of its row; coloured words are against {letter}."
NO_SECOND = "only one scenario has this figure"
ALL_HAVE_SAME = "all scenarios have the same value"
DIFFERENT_COUNTS = "the scenarios count different work"
WHERE_TIME_GOES = "Where the time goes"
DRAWN_AS_SHARES = "Drawn as shares, because the times are far apart."
DIFFERENT_WORK = "the scenarios do different work"
DIFFERENT_WORK_CAPTION = "Pick Power or Capital cost above; times and rates of different work have no difference."
NOTHING_MOVES = "Nothing that differs between them moves this figure."
DIFFERENCE_CAPTION = (
    "Each part is the mean over every order in which the changes can be made ({evaluations} mixtures evaluated), so it "
    "does not depend on the order. Solid: better, hatched: worse."
)
NO_COMMON_OPERATOR = "No operator has the same name in both: they run different networks."

# charts.py
SAVED_AXIS = "Time saved by {other} against {base} ({unit})"

# tables.py
POWER_HELP = "Wall power under load."
COST_HELP = "Hardware and energy for a million units of work, at the share of time busy set under Costs."
NONE_RUNS = "**None of these scenarios can run.**"
ALONE = "{name} is alone. Add a preset, a system or a link in the sidebar to compare it with."
SAME_WORK = "**These scenarios perform the same.**"
DIFFERENT_SCENARIOS = "**These scenarios do different work.** {difference}"
UNITS_DIFFER = ":gray[They count {units}, so their rates and times are not compared.]"
NETWORKS_DIFFER = ":gray[They run different networks, so not all of a difference is a gain.]"
BANDS_OVERLAP = ":gray[The error bands of {pair} overlap in latency: their order is open.]"
