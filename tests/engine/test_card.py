"""The model card of an exported folder, from a record told by hand."""

from dataclasses import replace

import pytest
import yaml
from markdown_it import MarkdownIt

from engine import events
from engine.card import card, card_of_patch, license_of
from engine.chart import read_chart
from engine.record import build
from tests.engine import story
from tests.engine.story import ONE_PASS, WHOLE_PASS
from tests.engine.test_report_markup import FOUL_TEXT, NASTY, Tags, foul


def card_told(tmp_path, told, **other):
    return card(build(read_chart(story.tell(tmp_path / "story", told, keep_record=False))), **other)


def parts(text):
    """Front matter as values, and the rest."""
    _, front, body = text.split("---\n", 2)
    return yaml.safe_load(front), body


def called(model, told=ONE_PASS):
    return [replace(told[0], model=model), *told[1:]]


def test_what_was_done_stands_on_it(tmp_path):
    front, body = parts(card_told(tmp_path, WHOLE_PASS))
    assert front == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["headsurgeon", "attention-heads"],
    }
    for line in [
        "- **weights sha256 of the source**: `" + "ab" * 32 + "`",
        "- **healthy heads**: 6 → 8 of 12",
        "- **targets as written**: `L1 x H2-3`",
        "- **frozen parameters**: equal before and after, every byte; sha256 `" + "ef" * 32 + "`",
        "- **patch sha256**: `" + "12" * 32 + "`",
        "- **seed**: 42",
        "| `birds.txt` | 40 | 4 | 2 000 | 200 | 3 × | 2 | 5 | 1 | `cdcdcdcdcdcdcdcd` |",
        "- **woken after training**: 2 of 2 targets are below it at step 40",
        "- **working**: held-out loss lost when the targets are ablated together: "
        "stock 0.0300 → cut 0.0000 → after 0.7440 nats",
        "| held-out part of the corpus | 128.98 | 132.89 | 55.20 |",
        "| outside | total | 2 of 10 | 0.0140 | 0.0700 | L2-H2 |",
        "headsurgeon undo SESSION THIS_FOLDER --to STOCK",
    ]:
        assert f"\n{line}\n" in body, line
    assert "![" not in body  # the pictures belong to the report


def test_a_pass_that_was_undone_is_not_in_the_model(tmp_path):
    body = card_told(tmp_path, [*ONE_PASS, events.Undone(number=1)])
    assert "## Pass 1" not in body and "healthy heads" not in body


@pytest.mark.parametrize(
    ("model", "base"),
    [("bigscience/bloom-560m", "bigscience/bloom-560m"), ("gpt2", "gpt2"), ("demo", None), ("/home/me/m", None)],
)
def test_the_hub_is_told_of_what_is_on_it(tmp_path, model, base):
    assert parts(card_told(tmp_path, called(model)))[0].get("base_model") == base


def test_folders_of_the_operators_machine_are_not_told(tmp_path):
    both = {"/home/me/a/x.txt": 2.0, "/home/me/b/x.txt": 3.0}
    corpus = [replace(story.SOURCE, source=name, broken=1, broken_first=[f"{name}:7: no JSON"]) for name in both]
    told = [
        replace(story.CREATED, model="/home/me/model"),
        story.WORKER,
        replace(story.LOADED, source="/home/me/model"),
        story.diagnosed(),
        replace(story.started(), corpus=corpus, heldout_sources_stock=both, perplexity_stock={"/home/me/y.txt": 4.0}),
        story.cut(),
        story.ended(perplexity_after={"/home/me/y.txt": 5.0}),
    ]
    body = card_told(tmp_path, told)
    assert "/home/me" not in body and "# `model`" in body
    assert "| held out of `x.txt` | 2.00 |" in body and "| held out of `x.txt (2)` | 3.00 |" in body
    assert "| `y.txt` | 4.00 |  | 5.00 |" in body


def test_a_hostile_card_is_the_same_card(tmp_path):
    nasty, plain = foul(NASTY, FOUL_TEXT), foul("plain.txt", " and so on")
    name = 'x"\n---\nlicense: mit\n' + NASTY
    front, body = parts(card_told(tmp_path / "foul", called(name, nasty)))
    assert front["base_model"] == name.replace("\n", "\\n")
    assert set(front) == {"base_model", "library_name", "pipeline_tag", "tags"}
    reader = MarkdownIt("commonmark").enable("table")
    same = parts(card_told(tmp_path / "plain", called("plain/name", plain)))[1]
    assert Tags(reader.render(body)).tags == Tags(reader.render(same)).tags


def test_the_card_of_a_lone_patch_says_what_the_patch_does():
    plan = {"targets": "sick", "seed": 7, "corpus": ["/home/me/birds.txt", "a/hub-set"], "lr": 0.001}
    about = {
        "number": 1,
        "source": "bigscience/bloom-560m",
        "weights_sha256": "ab",
        "target_heads": ["L1-H2"],
        "plan": plan,
    }
    front, body = parts(card_of_patch(about, "bigscience-bloom-rail-1.0"))
    assert front["base_model"] == "bigscience/bloom-560m" and front["license"] == "bigscience-bloom-rail-1.0"
    for line in ["- **target heads**: `L1-H2`", "- **seed**: `7`", "- **corpus**: `birds.txt, a/hub-set`"]:
        assert f"\n{line}\n" in body, line
    assert "headsurgeon undo PATCH THIS_FOLDER --to STOCK" in body
    reader = MarkdownIt("commonmark").enable("table")
    foul_about = {**about, "source": NASTY, "target_heads": [NASTY], "plan": {"targets": NASTY, "corpus": [NASTY]}}
    front, body = parts(card_of_patch(foul_about))
    assert front["base_model"] == NASTY
    assert Tags(reader.render(body)).tags == {"h1", "h2", "p", "ul", "li", "strong", "code", "pre"}


@pytest.mark.parametrize(
    ("readme", "config", "license_"),
    [
        ("---\nlicense: bigscience-bloom-rail-1.0\nlanguage:\n- en\n---\n# A\n", "{}", "bigscience-bloom-rail-1.0"),
        ("---\nlanguage: en\nlicense: 'mit'\n---\n", "{}", "mit"),
        ("# A\n\nlicense: mit\n", "{}", ""),  # a word in the text is no statement
        ("---\nlicense:\n- mit\n---\n", "{}", ""),
        (None, '{"license": "apache-2.0"}', "apache-2.0"),
        (None, "[", ""),
        (None, None, ""),
    ],
)
def test_a_license_is_the_sources_own_or_none(tmp_path, readme, config, license_):
    for name, text in (("README.md", readme), ("config.json", config)):
        if text is not None:
            (tmp_path / name).write_text(text, "utf-8")
    assert license_of(tmp_path) == license_
