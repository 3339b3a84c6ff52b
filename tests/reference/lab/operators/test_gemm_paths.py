"""A narrower instruction-set path passes the same tests; a foreign path is refused.

CI runs this folder on AVX2 and on the portable path.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.kernels import jit

HERE = Path(__file__).parent
FORCED = "INFERSCAPE_ISA"
ABLE = jit.ISA_NAMES[: jit.ISA_NAMES.index(jit.isa()) + 1]


def _run(arguments, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", FORCED))} | environment
    return subprocess.run(
        [sys.executable, *arguments],
        env=env,
        cwd=HERE.parents[3],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("isa", [name for name in ABLE if name not in (jit.isa(), "avx2", "portable")])
def test_a_narrower_path_passes_the_same_tests(isa):
    done = _run(["-m", "pytest", str(HERE / "test_gemm.py"), str(HERE / "test_gemm_narrow.py")], **{FORCED: isa})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_a_foreign_processor_name_takes_the_portable_path():
    code = "from engine.kernels import jit; print(jit.isa()); import engine.lab.operators.gemm as g, numpy as np; "
    code += "print(g.gemm_s32(np.full((7, 9), 2, np.uint8), g.pack_s8(np.full((9, 5), 3, np.int8))).sum())"
    done = _run(["-c", code], NUMBA_CPU_NAME="nehalem")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["portable", str(7 * 5 * 9 * 6)]


@pytest.mark.parametrize("name", ["avx1024", "AVX2 "])
def test_an_unknown_path_is_refused_in_one_sentence(name):
    done = _run(["-c", "import engine.lab.operators.gemm"], **{FORCED: name})
    assert done.returncode == 1
    assert f"INFERSCAPE_ISA is {name!r}; allowed on this host: portable" in done.stderr.splitlines()[-1]


def test_a_path_the_processor_lacks_is_refused_not_executed():
    done = _run(["-c", "import engine.lab.operators.gemm"], **{FORCED: "avx512vnni", "NUMBA_CPU_NAME": "nehalem"})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("allowed on this host: portable")
