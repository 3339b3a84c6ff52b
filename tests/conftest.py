"""Which tests share a process where several run them: what is trained, served or evaluated once is needed once."""

from __future__ import annotations

import pytest

TOGETHER = {
    "browser": (),  # one server and one browser; its files name the group themselves
    "numerics": ("reference/numerics/", "app/test_numerics_page"),  # networks trained for all of them
    "published": ("published/", "app/test_published_page"),  # every claim predicted
}
"""Groups that take minutes and so start first, with the paths of their files; any other file is a group of its own."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "xdist_group(name): tests that one process runs, in their order")
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # by length, as below, not by number of tests


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not getattr(config.option, "loadgroup", False):
        return
    names = list(TOGETHER)

    def group(item: pytest.Item) -> str:
        named = item.get_closest_marker("xdist_group")
        if named is None:
            file = item.path.relative_to(config.rootpath / "tests").as_posix()
            name = next((name for name, paths in TOGETHER.items() if file.startswith(paths)), file)
            item.add_marker(named := pytest.mark.xdist_group(name))
        return str(named.args[0])

    places = {item: group(item) for item in items}
    items.sort(key=lambda item: names.index(places[item]) if places[item] in names else len(names))
