"""What a reader without a mouse does: picks a row of a table, moves a slider."""


def row_picked(me, down: int) -> None:
    """A row of the page's first table picked by keys: `down` below its first."""
    me.page.locator("[data-testid=stDataFrame] canvas").first.focus()
    for row in range(down + 1):  # the table draws its cell, and gives it the focus, a frame after each key
        me.page.wait_for_function("row => document.activeElement.id.endsWith(`-${row}`)", arg=row, polling="raf")
        me.page.keyboard.press("ArrowDown" if row < down else "Shift+Space")


def slid(me, label: str) -> None:
    """A slider one step up, by keys."""
    me.page.get_by_role("slider", name=label).focus()
    me.page.keyboard.press("ArrowRight")
