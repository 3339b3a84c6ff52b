"""Tables of measurements that tests write, and commands that they run on them."""

from pathlib import Path

import pytest

from engine.cli.main import main


def table(folder: Path, *lines: str) -> Path:
    path = folder / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    code = main(["compare-measured", *map(str, argv)])
    done = capsys.readouterr()
    return code, done.out, done.err
