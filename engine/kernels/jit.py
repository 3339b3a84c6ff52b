"""The one place that knows numba: the decorator, its cache, host features and the thread pool.

Every compiled function of the project, operator or cost model, takes its decorator from here::

    from engine.kernels.jit import kernel

    @kernel
    def fma(a, b, c): ...

Why a wrapper at all: numba's own ``cache=True`` keys an entry by the *defining file only*, so an edit to a
callee or to an imported constant keeps serving stale machine code. Here an entry lies in a directory named by a
digest of the defining file and of all of ours that it imports, directly or not: it is never older than the code it was
made from, and an edit elsewhere compiles nothing anew. numba writes an entry beside its place and renames it, so that a
full disk or a killed process leaves none cut short; one that a power cut did is compiled again.

numba also names compiled bodies after a count that every process starts at 1. Two bodies of one factory, cached by two
processes under one name, are one symbol to the loader: the first one loaded silently answers for both. Here each
process counts from a random number, so names never meet.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property, partial
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("NUMBA_THREADING_LAYER", "threadsafe")

import llvmlite.binding as llvm
import numba
from numba.core import caching, cgutils, event, registry, sigutils, types
from numba.core.bytecode import FunctionIdentity
from numba.extending import intrinsic, lower_builtin, models, overload, register_model, type_callable
from numba.np import linalg

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
_STARTED = time.time()
_ROOM = 300e6  # bytes of compiled code that stay on disk: all commands and tests take a tenth


def _number_apart() -> None:
    FunctionIdentity._unique_ids = count(secrets.randbits(62))


def _load_blas_later() -> None:
    """Has numba's array functions loaded without SciPy, which takes 0.2 s: compiled products of matrices find it."""
    names = vars(linalg)
    ensure, names["ensure_blas"] = names["ensure_blas"], lambda: None
    importlib.import_module("numba.np.arraymath")
    names["ensure_blas"] = ensure


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

if importlib.util.find_spec("scipy") is not None:
    _load_blas_later()
_number_apart()
os.register_at_fork(after_in_child=_number_apart)


def _cache_base() -> Path:
    """Where compiled code of all versions lies: NUMBA_CACHE_DIR, or the user's cache. RuntimeError without a home."""
    if path := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(path)
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (caches if caches.is_absolute() else Path.home() / ".cache") / "inferscape"


def _cache_dir() -> Path | None:
    """A writable private directory for this numba and ISA, filled from a baked copy where there is one; else None."""
    baked = os.environ.get("INFERSCAPE_NUMBA_BAKED")  # read-only, made when an image is built
    forced = os.environ.get("INFERSCAPE_ISA", "")  # generated code depends on it: never share entries between paths
    name = f"numba-{numba.__version__}{f'-{forced}' if forced in ISA_NAMES else ''}"
    try:
        base = _cache_base()
        target = base / name
        base.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        base.mkdir(exist_ok=True, mode=0o700)
        if baked and not target.exists() and (source := Path(baked) / name).is_dir():
            staging = Path(tempfile.mkdtemp(dir=base))
            shutil.copytree(source, staging / name)
            (staging / name).rename(target)
            staging.rmdir()
        target.mkdir(exist_ok=True, mode=0o700)
        for status in (base.stat(), target.stat()):  # entries are pickles: never read what another user could write
            if status.st_uid != os.getuid() or status.st_mode & 0o002:
                return None
        with tempfile.TemporaryFile(dir=target):
            return target
    except (OSError, RuntimeError):
        return None  # run uncached instead of failing at import


def _trim(base: Path, room: float = _ROOM, since: float = _STARTED) -> None:
    """Removes what was not used for longest while all takes more than ``room`` bytes; what was since then stays.

    A module's entries, a folder, go together: numba writes a file there whenever a process opens them.
    """
    with suppress(OSError):  # others trim too
        folders = [(folder.stat().st_mtime, folder) for folder in base.glob("numba-*/*") if folder.is_dir()]
        sizes = {folder: sum(file.stat().st_size for file in folder.iterdir()) for _, folder in folders}
        total = sum(sizes.values())
        for used, folder in sorted(folders):
            if total <= room or used >= since:
                return
            shutil.rmtree(folder, ignore_errors=True)
            total -= sizes[folder]


CACHE_DIR = _cache_dir()


@cache
def _trim_once() -> None:
    if CACHE_DIR is not None:
        _trim(CACHE_DIR.parent)


