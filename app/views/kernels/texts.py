"""The Kernels page's texts; the page puts values where braces are."""

# page.py
KERNEL_HELP = "Operators of this project, compiled for this host."
THREADS_HELP = "One thread is timed in CPU time, several in wall time."
OF_ROOFS = ", **{roof_share}** of what this host's roofline allows"
NO_LIBRARY = "no library has this operator"
ROOFLINE = "On this host's roofline"
NO_ROOF = "This kernel has no arithmetic that the probed roofs bound."
PRODUCTS_16_BIT = "16-bit products in registers, one thread"
DIFFERING_BITS = "differing bits counted in registers, one thread"
PRODUCTS = "products in registers, one thread"
PRODUCTS_8_BIT = "8-bit products in registers, one thread"
TRIAD = "two reads and a write, one thread"
EMPTY_KERNEL = "a compiled kernel that does nothing"
EMPTY_POOL = "a kernel that does nothing, over the pool"
CALIBRATE_CAPTION = (
    "`python -m engine calibrate` writes these into your catalog: this host is then a system to evaluate."
)
NOT_MEASURED = (
    "Nothing is measured yet. Run times the kernel on the machine that serves this page, for at most {seconds}, one "
    "reader at a time."
)
OTHER_CHOICE = "The last run on this host measured another choice; Run measures the present choice."

# fused.py
RUN_HOST = "Run on this host"
RUN_HELP = "One thread, about twenty seconds, taking turns with other readers' runs; the first run compiles and probes."
ON_THIS_HOST = "Depth-first execution on this host"
BLOCKS_NOT_MEASURED = "{count} blocks of four networks; none measured yet"
BLOCKS_NOT_MEASURED_CAPTION = (
    "Each block is run both ways by this project's operators. The prediction knows the bytes and operations of a block "
    "and the rates probed on this host, but none of the block's own times."
)
MEASURED_ANSWER = "{faster} of {count} blocks are faster; {close} gain what was predicted within 25%"

# charts.py
GAIN_AXIS = "Breadth-first time over depth-first time (×)"
