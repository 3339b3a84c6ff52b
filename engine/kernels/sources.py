"""Digests of our own sources: which code a number, or a compiled function, came from."""

import hashlib
import re
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_OURS = r"(?:engine|hardware_specs|model_zoo)\b[\w.]*"
_IMPORT = re.compile(rf"^\s*(?:from\s+({_OURS})\s+import\s+(\([^)]*\)|[^\n#]*)|import\s+({_OURS}))", re.MULTILINE)


@cache
def engine_version() -> str:
    """Digest of every engine source: the engine's identity in exported rows. [-]"""
    digest = hashlib.sha256()
    for file in sorted((_ROOT / "engine").rglob("*.py")):
        digest.update(file.relative_to(_ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:8]


@cache
def module_name(file: Path) -> str:
    """Dotted name of a source file of ours, ``engine.lab.operators.gemm``; of another one, its stem."""
    inside = file.resolve()
    return ".".join(inside.relative_to(_ROOT).with_suffix("").parts) if inside.is_relative_to(_ROOT) else file.stem


@cache
def closure_digest(file: Path) -> str:
    """Digest of a source file and of all of ours that it imports, directly or not, wherever the import stands. [-]

    What a compiled function was made from is in it: callees and constants reach a module by import alone.
    """
    contents: dict[str, bytes] = {}
    waiting = [file.resolve()]
    while waiting:
        path = waiting.pop()
        name = module_name(path)
        if name not in contents:
            contents[name], imports = _read(path)
            waiting.extend(imports)
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(name.encode() + b"\0" + contents[name])
    return digest.hexdigest()[:16]


@cache
def _read(file: Path) -> tuple[bytes, tuple[Path, ...]]:
    """Digest of a file's bytes, and the files of ours that it imports."""
    source = file.read_bytes()
    result: set[Path] = set()
    for package, names, whole in _IMPORT.findall(source.decode()):
        result |= _files(whole) if whole else _files(package)
        for name in re.findall(r"\w+", names):
            result |= _files(f"{package}.{name}")
    return hashlib.sha256(source).digest(), tuple(result)


@cache
def _files(module: str) -> set[Path]:
    """The source file of a dotted name, if it is a module or a package of ours."""
    path = _ROOT.joinpath(*module.split("."))
    return {file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()}
