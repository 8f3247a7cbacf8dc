import csv
import io
import re
from xml.etree import ElementTree

import pytest

from engine import events
from engine.errors import InputError
from engine.report import render, write_report
from engine.report.material import gather
from tests.engine import story
from tests.engine.story import DIAGNOSED, ONE_PASS

RUNNING = [*DIAGNOSED, story.started(), story.cut(), *(story.step(n) for n in range(1, 21)), story.check(20, 70.0)]
TABLES = ["report.md", "report.html", "report.tex", "report.json", "heads.csv", "checks.csv"]
OF_PASSES = ["targets.csv", "perplexities.csv"]


def report_of(tmp_path, told) -> dict[str, str]:
    """The files of a report on a session, by name."""
    session = story.tell(tmp_path / "story", told)
    paths = write_report(session, tmp_path / "out" / "report")
    assert sorted(paths) == sorted((tmp_path / "out" / "report").iterdir())
    return {path.name: path.read_text("utf-8") for path in paths}


def changed(told, old, new):
    """The story with one event told otherwise."""
    return [new if event is old else event for event in told]


STOCK = ["grid-stock.svg", "histogram-stock.svg"]
CUT = ["grid-before-pass-1.svg", "grid-pass-1.svg", "change-pass-1.svg", "histogram-pass-1.svg", "curve-pass-1.svg"]
CHECKED = [*CUT, "drift-pass-1.svg", "columns-pass-1.svg"]


@pytest.mark.parametrize(
    ("told", "pictures"),
    [
        (DIAGNOSED[:1], []),
        (DIAGNOSED[:3], []),
        (DIAGNOSED, STOCK),
        ([*DIAGNOSED, story.started()], STOCK),
        ([*DIAGNOSED, story.started(), story.cut()], STOCK + CUT),
        (RUNNING, STOCK + CHECKED),
        ([*RUNNING, story.ended()], STOCK + CHECKED),
        (ONE_PASS, STOCK + CHECKED),
        ([*ONE_PASS, events.Undone(number=1)], STOCK + CHECKED),
    ],
)
def test_every_stage_of_a_session_has_a_report(tmp_path, told, pictures):
    files = report_of(tmp_path, told)
    passes = any(isinstance(event, events.PassStarted) for event in told)
    assert sorted(files) == sorted(TABLES + pictures + (OF_PASSES if passes else []))
    for name in pictures:
        ElementTree.fromstring(files[name])
        assert f"]({name})" in files["report.md"]
        assert files[name].strip() in files["report.html"]


def test_the_record_alone_is_enough(tmp_path):
    session = story.tell(tmp_path / "story", ONE_PASS)
    session.journal.unlink()
    names = [path.name for path in write_report(session, tmp_path / "out")]
    assert {*STOCK, *CHECKED} <= {*names}


def test_a_journal_that_is_ahead_of_the_record_is_followed(tmp_path):
    session = story.tell(tmp_path / "story", RUNNING)
    story.tell(tmp_path / "story", [story.check(40, 55.2)], keep_record=False)
    write_report(session, tmp_path / "out")
    assert "| held-out part of the corpus | 128.98 | 132.89 | 55.20 |" in (tmp_path / "out/report.md").read_text(
        "utf-8"
    )


def test_without_a_record_there_is_none(tmp_path):
    session = story.tell(tmp_path / "story", DIAGNOSED, keep_record=False)
    with pytest.raises(InputError, match=r"no session\.toml yet"):
        write_report(session, tmp_path / "out")


def test_a_place_that_cannot_be_written_to_is_refused_in_words(tmp_path):
    session = story.tell(tmp_path / "story", DIAGNOSED)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write the report to"):
        write_report(session, tmp_path / "file")


