"""How work is spread: every element once, failures to the caller, several callers at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lab.ranges import over_range


@given(
    st.integers(0, 5000),
    st.integers(1, 5),
    st.integers(1, 70),
    st.sampled_from([1, 8, 64]),
    st.sampled_from([1, 4, 16]),
)
def test_every_element_is_done_once_and_pieces_start_at_steps(
    count: int, threads: int, grain: int, step: int, finest: int
) -> None:
    done: list[tuple[int, int]] = []
    over_range(lambda lo, hi: done.append((lo, hi)), count, threads=threads, grain=grain, step=step, finest=finest)
    pieces = sorted(piece for piece in done if piece[0] < piece[1])
    assert [i for lo, hi in pieces for i in range(lo, hi)] == list(range(count))
    assert all(lo % step == 0 for lo, _ in pieces)
    assert all(hi - lo >= min(grain, count) for lo, hi in pieces[:-1])


def test_finer_pieces_get_shorter() -> None:
    done: list[tuple[int, int]] = []
    over_range(lambda lo, hi: done.append((lo, hi)), 1024, threads=2, finest=16)
    sizes = [hi - lo for lo, hi in sorted(done)]
    assert sizes[0] == 256
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes[-4:]) <= 1024 // 32


def test_both_threads_work_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=120)
    over_range(lambda lo, hi: meeting.wait(), 2, threads=2)  # breaks unless two pieces run at once


@pytest.mark.parametrize("where", ["caller", "helper"])
def test_a_failure_reaches_the_caller_and_the_next_call_works(where: str) -> None:
    here = threading.current_thread()
    meeting = threading.Barrier(2, timeout=120)

    def refuse(lo: int, hi: int) -> None:
        meeting.wait()
        if (threading.current_thread() is here) == (where == "caller"):
            raise IndexError(where)

    with pytest.raises(IndexError, match=where):
        over_range(refuse, 2, threads=2)
    test_both_threads_work_at_the_same_time()


def test_callers_at_the_same_time_each_get_all_of_theirs() -> None:
    def one(count: int) -> list[int]:
        done: list[int] = []

        def kernel(lo: int, hi: int) -> None:
            time.sleep(1e-4)
            done.extend(range(lo, hi))

        for _ in range(20):
            over_range(kernel, count, threads=3, finest=4)
        return sorted(done)

    with ThreadPoolExecutor(6) as executor:
        for count, done in zip(range(40, 52), executor.map(one, range(40, 52)), strict=True):
            assert done == sorted(list(range(count)) * 20)


def test_a_call_inside_a_piece_is_no_deadlock() -> None:
    done: list[int] = []
    over_range(lambda lo, hi: over_range(lambda a, b: done.extend(range(a, b)), 10, threads=2), 4, threads=2)
    assert sorted(done) == sorted(list(range(10)) * 2)  # two pieces of two
