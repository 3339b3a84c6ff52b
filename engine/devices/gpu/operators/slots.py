"""Names of the slots of the flat arrays the compiled operator models read and write."""

# a part and its generation: see `record.machine`; the order of `MACHINE` is the order of the slots
MACHINE = (
    "units", "bandwidth", "l2_bytes", "start", "feed", "store", "l2_share", "dram_share", "step", "stream",
    "softmax", "block",
)  # fmt: skip
UNITS, BANDWIDTH, L2, START, FEED, STORE, L2_SHARE, DRAM_SHARE, STEP, STREAM, SOFTMAX, BLOCK = range(12)

# what an operator model answers
SECONDS, BOUND, BOUND_BY, REGIME = range(4)
ANSWER = 4
BOUNDS = ("compute", "memory", "link")
"""Names behind BOUND_BY: the roof of the data sheet that is highest."""
REGIMES = ("start", "compute", "memory", "on chip", "power", "link")
"""Names behind REGIME: the term of the prediction that is largest."""
COMPUTE, MEMORY, WIRE = range(3)
AT_START, AT_COMPUTE, AT_MEMORY, AT_CHIP, AT_POWER, AT_LINK = range(6)