def test_the_report_of_one_pass(tmp_path):
    text = report_of(tmp_path, ONE_PASS)["report.md"]
    for line in [
        "# Head surgery on `demo`",
        "- **source**: `demo`, revision `main`",
        f"- **weights sha256**: `{'ab' * 32}`",
        "- **shape**: 3 layers × 4 heads, width 32, head size 8, vocabulary 1 024, context 512",
        "- **dtype and device**: `float32` on `cpu`",
        '| `fable` | 16 | `"<s>"` | 0.211 |',
        '| `recipe` | 64 | `"The"` | 0.074 |',
        "- **dead**: BOS mass > 0.95",
        "- **low_entropy**: neither, entropy \\< 0.5 nats",
        "|  | stock | after pass 1 |",
        "| `healthy` | 6 (50.0 %) | 8 (66.7 %) |",
        "| `bos_sink` | 3 (25.0 %) | 2 (16.7 %) |",
        "| `dead` | 2 (16.7 %) | 1 (8.3 %) |",
        "| sick band | H2–H3 | H2–H3 |",
        "| sick, were the threshold 0.40 / 0.50 / 0.60 | 5 / 5 / 3 | 3 / 3 / 2 |",
        "| borderline | 2 | 1 |",
        "- **outcome**: completed (all steps were done), accepted",
        "- **targets as written**: `L1 x H2-3`",
        "- **zone**: L1–L1 × H2–H3: 2 targets, 0 in-band frozen, 10 outside",
        "- **trained parameters**: 2 096 (2.99 %), the slices of the target heads",
        "- **touched tensors**: 4 192 (5.99 %) parameters, whole tensors that hold a slice",
        f"- **frozen parameters**: equal before and after, every byte; sha256 `{'ef' * 32}`",
        "- **operation**: Q, K, V rows reinitialised (xavier_normal), output columns zeroed",
        "- **steps**: 40 of 40 done, the slices of step 40 kept",
        "- **seed**: 42",
        "| `bible.txt` | 10 | 1 | 9 000 | 1 000 | `cdcdcdcdcdcdcdcd` |",
        "- **woken at the cut**: 2 of 2 targets are below the sink threshold before any training",
        "- **woken after training**: 2 of 2 targets are below it at step 40",
        "- **working**: held-out loss lost when the targets are ablated together: stock 0.0300 → after 0.7440 nats",
        "| text | stock | cut | after (step 40) |",
        "| held-out part of the corpus | 128.98 | 132.89 | 55.20 |",
        "| `austen` | 18.51 |  | 27.20 |",
        "| outside | cut | 2 of 10 | 0.0140 | 0.0700 | L2-H2 |",
        "| outside | training | 2 of 10 | 0.0140 | 0.0700 | L2-H2 |",
        "| outside | total | 2 of 10 | 0.0140 | 0.0700 | L2-H2 |",
    ]:
        assert f"\n{line}\n" in f"\n{text}", line
    assert "No head-index column spread." in text
    assert "**: woken heads do some work\n" in text
    assert "A count of heads below a threshold proves little" in text


@pytest.mark.parametrize("name", ["report.md", "report.html"])
def test_no_report_calls_a_model_repaired(tmp_path, name):
    assert not re.search("repair|heal(?!thy)|cured", report_of(tmp_path, ONE_PASS)[name], re.IGNORECASE)


def test_frozen_bytes_that_changed_stand_out(tmp_path):
    told = changed(ONE_PASS, ONE_PASS[-5], story.ended(frozen_sha256_after="00" * 32))
    assert f"NOT equal: sha256 `{'ef' * 32}` before, `{'00' * 32}` after" in report_of(tmp_path, told)["report.md"]


def test_columns_that_spread_are_told_with_their_way(tmp_path):
    told = [*RUNNING, story.check(40, 55.2, columns=[0.01, 0.0, 0.075, 0.0]), story.ended(spreading=[2])]
    text = report_of(tmp_path, told)["report.md"]
    assert "Columns that spread: H2 (mean \\|δ\\| 0.0350 at the first check, 0.0750 at the last)." in text


def test_a_pass_under_way_says_so_and_gives_its_last_check(tmp_path):
    text = report_of(tmp_path, RUNNING)["report.md"]
    assert "- **outcome**: running (it has not ended; figures are those of its last check)" in text
    assert "- **frozen parameters**: not compared yet" in text
    assert "- **steps**: – of 40 done" in text
    assert "2 of 2 targets are below it at step 20" in text
    assert "stock 0.0300 → after – nats" in text
    assert "| held-out part of the corpus | 128.98 | 132.89 | 70.00 |" in text
    assert "| `austen` | 18.51 |  | – |" in text
    assert "Every head as last seen in pass 1" in text


