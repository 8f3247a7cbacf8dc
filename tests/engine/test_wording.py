"""Words left out and lines joined, by hand."""

from __future__ import annotations

import pytest

from engine.wording import count_words, most_frequent, one_line, only_words


def test_words_are_counted_whatever_their_case():
    counts = count_words(["The cat, the CAT: don't!", "3 cats, x2 and snake_case; 3rd _q", "Straße STRASSE"])
    assert counts == {"the": 2, "cat": 2, "don": 1, "t": 1, "cats": 1, "x2": 1, "and": 1, "snake_case": 1, "strasse": 2}


def test_letters_keep_their_combining_marks():
    assert count_words(["हिन्दी में cafe\u0301"]) == {"हिन्दी": 1, "में": 1, "cafe\u0301": 1}


def test_the_most_frequent_and_of_equals_the_first_in_order():
    counts = count_words(["b a c c d d d"])
    assert [most_frequent(counts, n) for n in (1, 2, 3, 9)] == [
        {"d"},
        {"d", "c"},
        {"d", "c", "a"},
        {"a", "b", "c", "d"},
    ]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("The cat saw a cat", "The cat saw a cat"),
        ("The big black Cat", "The Cat"),
        ("Big cats saw the cat", "saw the cat"),
        ("the cat  slept", "the cat"),
        ("the cat, unseen, saw (nobody) 3 times.", "the cat,, saw () 3."),
        ("    slowly the cat\n\tslept\nsaw a", "    the cat\n\t\nsaw a"),
        ("3 mice 4", "3 4"),
        ("mice", ""),
    ],
)
def test_a_word_goes_with_its_blank_and_all_else_stays(text, left):
    assert only_words(text, {"the", "cat", "saw", "a"}) == left


def test_a_text_of_known_words_is_as_it_was():
    text = "One fish,  two\tfish;\n\n  red_fish x2\r\nblue fish…"
    assert only_words(text, count_words([text])) == text


def test_white_space_becomes_one_space():
    assert one_line("a\n  b\t\r\n\u00a0c  d") == "a b c d"