class _Locator(caching._CacheLocator):
    """Where the entries of one source file lie: named by the file and by the digest of what it imports."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file = py_file
        self._line = py_func.__code__.co_firstlineno
        self._stamp = closure_digest(Path(py_file))

    def get_cache_path(self) -> str:
        assert CACHE_DIR is not None
        return str(CACHE_DIR / f"{module_name(Path(self._py_file))}-{self._stamp}")

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012 (numba's own attribute)


class _Cache(caching.FunctionCache):
    _impl_class = _Impl

    def __init__(self, py_func: Any, use: str) -> None:
        super().__init__(py_func)
        self._cache_file = caching.IndexDataCacheFile(self._cache_path, self._impl.filename_base + use, None)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The entry of a signature; where a file of it is emptied or cut short, none, and all are made anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # what unpickling half a file raises
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save an entry; a disk that is full or no longer writable costs the entry, not the answer."""
        try:
            super().save_overload(sig, data)
        except OSError:
            self.disable()
        _trim_once()


class _Kernel(registry.CPUDispatcher):
    """A compiled function; what only Python needs of it, arguments unpacked, is not made where compiled code calls.

    Nor is it compiled anew for a whole number's value, as numba does where a loop starts at 0.
    """

    @cached_property
    def within(self) -> Any:
        """The same for compiled code alone."""
        return _cached(inner(self.py_func, no_cpython_wrapper=True), "within")

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What calls from compiled code are typed by."""
        args = self.fold_argument_types(tuple(map(_any_int, args)), {name: _any_int(kws[name]) for name in kws})[1]
        target = super() if tuple(args) in self.overloads else self.within
        return target.get_call_template(args, {})

    def get_overload(self, sig: Any) -> Any:
        """What such a call is lowered to."""
        args = tuple(sigutils.normalize_signature(sig)[0])
        return super().get_overload(sig) if args in self.overloads else self.within.get_overload(sig)


def _any_int(kind: Any) -> Any:
    return types.intp if isinstance(kind, types.IntegerLiteral) else kind


def _cached(dispatcher: Any, use: str) -> Any:
    if CACHE_DIR is not None:
        dispatcher._cache = _Cache(dispatcher.py_func, use)
    return dispatcher


def kernel(function: Callable[..., Any], counted: bool = True) -> Any:
    """Decorator of every module-level compiled function: releases the GIL, IEEE division, cached, never `parallel`.

    ``counted`` off: it makes no arrays, and those it is given are not counted as referred to again.
    """
    dispatcher = inner(function, _nrt=counted)
    if not JIT_ENABLED:
        return dispatcher
    dispatcher.__class__ = _Kernel
    return _cached(dispatcher, "")


def body_of(function: Any) -> Callable[..., Any]:
    """A kernel run by Python: what it calls is compiled, each by itself, but not what puts that together."""
    return getattr(function, "py_func", function)


inner: Callable[..., Any] = partial(numba.njit, nogil=True, cache=False, error_model="numpy", no_cfunc_wrapper=True)
"""Decorator of functions made by a factory: their closures never hit numba's cache, so they are not written to it."""

borrows: Callable[..., Any] = partial(kernel, counted=False)
"""Decorator of a part of kernels that makes no arrays. Where many are passed, counting takes longer than the work."""

inlined: Callable[..., Any] = partial(inner, inline="always")
"""Decorator of a part of one kernel: it is compiled within it alone, where by itself and there would be twice."""


@cache
def host_features() -> frozenset[str]:
    """Instruction-set features numba will generate code for on this host, e.g. ``avx512vnni``; obeys NUMBA_CPU_NAME."""
    if _config.CPU_FEATURES is not None:
        listed = _config.CPU_FEATURES.split(",")
        return frozenset(f[1:] for f in listed if f.startswith("+"))
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
    wanted = os.environ.get("INFERSCAPE_ISA", "")
    if wanted and wanted not in able:
        raise IsaError(f"INFERSCAPE_ISA is {wanted!r}; allowed on this host: {', '.join(able)}")
    return wanted or able[-1]


@cache
def pool_size() -> int:
    """Threads of the process-wide pool: ``INFERSCAPE_THREADS`` or the cores this process may use. [-]"""
    wanted = os.environ.get("INFERSCAPE_THREADS")
    return max(1, int(wanted)) if wanted else len(os.sched_getaffinity(0))


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
    spent: deque[float] = deque()

    def work(chunk: Any) -> Any:
        began = time.thread_time()
        try:
            return fn(chunk)
        finally:
            spent.append(time.thread_time() - began)

    pending = deque(executor.submit(work, chunk) for chunk in islice(waiting, window))
    try:
        while pending:
            result = pending.popleft().result()
            beat(sum(spent.popleft() for _ in range(len(spent))))
            yield result
            for chunk in islice(waiting, 1):
                pending.append(executor.submit(work, chunk))
    finally:
        for future in pending:
            future.cancel()