def test_a_local_model_has_no_revision(tmp_path):
    local = events.Loaded(**{**vars(story.LOADED), "revision": ""})
    text = report_of(tmp_path, changed(DIAGNOSED, story.LOADED, local))["report.md"]
    assert "\n- **source**: `demo`\n" in text


def test_the_control_is_called_the_control(tmp_path):
    text = report_of(tmp_path, [*DIAGNOSED, story.started(reinit=False, parts="qk"), story.cut(woken=0)])["report.md"]
    assert "- **operation**: the control: nothing reinitialised, Q, K rows and output columns trained" in text
    assert "- **woken at the cut**: 0 of 2" in text


def test_a_report_on_two_passes(tmp_path):
    second = [story.started(number=2, targets="sick", heads=["L2-H2"]), story.cut(number=2), story.ended(number=2)]
    files = report_of(tmp_path, [*ONE_PASS, *second, story.diagnosed("pass-2")])
    assert "|  | stock | after pass 1 | after pass 2 |" in files["report.md"]
    assert {"grid-pass-1.svg", "grid-pass-2.svg"} <= {*files}
    assert "pass_2_class" in files["heads.csv"].splitlines()[0]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_heads_one_by_one(tmp_path):
    rows = rows_of(report_of(tmp_path, ONE_PASS)["heads.csv"])
    assert [(row["layer"], row["head"]) for row in rows] == [(str(i), str(j)) for i in range(3) for j in range(4)]
    assert rows[7] == {
        "layer": "1",
        "head": "3",
        "bos_mass": "0.97",
        "bos_low": "0.95",
        "bos_high": "0.99",
        "entropy": "0.1",
        "entropy_low": "",
        "entropy_high": "",
        "class": "dead",
        "borderline": "yes",
        "pass_1_bos_mass": "0.04",
        "pass_1_class": "healthy",
        "pass_1_target": "yes",
    }
    assert rows[4]["class"] == "low_entropy" and rows[4]["pass_1_target"] == "no"


def test_only_standing_passes_have_columns(tmp_path):
    undone = report_of(tmp_path / "a", [*ONE_PASS, events.Undone(number=1)])["heads.csv"]
    running = report_of(tmp_path / "b", RUNNING)["heads.csv"]
    assert "pass_1" not in undone and "pass_1" not in running
    assert len(rows_of(undone)) == 12


def test_a_pass_that_was_not_diagnosed_leaves_blanks(tmp_path):
    rows = rows_of(report_of(tmp_path, [*RUNNING, story.ended()])["heads.csv"])
    assert (rows[7]["pass_1_bos_mass"], rows[7]["pass_1_class"], rows[7]["pass_1_target"]) == ("", "", "yes")


def test_checks_one_by_one(tmp_path):
    cut, first, second = rows_of(report_of(tmp_path, ONE_PASS)["checks.csv"])
    assert (cut["step"], cut["train_loss"], cut["heldout_perplexity"], cut["woken"]) == ("0", "", "132.89", "2")
    assert cut["drift_outside_mean"] == "0.014" and cut["drift_training_outside_mean"] == ""
    assert (first["pass"], first["step"], first["heldout_perplexity"], first["best"]) == ("1", "20", "70.0", "yes")
    assert (second["drift_training_outside_worst_head"], second["drift_in_band_frozen_drifting"]) == ("L2-H2", "0")
    assert (cut["column_H2"], first["column_H2"], second["column_H3"]) == ("", "0.035", "0.0")


def test_a_column_that_one_pass_touches_whole_is_blank_there(tmp_path):
    told = [*DIAGNOSED, story.started(), story.cut(), story.check(20, 70.0, columns=[0.01, 0.0, None, 0.0])]
    second = [story.started(number=2), story.cut(number=2), story.check(20, 60.0, number=2)]
    rows = rows_of(report_of(tmp_path, [*told, story.ended(), *second])["checks.csv"])
    assert [row["column_H2"] for row in rows] == ["", "", "", "0.035"]


