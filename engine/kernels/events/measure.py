"""What a run says once it is over: latencies after warm-up and the terms of Little's law, in one pass."""

import math

from engine.kernels.jit import kernel


@kernel
def measure(arrive, finish, skip, latency):
    """Latencies of the requests from index ``skip`` on that were answered, and the window's totals.

    The window opens with the arrival of request ``skip`` and closes with the last arrival. The area under the
    number in the system counts everybody's stay inside the window, also of those who came before it opened;
    the latencies count whole stays of those who came inside it. The two agree only in a steady state.

    Returns
    -------
    answered, dropped : int
        Requests of the window. [-]
    total, area, last : float
        Sum of latencies, area under the number in the system, instant of the last answer. [s]
    """
    n = arrive.shape[0]
    opens = arrive[skip]
    closes = arrive[n - 1]
    count = 0
    total = 0.0
    area = 0.0
    last = closes
    for i in range(skip):
        out = finish[i]
        if out > opens:
            area += min(out, closes) - opens
    for i in range(skip, n):
        out = finish[i]
        if not math.isnan(out):
            stay = out - arrive[i]
            latency[count] = stay
            count += 1
            total += stay
            area += min(out, closes) - arrive[i]
            last = max(last, out)
    return count, n - skip - count, total, area, last
