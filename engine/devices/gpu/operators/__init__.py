"""One operator on one GPU: seconds from its shape, the part's data sheet and a few physical constants a generation.

What a kernel does is written out (tiles, waves, splits, what misses the L2, what a power limit allows) and each
mechanism has one constant, the same for every part of a generation and, where a library decides it, for a format. They
are in ``fitted.yaml`` beside the measured files they were fitted on; ``facts.yaml`` has meaning, unit and range.
Every time is an estimate for a replayed CUDA graph with a warm L2, as the measured operators were, or with weights from
DRAM (``cold``).
"""
