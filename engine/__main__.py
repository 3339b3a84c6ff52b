"""``python -m engine``: see `engine.cli.main`."""

import sys

from engine.cli.main import main

sys.exit(main())
