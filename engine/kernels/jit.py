"""The one place that knows numba: the decorator, its cache, host features and the thread pool.

Every compiled function of the project, operator or cost model, takes its decorator from here::

    from engine.kernels.jit import kernel

    @kernel
    def fma(a, b, c): ...

Why a wrapper at all: numba's own ``cache=True`` keys an entry by the *defining file only*, so an edit to a
callee or to an imported constant keeps serving stale machine code. Here an entry lies in a directory named by a
digest of the defining file and of all of ours that it imports, directly or not: it is never older than the code it was
made from, and an edit elsewhere compiles nothing anew. numba writes an entry beside its place and renames it, so that a
killed process leaves none cut short; what a power cut emptied is removed when a process starts.

A compiled body is named by its module, its function and the types of its arguments, in whichever process. So a body
must follow from those: no closure over a value is ever cached, as two of one name would answer for each other.
"""

import gc
import inspect
import math
import os
import shutil
import tempfile
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial, wraps
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("NUMBA_THREADING_LAYER", "threadsafe")

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import cgutils, event, types
from numba.extending import intrinsic, lower_builtin, models, overload, register_model, type_callable

from engine.kernels.allowance import beat
from engine.kernels.sources import closure_digest, module_name

ISA_NAMES = ("portable", "avx2", "avx512", "avx512vnni")
"""Instruction-set paths a generated kernel may take, narrowest first; each includes the ones before it."""
_ISA_NEEDS = {
    "portable": frozenset[str](),
    "avx2": frozenset({"avx2", "fma"}),
    "avx512": frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"}),
    "avx512vnni": frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "avx512vnni"}),
}


class IsaError(ValueError):
    """``INFERSCAPE_ISA`` names a path this host cannot execute, or no path at all."""


_config: Any = numba.config  # its members are made at run time
JIT_ENABLED = not _config.DISABLE_JIT
_START_S = time.time()
_ROOM = 300e6  # bytes of compiled code that stay on disk: all commands and tests take a tenth
_SPARE = 50e6  # bytes that a disk has free, or nothing is written to it: a full one would cost the answer


class _Compiling(event.Listener):
    """Takes out of a thread's computing what it compiles, waits for who does, or reads of compiled code."""

    def __init__(self) -> None:
        self._threads = threading.local()

    def on_start(self, event: Any) -> None:
        """A thread wants the compiler."""
        me = self._threads
        me.depth = getattr(me, "depth", 0) + 1
        if me.depth == 1:
            me.spent = time.thread_time()

    def on_end(self, event: Any) -> None:
        """It has left it."""
        me = self._threads
        me.depth -= 1
        if me.depth == 0:
            beat(me.spent - time.thread_time())


class Compilation(NamedTuple):
    """What is made machine code now: the module it is of, and how long it has taken. [s]"""

    module: str
    taken_s: float


class _Progress(event.Listener):
    """Which function the compiler is at, since when; those that it calls are part of it.

    Python's collector of cycles waits meanwhile: it would look again and again at what the compiler builds, a tenth of
    the time.
    """

    def __init__(self) -> None:
        self.now: tuple[str, float] | None = None
        self._depth, self._collects = 0, False

    def on_start(self, event: Any) -> None:
        """A function is compiled, by the one thread that holds the compiler, maybe for another one."""
        self._depth += 1
        if self._depth == 1:
            self.now = event.data["dispatcher"].py_func.__module__, time.monotonic()
            self._collects = gc.isenabled()
            gc.disable()

    def on_end(self, event: Any) -> None:
        """It is machine code, or is none."""
        self._depth -= 1
        if self._depth == 0:
            self.now = None
            _trim_once()
            if self._collects:
                gc.enable()

    def compilation(self) -> Compilation | None:
        """What is made machine code now, by whichever thread; None where nothing is."""
        now = self.now
        return now and Compilation(now[0], time.monotonic() - now[1])


_progress = _Progress()
event.register("numba:compile", _progress)
event.register("numba:compiler_lock", _Compiling())  # the first listener: numba's own come and go behind it
compilation = _progress.compilation


def _cache_base() -> Path:
    """Where compiled code of all versions lies: NUMBA_CACHE_DIR, or the user's cache. RuntimeError without a home."""
    if path := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(path)
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (caches if caches.is_absolute() else Path.home() / ".cache") / "inferscape"


