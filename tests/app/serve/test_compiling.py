"""At a cold start a page says what it waits for and for how long by now."""

import re
import threading
import time
from urllib.parse import urlencode

import numpy as np
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from app.shared.compiling import sentence
from engine.kernels.jit import JIT_ENABLED, Compilation, compilation, inner
from engine.resolve.presets import PRESETS
from engine.scenario import encode
from tests.app.conftest import free_port
from tests.app.loops import run
from tests.bench.sessions import served

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (Compilation("engine.devices.cpu.model", 2.4), "the price model (CPU), once on this machine: 2 s so far."),
        (Compilation("engine.devices.gpu.price", 30.0), "the price model (GPU or TPU), once on this machine: 30 s so"),
        (Compilation("engine.traffic.runs", 0.1), "the functions that this takes, once on this machine: 0 s so far."),
    ],
)
def test_a_sentence_says_what_and_for_how_long(now, said):
    assert said in sentence(now)


def test_what_is_compiled_is_known_from_the_compilers_events():
    seen: list[Compilation | None] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.append(compilation())
            time.sleep(0.01)

    watch = threading.Thread(target=look)
    watch.start()
    inner(lambda x: np.cumsum(x)[::-1])(np.ones(3))
    time.sleep(0.05)
    done.set()
    watch.join()
    found = [now for now in seen if now is not None]
    assert {now.module for now in found} == {__name__}
    assert max(now.taken_s for now in found) > 0.1
    assert seen[-1] is None


@pytest.mark.whole
@pytest.mark.timeout(400)
def test_a_cold_page_says_what_it_waits_for(tmp_path):
    """It showed nothing but a spinner for half a minute. One price is no reason to wait: Python finds it."""

    async def first(port: int, page: str) -> list[str]:
        """Texts at the place of the message until the page is done, "" where it is cleared."""
        address = f"ws://127.0.0.1:{port}/_stcore/stream"
        question, told = BackMsg(), []
        question.rerun_script.page_name = page
        question.rerun_script.query_string = urlencode({"s": encode(PRESETS["cpu-dlrm"].scenario)})
        async with connect(address, subprotocols=[Subprotocol("streamlit")], max_size=None, compression=None) as socket:
            await socket.send(question.SerializeToString())
            while True:
                message = ForwardMsg()
                message.ParseFromString(await socket.recv())
                if message.WhichOneof("type") == "script_finished":
                    return told
                kind = message.delta.new_element.WhichOneof("type")
                if kind == "alert" and "Compiling" in message.delta.new_element.alert.body:
                    place = list(message.metadata.delta_path)
                    told.append(message.delta.new_element.alert.body)
                elif kind == "empty" and told and list(message.metadata.delta_path) == place:
                    told.append("")

    port = free_port()
    with served(port, NUMBA_CACHE_DIR=str(tmp_path), NUMBA_OPT="0"):  # seconds of compiling are enough
        price, cold, warm = (run(first(port, page)) for page in ("explore", "traffic", "traffic"))
    assert price == []
    assert any(re.search(r"functions that this takes, once on this machine: \d+ s so far", text) for text in cold), cold
    assert cold[-1] == ""
    assert warm == []
