"""Decisions are short records that their index names."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"


def test_the_index_names_every_record_by_its_number_and_title():
    listed = re.findall(r"^- (\d{3}) \[(.+)\]\((.+\.md)\)$", (FOLDER / "README.md").read_text(), re.M)
    records = sorted(path.name for path in FOLDER.glob("[0-9]*.md"))
    assert [name for _, _, name in listed] == records
    assert [number for number, _, _ in listed] == [name[:3] for name in records]
    titles = [(FOLDER / name).read_text().splitlines()[0].removeprefix("# ") for name in records]
    assert [title for _, title, _ in listed] == titles


def test_a_number_stands_for_one_record_and_a_record_is_short():
    records = list(FOLDER.glob("[0-9]*.md"))
    assert len({path.name[:3] for path in records}) == len(records)
    assert [path.name for path in records if len(path.read_text().splitlines()) > 30] == []