def _cache_dir() -> Path | None:
    """A writable private directory for this numba and ISA, filled from a baked copy where there is one; else None."""
    image_dir = os.environ.get("INFERSCAPE_NUMBA_BAKED")  # read-only, made when an image is built
    isa_name = os.environ.get("INFERSCAPE_ISA", "")  # generated code depends on it: never share entries between paths
    name = f"numba-{numba.__version__}{f'-{isa_name}' if isa_name in ISA_NAMES else ''}"
    try:
        base = _cache_base()
        target = base / name
        base.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        base.mkdir(exist_ok=True, mode=0o700)
        if image_dir and not target.exists() and (source := Path(image_dir) / name).is_dir():
            staging = Path(tempfile.mkdtemp(dir=base))
            shutil.copytree(source, staging / name)
            (staging / name).rename(target)
            staging.rmdir()
        target.mkdir(exist_ok=True, mode=0o700)
        for status in (base.stat(), target.stat()):  # entries are pickles: never read what another user could write
            if status.st_uid != os.getuid() or status.st_mode & 0o002:
                return None
        for entry in target.rglob("*.nb?"):
            if entry.stat().st_size == 0:  # emptied by a power cut
                entry.unlink()
        with tempfile.TemporaryFile(dir=target):
            return target if shutil.disk_usage(target).free > _SPARE else None
    except (OSError, RuntimeError):
        return None  # run uncached instead of failing at import


def _trim(base: Path, room: float = _ROOM, since: float = _START_S) -> None:
    """Removes what was not used for longest while all takes more than ``room`` bytes; what was since then stays.

    A module's entries, a folder, go together; whoever imports the module touches it.
    """
    with suppress(OSError):  # others trim too
        folders = [(folder.stat().st_mtime, folder) for folder in base.glob("numba-*/*") if folder.is_dir()]
        sizes = {folder: sum(file.stat().st_size for file in folder.rglob("*")) for _, folder in folders}
        total = sum(sizes.values())
        for mtime, folder in sorted(folders):
            if total <= room or mtime >= since:
                return
            shutil.rmtree(folder, ignore_errors=True)
            total -= sizes[folder]


CACHE_DIR = _cache_dir()
_decorating = threading.Lock()


@cache
def _trim_once() -> None:
    if CACHE_DIR is not None:
        _trim(CACHE_DIR.parent)


@cache
def _folder(file: Path) -> str:
    """Where the entries of a source file lie: named by the file and by the digest of what it imports."""
    assert CACHE_DIR is not None
    folder = CACHE_DIR / f"{module_name(file)}-{closure_digest(file)}"
    folder.mkdir(exist_ok=True)
    os.utime(folder)
    return str(folder)


def kernel(function: Callable[..., Any], refcount: bool = True, shared: bool = False) -> Any:
    """Decorator of every module-level compiled function: releases the GIL, IEEE division, cached, never `parallel`.

    What compiled code calls is compiled without what only Python needs of it, arguments unpacked, and not anew for a
    whole number's value. ``refcount`` off: it makes no arrays, and does not count how often those it is given are
    referred to. ``shared``: what Python calls is what compiled code calls, where both do: compiled once for both.
    """
    if not JIT_ENABLED:
        return function
    if CACHE_DIR is None:
        dispatcher = inner(function, _nrt=refcount)
    else:
        with _decorating:
            before, _config.CACHE_DIR = _config.CACHE_DIR, _folder(Path(inspect.getfile(function)))
            try:
                dispatcher = inner(function, _nrt=refcount, cache=True)
            finally:
                _config.CACHE_DIR = before
    if shared:
        return dispatcher

    @wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args) if vars(_by_python) else dispatcher(*args)

    vars(wrapper).update(py_func=function, dispatcher=dispatcher)
    options: Any = {**inner.keywords, "no_cpython_wrapper": True, "_nrt": refcount}
    overload(wrapper, jit_options=options, strict=False)(lambda *args: function)
    return wrapper


def body_of(function: Any) -> Callable[..., Any]:
    """A kernel run by Python: what it calls is compiled, each by itself, but not what puts that together."""
    return getattr(function, "py_func", function)


_by_python = threading.local()  # whether a thread runs a kernel by Python, with every kernel that it calls
_MOST_POINTS = 32  # points up to which a kernel may be run by Python
_PATIENCE_S = 3.0  # of one kernel by Python: compiling a large one takes as long, or twice
_SPENT_S: defaultdict[Any, float] = defaultdict(float)  # by kernel, what Python has worked on it; inf: no more


def _is_compiled(kernel: Any) -> bool:
    """Whether a kernel is machine code, in this process or in the cache."""
    return bool(getattr(kernel, "dispatcher", kernel).signatures) or _is_cached(kernel.py_func)


@cache
def _is_cached(function: Any) -> bool:
    """Whether the cache had a kernel's machine code when it was first asked for."""
    file = Path(inspect.getfile(function))
    name = f"{file.stem}.{function.__name__}-*.nbi"
    return CACHE_DIR is not None and any(Path(_folder(file)).rglob(name))