def curved() -> list[events.Event]:
    """A pass whose held-out perplexity falls below stock and rises again, and whose H2 spreads."""
    steps = (10, 20, 30, 40)
    found = zip(steps, (130.0, 60.0, 70.0, 75.0), (0.01, 0.02, 0.03, 0.04), (2, 2, 1, 1), strict=True)
    checks = [story.check(s, ppl, columns=[0.01, 0.0, h2, 0.0], woken=w) for s, ppl, h2, w in found]
    return [*DIAGNOSED, story.started(), story.cut(), *checks, story.ended(spreading=[2])]


def test_what_the_curves_of_a_pass_say(tmp_path):
    text = report_of(tmp_path, curved())["report.md"]
    for line in [
        "- **held-out perplexity**: first at or below stock at step 20; best 60.00 at step 20, 50 % of the planned "
        "steps; the last check is 15.00 above it (25.0 %)",
        "- **sank again**: at least 1: 2 of 2 were woken at step 0, 1 at the last check",
        "| over the checks | first | last | lowest | at step | highest | at step | shape |",
        "| held-out perplexity | 132.89 | 75.00 | 60.00 | 20 | 132.89 | 0 | mixed |",
        "| targets woken | 2 | 1 | 1 | 30 | 2 | 0 | falling |",
        "| outside: mean \\|δ\\| against stock | 0.0140 | 0.0140 | 0.0140 | 0 | 0.0140 | 0 | plateau |",
        "| H2 | 0.0100 | 0.0400 | +0.0300 | rising | yes |",
        "| H1 | 0.0000 | 0.0000 | 0.0000 | plateau | no |",
        "- **early or late**: early redistribution; late decay cannot be told: no in-band frozen heads",
        "|  | end of the early part (step 10) | last check (step 40) | change |",
        "| outside: mean \\|δ\\| | 0.0140 | 0.0140 | 0.0000 |",
    ]:
        assert f"\n{line}\n" in text, line
    assert "By step 10 the outside had 100 % of its last mean \\|δ\\|, by the best check (step 20) 100 %." in text
    assert "The held-out perplexity ends 25.0 % above its best." in text


def test_a_pass_without_checks_has_no_curves_to_tell_of(tmp_path):
    text = report_of(tmp_path, [*DIAGNOSED, story.started(), story.cut()])["report.md"]
    assert "There are no checks yet, so there are no curves." in text


def test_the_methods_hold_every_setting(tmp_path):
    files = report_of(tmp_path, story.WHOLE_PASS)
    methods = files["report.md"].split("## Methods\n")[1].split("\n## ")[0]
    for told in [
        "with headsurgeon `0.1.0` (`python 3.11.7`, `torch 2.13.0`) on the model `demo`",
        f"sha256 of the weights `{'ab' * 32}`",
        "The session's seed is 42.",
        "measured on 2 texts (the built-in texts, 80 tokens)",
        "Pass 1. The targets `L1 x H2-3`",
        "are 2 heads: `L1-H2, L1-H3`",
        "Their Q, K, V rows were drawn anew (Xavier, normal)",
        f"`bible.txt` (sha256 `{'cd' * 32}`, 10 documents, 9 000 tokens to train on, 1 000 held out)",
        "`birds.txt`",
        "read 3 times an epoch",
        "Of its documents 10 % were held out",
        "at a learning rate of 5e-05 after 10 steps of linear warmup",
        "4 096 tokens a step (micro-batch 2, accumulation 4), with gradient checkpointing, seed 42",
        "After step 20 the operator set `micro_batch = 2`, `accumulate = 4`, `checkpointing = true`.",
        "checked every 20 steps, without early stop",
        f"all frozen bytes was `{'ef' * 32}` before and `{'ef' * 32}` after",
    ]:
        assert told in methods, told
    assert "<h2>Methods</h2>" in files["report.html"]


def test_a_setting_of_a_later_program_is_told_too(tmp_path):
    found = gather(story.tell(tmp_path / "story", ONE_PASS))
    found.record.passes[0].__pydantic_extra__ = {"anneal": "<b>"}
    files = render(found)
    assert "Also set: `anneal = <b>`." in files["report.md"] and "anneal = &lt;b&gt;" in files["report.html"]
