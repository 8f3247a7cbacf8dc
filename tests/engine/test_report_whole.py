"""What the newest records hold more than the first ones did: sources, single targets, texts, worth."""

from dataclasses import replace

import pytest

from engine import events
from engine.heads import HeadMap
from engine.report.words import signed, stage_name
from tests.engine import story
from tests.engine.story import DIAGNOSED, ONE_PASS, WHOLE_PASS
from tests.engine.test_report import changed, report_of, rows_of


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return report_of(tmp_path_factory.mktemp("whole"), WHOLE_PASS)


@pytest.mark.parametrize(
    "line",
    [
        "| dormant MLP neurons | 1.00 % | 2.00 % |",
        "- **tokens trained on**: 40 960",
        "- **checkpointing**: activations computed anew in the backward pass",
        "- **changed by the operator**: after step 20: `micro_batch = 2`, `accumulate = 4`, `checkpointing = true`",
        "- **batch**: 4 096 tokens a step: length 512 × micro-batch 2 × accumulation 4",
        "- **memory**: estimated 1.2 GB; 1.3 GB resident at the most, the whole program counted",
        "| source | documents | of them held out | training tokens | tokens held out "
        "| read | duplicates | broken lines | encoding errors | sha256 begins |",
        "| `bible.txt` | 10 | 1 | 9 000 | 1 000 | 1 × | 0 | 0 | 0 | `cdcdcdcdcdcdcdcd` |",
        "| `birds.txt` | 40 | 4 | 2 000 | 200 | 3 × | 2 | 5 | 1 | `cdcdcdcdcdcdcdcd` |",
        "- `birds.txt:7: no JSON object`",
        "- `` birds.txt:9: holds no `text` ``",
        "- **working**: held-out loss lost when the targets are ablated together: "
        "stock 0.0300 → cut 0.0000 → after 0.7440 nats",
        "#### Target by target",
        "| head | BOS mass, stock | BOS mass, after | woken | worth by itself, stock | at the cut | after |",
        "| L1-H2 | 0.700 | 0.050 | yes | +0.0200 | 0.0000 | +0.5120 |",
        "| L1-H3 | 0.970 | 0.040 | yes | -0.0010 | 0.0000 | +0.2500 |",
        "| held-out part of the corpus | 128.98 | 132.89 | 55.20 |",
        "| held out of `bible.txt` | 140.00 | 144.00 | 60.00 |",
        "| held out of `birds.txt` | 90.00 | 93.00 | 40.00 |",
        "| `austen` | 18.51 |  | 27.20 |",
    ],
)
def test_the_section_of_a_pass(whole, line):
    assert f"\n{line}\n" in whole["report.md"]


def test_the_worth_of_a_single_target_says_over_how_many_tokens(whole):
    assert "in nats per token over 2 032 predicted tokens." in whole["report.md"]


def test_what_was_written(whole):
    # " the dog the dog": one 4-gram, no repeat, but a loop of 4 words; " over the hill <p>" holds a tag
    text = whole["report.md"]
    for line in [
        "- **stock, after pass 1**: temperature 0.7, top-p 0.92, up to 4 new tokens a text, seed 42",
        "|  | stock | after pass 1 |",
        "| texts | 2 | 2 |",
        "| new tokens | 4.0 | 4.0 |",
        "| longest loop, words | 2.0 | 0.0 |",
        "| markup unasked | 0.0 % | 50.0 % |",
        "| `narrative` | stock | 1 | 4.0 | 0.0 % | 4.0 | 0.0 % | 0.0 % | 0.0 % | 0.0 % | 0.0 % |",
        "| `narrative` | after pass 1 | 1 | 4.0 | 0.0 % | 0.0 | 100.0 % | 0.0 % | 0.0 % | 0.0 % | 0.0 % |",
    ]:
        assert f"\n{line}\n" in text, line


def test_texts_stand_beside_each_other_at_the_end(whole):
    end = whole["report.md"].split("\n## ")[-1]
    assert end.startswith("Texts\n\n### `fox` (`narrative`)\n")
    assert "prompt\n\n```\nThe fox saw\n```\n\nstock\n\n```\n the dog the dog\n```\n" in end
    assert "after pass 1: markup unasked\n\n```\n over the hill <p>\n```\n" in end
    assert end.count("```\n\n    return a + b\n```") == 2  # the line break it began with is shown
    folded = whole["report.html"].split("<details>")[1]
    assert "<summary><code>fox</code> (<code>narrative</code>)</summary>" in folded
    assert folded.index("The fox saw") < folded.index("the dog the dog") < folded.index("over the hill &lt;p&gt;")


def test_the_heads_worth_most(whole):
    # each head is worth a hundredth of its stock BOS mass; ten of twelve are shown
    text = whole["report.md"].split("## What each head is worth")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| L")]
    assert len(rows) == 10
    assert rows[:2] == ["| L1-H3 | +0.0097 | +0.0097 |", "| L2-H3 | +0.0096 | +0.0096 |"]
    assert "- **stock**: `bible.txt`: 8 samples, 4 088 predicted tokens, loss 4.8600 nats" in text
    every = rows_of(whole["contribution.csv"])
    assert len(every) == 24 and every[0] == {"stage": "stock", "layer": "1", "head": "3", "worth": "0.0097"}
    assert {row["stage"] for row in every[12:]} == {"pass-1"}


