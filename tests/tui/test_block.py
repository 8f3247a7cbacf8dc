from __future__ import annotations

from textual.app import App, ComposeResult
from textual.content import Content

from tui.block import Block


class Page(App[None]):
    def compose(self) -> ComposeResult:
        yield Block(id="block")


async def test_only_lines_that_changed_are_drawn_again() -> None:
    async with Page().run_test(size=(20, 6)) as pilot:
        block = pilot.app.query_one(Block)
        block.update(Content("one\ntwo\nthree"))
        await pilot.pause()
        kept = dict(block.strips)
        assert [kept[row].text.rstrip() for row in range(4)] == ["one", "two", "three", ""]
        block.update(Content.assemble("one\n", ("two", "bold"), "\nthree\nfour"))  # the second in another style
        await pilot.pause()
        assert [row for row in range(5) if block.strips[row] is not kept[row]] == [1, 3]
        assert block.strips[3].text.rstrip() == "four"
        block.update(Content("one"))
        await pilot.pause()
        assert [block.strips[row].text.rstrip() for row in range(4)] == ["one", "", "", ""]
        assert block.strips[0] is kept[0]
