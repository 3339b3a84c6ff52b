"""Serves, and serves again where the server died of a signal.

python -m app.server.supervise [options of streamlit run]
"""

import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence

_LIMIT, _WITHIN_S = 5, 600.0  # deaths after which a server that starts again would only die again
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SERVE = (sys.executable, "-m", "streamlit", "run", "app/serve.py")


def supervise(command: Sequence[str]) -> int:
    """Runs a command until it ends by itself, is asked to, or has died of signals too often.

    Returns
    -------
    status : its own exit status, 0 where it was asked to end, 128 and the signal's number where it died too often.
    """
    stopping = False
    server: subprocess.Popen[bytes] | None = None

    def pass_on(*_: object) -> None:
        nonlocal stopping
        stopping = True
        if server is not None:
            server.terminate()  # a second interrupt, where a terminal sent the first, would cut short how it ends

    before = {number: signal.signal(number, pass_on) for number in _STOP_SIGNALS}
    deaths: deque[float] = deque(maxlen=_LIMIT)
    try:
        while True:
            server = subprocess.Popen(command)
            if stopping:  # while it was started
                server.terminate()
            status = server.wait()
            if stopping or -status in _STOP_SIGNALS:
                return 0
            if status >= 0:
                return status
            deaths.append(time.monotonic())
            often = len(deaths) == _LIMIT and deaths[-1] - deaths[0] < _WITHIN_S
            then = f"for the {_LIMIT}th time in {_WITHIN_S:.0f} s; it stays ended" if often else "and is started again"
            print(f"The server died of {signal.Signals(-status).name} {then}", file=sys.stderr, flush=True)
            if often:
                return 128 - status
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(supervise([*_SERVE, *sys.argv[1:]]))
