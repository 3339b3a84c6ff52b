"""The first page's texts; the page puts values where braces are."""

# page.py
QUESTION = "What do you want to run?"
PURPOSE = (
    "Inferscape predicts how fast a neural network runs on an accelerator, at what power and cost, and says how far to "
    "trust each number."
)
LATENCY_HELP = "Longest latency of a request at the 99th percentile; leave it empty for no limit."
TPOT = "TPOT limit (ms)"
TPOT_HELP = "Longest time per output token after the first; leave it empty for no limit."
FIND = "Find the cheapest system"
OWN = "Network not listed? Bring its config.json or ONNX file"
TODAY = "Four of today's questions"
PAPERS = "Five published systems"
