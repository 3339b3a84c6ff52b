"""Does the list of functions that are too long or take too much only shrink, and does it list none in vain?"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
RULES = ("C901", "PLR0912", "PLR0913", "PLR0915")
ALLOWED = {(path, code) for path, codes in LINT["per-file-ignores"].items() for code in codes if code in RULES}
MOST = 37


def test_the_list_has_only_shrunk():
    assert len(ALLOWED) == MOST, "a function that grew is cut in two, not listed; lower MOST with the list"


def test_the_rules_are_on():
    assert {"C90", "PL"} <= set(LINT["select"])
    assert not set(RULES) & set(LINT["ignore"])
    assert LINT["pylint"]["max-args"] == 12


def test_nothing_is_listed_in_vain():
    command = [Path(sys.executable).with_name("ruff"), "check", "--isolated", "--exit-zero", "--output-format", "json"]
    command += ["--select", ",".join(RULES), "--config", "lint.pylint.max-args=12", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = {(Path(one["filename"]).relative_to(ROOT).as_posix(), one["code"]) for one in json.loads(done.stdout)}
    kernels = {
        (path, code)
        for path, code in found
        if path.startswith(("engine/kernels/", "engine/lab/")) and code == "PLR0913"
    }
    assert kernels
    assert found - kernels == ALLOWED - {("engine/kernels/**", "PLR0913"), ("engine/lab/**", "PLR0913")}