def for_points(kernel: Any, count: int = 1) -> Callable[..., Any]:
    """A kernel as whoever prices ``count`` points calls it: while they are few it is run by Python, with the same bits.

    Compiling it takes seconds, running it milliseconds a point. It is compiled once Python has taken as long, and never
    run by Python where its machine code lies in the cache.
    """
    if count <= _MOST_POINTS and JIT_ENABLED and _SPENT_S[kernel] <= _PATIENCE_S:
        if not _is_compiled(kernel):
            return partial(_run, kernel)
        _SPENT_S[kernel] = math.inf
    return kernel


def compile_always() -> None:
    """Runs no kernel by Python from here on: for whoever fills the cache before anybody asks."""
    _SPENT_S.default_factory = lambda: math.inf


def _run(kernel: Any, *args: Any) -> Any:
    began, _by_python.whole = time.thread_time(), True
    try:
        with np.errstate(all="ignore"):  # as compiled code divides
            return kernel.py_func(*args)
    finally:
        vars(_by_python).clear()
        _SPENT_S[kernel] += time.thread_time() - began


inner = partial(numba.njit, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
"""Decorator of a part of kernels in its own file; what only Python calls of it is compiled anew in every process."""

borrows: Callable[..., Any] = partial(kernel, refcount=False)
"""Decorator of a part of kernels that makes no arrays. Where many are passed, counting takes longer than the work."""

called_by_both: Callable[..., Any] = partial(kernel, shared=True)
"""Decorator of what Python calls for one point and a kernel for many: that one is compiled with what Python needs."""


def inline(function: Callable[..., Any]) -> Any:
    """Decorator of a part of one kernel: it is compiled within it alone, where by itself and there would be twice."""
    vars(function).update(py_func=function, targetoptions={"inline": "always"})  # what numba asks of a callee
    type_callable(function)(lambda context: lambda *args: None)  # a name that code once mentioned has a type
    return function


@cache
def host_features() -> frozenset[str]:
    """Instruction-set features numba will generate code for on this host, e.g. ``avx512vnni``; obeys NUMBA_CPU_NAME."""
    if _config.CPU_FEATURES is not None:
        flags = _config.CPU_FEATURES.split(",")
        return frozenset(f[1:] for f in flags if f.startswith("+"))
    if _config.CPU_NAME not in (None, "host") and llvm.get_host_cpu_name() != _config.CPU_NAME:
        return frozenset()  # a foreign target: nothing beyond its baseline may be assumed
    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


@cache
def isa() -> str:
    """Instruction-set path of the generated kernels: ``INFERSCAPE_ISA`` if set, else the widest this host executes.

    Raises
    ------
    IsaError
        For a name that is unknown or that this host lacks: compiled, it would end the process, not raise.
    """
    able = [name for name in ISA_NAMES if _ISA_NEEDS[name] <= host_features()]
    choice = os.environ.get("INFERSCAPE_ISA", "")
    if choice and choice not in able:
        raise IsaError(f"INFERSCAPE_ISA is {choice!r}; allowed on this host: {', '.join(able)}")
    return choice or able[-1]


@cache
def pool_size() -> int:
    """Threads of the process-wide pool: ``INFERSCAPE_THREADS`` or the cores this process may use. [-]"""
    count = os.environ.get("INFERSCAPE_THREADS")
    return max(1, int(count)) if count else len(os.sched_getaffinity(0))


@cache
def pool() -> ThreadPoolExecutor:
    """The process-wide thread pool on which range kernels run in chunks."""
    return ThreadPoolExecutor(pool_size(), thread_name_prefix="inferscape")


def run_chunks(
    fn: Callable[[Any], Any], chunks: Iterable[Any], executor: Executor | None = None, window: int | None = None
) -> Iterator[Any]:
    """Results of ``fn`` over ``chunks`` in order, with at most ``window`` submitted: fair to others, cancellable.

    A caller that stops iterating (a closed generator, an exception) cancels what has not started; what threads compute
    for it is taken from its allowance.
    """
    executor = executor or pool()
    window = window or 2 * pool_size()
    waiting = iter(chunks)
    times: deque[float] = deque()

    def work(chunk: Any) -> Any:
        began = time.thread_time()
        try:
            return fn(chunk)
        finally:
            times.append(time.thread_time() - began)

    pending = deque(executor.submit(work, chunk) for chunk in islice(waiting, window))
    try:
        while pending:
            result = pending.popleft().result()
            beat(sum(times.popleft() for _ in range(len(times))))
            yield result
            for chunk in islice(waiting, 1):
                pending.append(executor.submit(work, chunk))
    finally:
        for future in pending:
            future.cancel()
