"""The Numerics page's texts; the page puts values where braces are."""

# page.py
LAYER_HELP = "Values drawn with a fixed seed, 256 x 512."
TARGET_HELP = "6 dB is about one bit; at 30 dB the noise is 3% of the signal."
FORMAT_HELP = "The format of the distributions below."
NO_FORMAT = "no format reaches {wanted:g} dB"
BEFORE_AFTER_ANSWER = "{sqnr} dB, at most {largest} off"
LIMIT_HELP = "The middle limit is the service's own in document 000."
MEASURE_HELP = "Trains the network, times its layers on this host and searches: some seconds."
UNTOUCHED = "{loss:.2g}% on data no move has seen"
MEASURED_ANSWER = "{wide} of {layers} layers stay in FP16, {outcome}"
NO_MEASURED_PLAN = "no plan keeps the loss within {bound:g}%"
HELD_OUT_MISSED = " on data the search has not seen: the best plan loses {loss}"
MEASURED = "Plan measured on kernels"
OPEN = "Open {name} on the six-card node with this plan"
CAPTION = "{help} Tensors are synthetic and the same on every visit."

# charts.py
CURVE_HOVER = "<b>{format}</b><br>{bits} bits per value<br>{sqnr} dB<extra></extra>"
CURVE_AXIS = "Bits stored per value, scales included"
BEFORE_AFTER_KEY = "filled: before, line: after"

# labels.py
FAMILIES = {
    "Integer, one scale": "Integer, per-tensor scale",
    "Integer, one scale per row": "Integer, per-row scale",
    "Shared exponent": "Block floating point",
    "Floating point": "Floating point",
    "Binary": "Binary",
}
NO_FORMAT_SENTENCE = "No format here reaches {wanted_db:g} dB SQNR on {tensor}"
FORMAT_SENTENCE = "**{format}** reaches {wanted_db:g} dB SQNR at **{bits} bits** {value} ({tensor})"

# trained.py
WIDE_DEEP_ANSWER = "INT8 is {gain} as fast at batch 512 and loses {lost:.3f}% of "
WIDE_DEEP = "Wide & Deep trained here, FP32 and INT8"
WIDE_DEEP_CAPTION = (
    "As published: inputs of the first product asymmetric, of later ones symmetric, one scale per layer; refined: one "
    "scale per channel, ranges clipped at 99.99%. {rows:,} synthetic rows trained, {held_out:,} held out, {share} of "
    "them without a click: no evidence about Criteo's data."
)
WIDE_DEEP_TITLE = "Wide & Deep trained here"
WIDE_DEEP_SAYS = "FP32 against INT8 on held-out rows, error by layer, samples per second"
RUN_HELP = "Runs on this host for about ten seconds, taking turns with other readers' runs."
