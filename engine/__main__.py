"""``python -m engine``: see `engine.cli.main`."""

import os
import sys

if "bench" in sys.argv[1:2]:  # before numpy loads: the variable may cap a rival below the host's instruction set
    os.environ.pop("OPENBLAS_CORETYPE", None)

from engine.cli.main import main

sys.exit(main())
