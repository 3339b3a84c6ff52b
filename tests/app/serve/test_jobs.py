"""Jobs of several readers share a server: some work, the others wait and say so, memory stays within its room."""

import threading
import time
from concurrent.futures import CancelledError

import pytest
from streamlit.runtime.scriptrunner import StopException

from app.shared import jobs
from app.shared.jobs import Job, Queue
from engine.scenario import ScenarioError

QUEUES = {"sweep": jobs.SWEEPS, "simulation": jobs.SIMULATIONS, "run": jobs.RUNS}


class Worker(Job):
    """A job that works until it is let go."""

    def __init__(self, queue: Queue, words=lambda share: "") -> None:
        super().__init__(queue, self.stay, words)
        self.end, self.began = threading.Event(), threading.Event()
        self.submit()

    def stay(self, job: Job) -> int:
        self.began.set()
        assert self.end.wait(200)
        return 42

    def finish(self) -> None:
        self.end.set()
        self.wait(60)


def test_few_jobs_work_at_once_and_others_wait_in_their_order():
    queue = Queue("sweep", at_once=2)
    one, two = Worker(queue), Worker(queue)
    assert one.began.wait(60)
    assert two.began.wait(60)
    three, four, five = Worker(queue), Worker(queue), Worker(queue, "{:.0%}".format)
    assert [queue.ahead(job) for job in (one, two, three, four, five)] == [0, 0, 2, 3, 4]
    assert five.status() == "Waiting: 4 sweeps ahead of yours"
    assert not three.began.wait(0.3)
    four.cancel()  # its reader has left
    assert five.status() == "Waiting: 3 sweeps ahead of yours"
    two.finish()
    assert three.began.wait(60)
    assert queue.ahead(five) == 2
    one.finish()
    assert five.began.wait(60)
    assert five.note(1, 4)
    assert five.status() == "25%"
    three.finish()
    five.finish()
    assert not four.began.is_set()
    assert five.result() == 42
    with pytest.raises(CancelledError):
        four.result()


@pytest.mark.parametrize("name", QUEUES)
def test_a_queue_has_an_end_and_says_so(name):
    assert QUEUES[name].noun == name
    queue = Queue(name, at_once=1)
    first = Worker(queue)
    assert first.began.wait(60)
    waiting = [Worker(queue) for _ in range(16)]
    with pytest.raises(ScenarioError, match=f"16 {name}s wait on this server already; try again in a minute"):
        Worker(queue)
    for job in waiting:
        job.cancel()
    first.finish()
    assert not any(job.began.is_set() for job in waiting)


def test_a_job_ends_where_memory_is_taken_or_others_wait_long():
    used = [5e8]
    queue = Queue("sweep", at_once=1, share_s=0.2, room=1e8, memory=lambda: used[0])
    one = Worker(queue)
    assert one.began.wait(60)
    time.sleep(0.3)
    assert not one.over()  # nobody waits
    two = Worker(queue)
    assert queue.over(one) == "others wait, and it had 0 s"
    used[0] = 6.1e8
    time.sleep(0.15)
    assert one.over()
    assert one.why == "sweeps may take 100 MB of this server together, and that is taken"
    one.finish()
    assert two.began.wait(60)
    time.sleep(0.15)
    assert not two.over()  # what is there when the first begins is not theirs
    two.finish()


def test_measurements_would_measure_each_other():
    one, two = Worker(jobs.RUNS), Worker(jobs.RUNS)
    assert one.began.wait(60)
    assert not two.began.wait(0.3)
    assert two.status() == "Waiting: 1 run ahead of yours"
    one.finish()
    assert two.began.wait(60)
    two.finish()


class Bar:
    """A progress bar whose reader clicks on something once a job has begun."""

    def progress(self, share: float, text: str) -> None:
        if share > 0:
            raise StopException


def test_leaving_a_job_that_is_followed_cancels_it():
    def counting(job: Job) -> str:
        done = 0
        while job.note(done := done + 1, 1e9):
            time.sleep(0.001)
        return "left"

    job = Job(Queue("run"), counting)
    with pytest.raises(StopException):
        jobs.follow(job, Bar())
    job.wait(60)
    assert job.cancelled
    assert job.result() == "left"
    taken = job.seconds
    time.sleep(0.05)
    assert job.seconds == taken


def test_who_follows_a_job_gets_what_it_raised():
    def failing(job: Job) -> None:
        raise ScenarioError("batch is 0; allowed: 1 or more")

    with pytest.raises(ScenarioError, match="batch is 0"):
        jobs.follow(Job(Queue("run"), failing), Bar())


def test_a_job_that_is_over_stays_as_it_is():
    job = Job(Queue("run"), lambda job: 42)
    assert jobs.follow(job, Bar()) == 42
    job.cancel()
    assert not job.cancelled
    assert job.result() == 42
