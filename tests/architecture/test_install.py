"""Does what is installed hold what is offered: pins for every import, a wheel with every file, hashes for every pin?"""

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import FILES, PACKAGES, ROOT, nodes

IMPORTED_AS = {"pyyaml": "yaml"}
ELSEWHERE = {
    "google": "protobuf, onnx's own",
    "llvmlite": "numba's own half",
    "onnxruntime": "whoever measures networks installs it, and is told so",
    "pymoo": "whoever searches installs it, and is told so",
    "pyarrow": "Streamlit's own, imported early so that the first page finds it",
    "starlette": "Streamlit's own server",
}


def pins(name: str) -> set[str]:
    """Distributions a requirements file names, in lower case."""
    lines = (ROOT / name).read_text().splitlines()
    return {line.split("==")[0].strip().lower() for line in lines if "==" in line and not line.startswith("#")}


def imported() -> set[str]:
    """Top-level modules the product imports that are neither its own nor Python's."""
    found: set[str] = set()
    for file in FILES:
        for node in nodes(file):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                found.add(node.module.split(".")[0])
    return found - set(PACKAGES) - set(sys.stdlib_module_names)


def test_everything_the_product_imports_is_pinned_for_those_who_run_it() -> None:
    found = imported()
    assert found - set(ELSEWHERE) - {IMPORTED_AS.get(p, p) for p in pins("requirements.txt")} == set()
    assert set(ELSEWHERE) <= found


def test_a_wheel_holds_every_file_and_answers_from_it(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", reason="the wheel's builder is pinned in requirements-dev.txt")
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in (*PACKAGES, "pyproject.toml", "requirements.txt", "README.md", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w"]
    made = subprocess.run(
        [*command, str(tmp_path), str(tree)], capture_output=True, text=True, timeout=300, check=False
    )
    assert made.returncode == 0, made.stderr[-600:]
    (wheel,) = tmp_path.glob("*.whl")
    held = {n for n in zipfile.ZipFile(wheel).namelist() if not n.startswith("inferscape-")}
    files = (f for package in PACKAGES for f in (ROOT / package).rglob("*"))
    ours = {f.relative_to(ROOT).as_posix() for f in files if f.is_file() and "__pycache__" not in f.parts}
    assert held == ours
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    told = subprocess.run(
        [sys.executable, "-m", "engine", "list", "presets"],
        cwd=tmp_path / "site",
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        timeout=300,
        check=False,
    )
    assert "dfx-1.5b" in told.stdout, told.stderr[-600:]


def locked(name: str) -> dict[str, tuple[set[str], int]]:
    """Versions and hashes of every distribution in a lock file."""
    result: dict[str, tuple[set[str], int]] = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / name).read_text().strip()):
        given = re.match(r"([a-z0-9-]+)==(\S+)", entry)
        assert given, f"{name}: {entry[:60]!r} is no pin"
        versions, hashes = result.get(given[1], (set(), 0))
        result[given[1]] = versions | {given[2]}, hashes + len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry))
    return result


@pytest.mark.parametrize("name", ["requirements", "requirements-dev"])
def test_a_lock_file_holds_every_pin_with_its_hashes_and_no_address(name: str) -> None:
    held = locked(f"{name}.lock")
    for line in (ROOT / f"{name}.txt").read_text().splitlines():
        if "==" in line and not line.startswith("#"):
            pin, version = line.split(";")[0].strip().split("==")
            assert version in held[pin][0], f"{line}: run `make lock`"
    assert all(hashes >= len(versions) for versions, hashes in held.values())
    assert held["numpy"][0] == {"2.4.6", "2.5.5"}  # of Python 3.11 and of newer ones
    assert held["numba"][1] > 10  # the wheels of every platform, not this one's
    assert "://" not in (ROOT / f"{name}.lock").read_text()


def test_the_image_and_make_install_what_is_locked_and_nothing_else() -> None:
    for name, most in (("Dockerfile", 0), ("Makefile", 2)):  # besides: PyTorch for `make bench`, uv for `make lock`
        lines = [line for line in (ROOT / name).read_text().splitlines() if "pip install" in line]
        bare = [line for line in lines if not re.search(r"--require-hashes -r requirements(-dev)?\.lock", line)]
        assert len(lines) > len(bare) <= most, bare


@pytest.mark.parametrize("npm", [None, "exit 1", "mkdir -p tests/app/node_modules"])
def test_the_tests_need_no_npm(tmp_path: Path, npm: str | None) -> None:
    """Where npm is not there, or reaches no registry, the scan of the pages is skipped; all other tests are run."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    recipe = [line.strip() for line in lines[lines.index("test: $(VENV)/.dev") :] if "npm" in line]
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "mkdir", "test"):
        (programs / name).symlink_to(shutil.which(name) or pytest.fail(name))
    if npm:
        (programs / "npm").write_text(f"#!/bin/sh\n{npm}\n")
        (programs / "npm").chmod(0o755)
    assert len(recipe) == 1
    command = ["sh", "-c", recipe[0].lstrip("@")]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, env={"PATH": str(programs)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert ("skipped" in done.stdout) == (npm is None or "exit" in npm)