def test_the_tables_as_csv(whole):
    first, second = rows_of(whole["targets.csv"])
    assert first == {
        "pass": "1",
        "layer": "1",
        "head": "2",
        "bos_mass_stock": "0.7",
        "bos_mass_after": "0.05",
        "woken": "yes",
        "worth_stock": "0.02",
        "worth_cut": "0.0",
        "worth_after": "0.512",
    }
    assert (second["head"], second["worth_after"]) == ("3", "0.25")
    found = [(r["kind"], r["text"], r["stock"], r["cut"], r["after"]) for r in rows_of(whole["perplexities.csv"])]
    assert found == [
        ("heldout", "", "128.98", "132.89", "55.2"),
        ("heldout_source", "bible.txt", "140.0", "144.0", "60.0"),
        ("heldout_source", "birds.txt", "90.0", "93.0", "40.0"),
        ("watched", "austen", "18.51", "", "27.2"),
    ]
    rows = rows_of(whole["generation.csv"])
    assert [(r["stage"], r["over"], r["category"]) for r in rows[:3]] == [
        ("stock", "all", ""),
        ("stock", "category", "narrative"),
        ("stock", "category", "code"),
    ]
    assert (rows[1]["longest_loop"], rows[4]["markup"]) == ("4.0", "1.0")


def test_what_an_older_record_lacks_has_no_place_in_its_report(tmp_path):
    files = report_of(tmp_path, ONE_PASS)
    for words in ["dormant", "memory", "tokens trained on", "operator", "duplicates", "worth by itself", "cut 0."]:
        assert words not in files["report.md"], words
    assert "## What" in files["report.md"] and "## Texts" not in files["report.md"]
    assert "| head | BOS mass, stock | BOS mass, after | woken |\n" in files["report.md"]
    assert "generation.csv" not in files and "contribution.csv" not in files


def test_one_source_needs_no_perplexity_of_its_own(tmp_path):
    one = [replace(event, corpus=[story.SOURCE], heldout_sources_stock={"bible.txt": 128.98})
           if isinstance(event, events.PassStarted) else event for event in WHOLE_PASS]  # fmt: skip
    text = report_of(tmp_path, one)["report.md"]
    assert "held out of" not in text
    assert "| tokens held out | sha256 begins |" in text


def test_many_targets_are_folded(tmp_path):
    rows = [[0.7] * 8 for _ in range(4)]
    heads = [f"L{layer}-H{head}" for layer in range(4) for head in range(8)]
    told = [*DIAGNOSED[:3], story.diagnosed(map_=HeadMap(rows, rows, texts=story.TEXTS)), story.started(heads=heads)]
    page = report_of(tmp_path / "many", told)["report.html"]
    assert "<details>\n<summary>Target by target" in page
    few = report_of(tmp_path / "few", [*told[:4], story.started(heads=heads[:24])])["report.html"]
    assert "<details open>\n<summary>Target by target" in few


def test_a_pass_that_stands_still_for_want_of_memory_says_so(tmp_path):
    still = events.OutOfMemory(
        number=1, step=1, micro_batch=8, accumulate=1, offered_micro_batch=4, offered_accumulate=2, checkpointing=False
    )
    text = report_of(tmp_path, [*DIAGNOSED, story.started(), story.cut(), story.step(1), still])["report.md"]
    assert "- **outcome**: out_of_memory (it stands still, as a step did not fit into memory" in text


def test_texts_and_worth_without_any_pass(tmp_path):
    files = report_of(tmp_path, [*DIAGNOSED, story.generated(), story.contributed()])
    assert "|  | stock |\n" in files["report.md"] and "| L1-H3 | +0.0097 |\n" in files["report.md"]
    empty = report_of(tmp_path / "b", [*DIAGNOSED, replace(story.generated(), continuations=[])])
    assert "What it writes" not in empty["report.md"] and "generation.csv" not in empty


def test_a_look_in_the_middle_of_a_pass_is_named_by_its_step(tmp_path):
    told = changed(WHOLE_PASS, WHOLE_PASS[-1], story.contributed("pass-1-step-20"))
    assert "| head | stock | in pass 1 at step 20 |" in report_of(tmp_path, told)["report.md"]


def test_intervals_of_the_entropy_are_in_the_table_of_heads(tmp_path):
    known = replace(story.head_map(), entropy_low=[[0.1] * 4] * 3, entropy_high=[[2.5] * 4] * 3)
    rows = rows_of(report_of(tmp_path, [*DIAGNOSED[:3], story.diagnosed(map_=known)])["heads.csv"])
    assert (rows[0]["entropy"], rows[0]["entropy_low"], rows[0]["entropy_high"]) == ("2.0", "0.1", "2.5")


def test_words():
    assert [signed(x) for x in (0.02, -0.00001, 0.0, -0.001)] == ["+0.0200", "0.0000", "0.0000", "-0.0010"]
    assert [stage_name(x) for x in ("stock", "pass-2", "pass-2-step-40", "other")] == [
        "stock",
        "after pass 2",
        "in pass 2 at step 40",
        "other",
    ]
