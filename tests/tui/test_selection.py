import pytest

from engine.errors import InputError
from engine.heads import Head
from tui.selection import Selection, block, parse_head

A, B, C = Head(0, 1), Head(0, 2), Head(3, 2)


def test_an_expression_is_kept_as_written_until_a_head_is_changed_by_hand() -> None:
    selection = Selection()
    selection.choose({A, B}, "L0 x H1-2")
    assert selection.now.expression == "L0 x H1-2"
    selection.toggle({C})
    assert selection.now.expression == "L0 x H1-2 | L3-H2"
    assert selection.now.written == ""
    selection.undo()
    assert selection.now.written == "L0 x H1-2"


def test_toggling_takes_in_what_is_not_wholly_in_and_out_what_is() -> None:
    selection = Selection()
    selection.toggle({A})
    selection.toggle({A, B})
    assert selection.heads == {A, B}
    selection.toggle({A, B})
    assert selection.heads == frozenset()


def test_undo_and_redo_go_back_and_forth_and_a_new_choice_ends_the_way_forward() -> None:
    selection = Selection()
    assert not selection.undo()
    selection.choose({A})
    selection.choose({B})
    assert selection.undo() and selection.heads == {A}
    assert selection.redo() and selection.heads == {B}
    assert not selection.redo()
    selection.undo()
    selection.choose({C})
    assert not selection.redo()
    assert selection.undo() and selection.undo() and selection.heads == frozenset()


def test_choosing_the_same_again_is_no_step() -> None:
    selection = Selection()
    selection.choose({A})
    selection.choose({A})
    selection.undo()
    assert not selection.undo()


def test_a_block_holds_both_corners_in_any_order() -> None:
    heads = {Head(i, j) for i in (2, 3) for j in (4, 5, 6)}
    assert block(Head(3, 4), Head(2, 6)) == heads == block(Head(2, 6), Head(3, 4))


@pytest.mark.parametrize("text", ["16.4", "16 4", "L16-H4", "l16.h4", "16,4"])
def test_a_head_is_read_as_people_type_it(text: str) -> None:
    assert parse_head(text, 24, 16) == Head(16, 4)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("16", "like 16.4"),
        ("", "like 16.4"),
        ("24.0", "layers go to L23"),
        ("0.16", "heads to H15"),
        ("a.b", "names no head"),
    ],
)
def test_a_head_that_is_none_is_refused_with_the_way_out(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_head(text, 24, 16)
