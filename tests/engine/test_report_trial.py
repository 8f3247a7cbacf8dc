"""The report on a protocol: every format read as its readers do, every figure the record's own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from engine import events
from engine.arms import arms_of, patients_of
from engine.drift import Drift, ZoneDrift
from engine.report.trial import write_trial_report
from engine.report.trial_material import gather_all
from engine.report.trial_pictures import bands_picture, heldout_picture, mean_of
from engine.session import Session
from tests.engine import story
from tests.engine.test_report import rows_of
from tests.engine.test_report_latex import sound
from tests.engine.test_report_markup import NASTY, Tags
from tests.engine.test_report_opened import CHROMIUM, picture

SVG = "{http://www.w3.org/2000/svg}"
QUESTION = "Does it wake & work?"
RSVG = shutil.which("rsvg-convert")
HELDOUT = [132.89, 100.0, 80.0, 60.0, 70.0]
"""At the cut and at steps 10, 20, 30, 40; the seed is added to those of training."""


def session(folder: Path, arm: str, seed: int, protocol: str = "Birds", source: str = "bible.txt", **plan) -> Session:
    """A run of four checks: outside drift comes early, that in the band late."""
    created = replace(story.CREATED, protocol=protocol, arm=arm, seed=seed)
    told: list[events.Event] = [created, *story.DIAGNOSED[1:]]
    began = replace(story.started(seed=seed, **plan), corpus=[replace(story.SOURCE, source=source)])
    told += [replace(began, perplexity_stock={source: 18.51}), story.cut()]
    for i in range(1, 5):
        drift = Drift(ZoneDrift(8, 2, 0.03, 0.07, "L2-H2"), ZoneDrift(2, 1, 0.01 * i, 0.06, "L1-H1"))
        columns = [0.01 * i, 0.0, 0.02 + 0.001 * i, 0.0]
        told.append(story.check(10 * i, HELDOUT[i] + seed, best=i < 4, drift=drift, columns=columns))
    kept = Drift(ZoneDrift(8, 2, 0.03, 0.07, "L2-H2"), ZoneDrift(2, 1, 0.03, 0.06, "L1-H1"))
    told += [
        story.ended(
            step=40, kept_step=30, heldout_perplexity=60.0 + seed, drift=kept, spreading=[0],
            perplexity_after={source: 20.0}, trained_tokens=40_960,
        ),
        story.diagnosed("pass-1", story.head_map(story.AFTER, story.ENTROPY_AFTER)),
        events.Note(text=f"{arm} is done"),
        events.Closed(),
    ]  # fmt: skip
    return story.tell(folder / f"{len(list(folder.iterdir())) if folder.exists() else 0}", told)


def trial(folder: Path) -> list[Session]:
    """Two arms with two seeds each."""
    return [session(folder, arm, seed, reinit=arm == "cut") for arm in ("cut", "control") for seed in (1, 3)]


def report_on(sessions: list[Session], to: Path, question: str = QUESTION) -> dict[str, str]:
    paths = write_trial_report(sessions, to, [question])
    assert sorted(paths) == sorted(to.iterdir())
    return {path.name: path.read_text("utf-8") for path in paths}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("trial")


@pytest.fixture(scope="module")
def files(folder):
    return report_on(trial(folder / "sessions"), folder / "report")


def table_under(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table of Markdown under a heading."""
    lines = text[text.index(f"\n{heading}\n") :].splitlines()
    rows = [line for line in lines if line.startswith("|")]
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows[: _run(lines[first:])]]


def _run(lines: list[str]) -> int:
    return next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))


def test_the_question_and_its_answer_stand_first(files):
    text = files["report.md"]
    assert text.startswith("# Birds\n\n- **question**: Does it wake \\& work?\n")
    head, _, cut, control = table_under(text, "## What came of it")
    assert cut == [
        "cut", "6 → 8", "2 → 2 of 2", "0.0300 → 0.7440", "128.98 → 62.00 ± 1.41", "30 of 40", "10",
    ]  # fmt: skip
    assert control[0] == "control" and len(head) == len(cut)
    assert "the last check 16.1 ± 0.4 % above it; early or late drift: both" in text  # 10/61 and 10/63


def test_figures_over_seeds_are_told_with_every_seed(files):
    rows = {row[0]: row[1:] for row in table_under(files["report.md"], "## Every figure")}
    assert rows[""] == ["seed 1", "seed 3", "mean", "sd", "lowest", "highest"]
    assert rows["held-out perplexity: kept"] == ["61.00", "63.00", "62.00", "1.41", "61.00", "63.00"]
    assert rows["mean \\|δ\\| in the band"][:2] == ["0.0300", "0.0300"]


def test_each_arm_has_its_shapes_phases_and_columns(files):
    text = files["report.md"].split("\n## Arm: control\n")[1]
    seeds = {row[0]: row[1:] for row in table_under("\n" + text, "### Seed by seed")}
    assert seeds["outside, mean \\|δ\\|: shape"] == ["rising", "rising"]  # from 0.014 at the cut
    assert seeds["early or late"] == ["both", "both"]
    assert seeds["in-band frozen: change from then on"] == ["+0.0300", "+0.0300"]
    assert seeds["columns that spread"] == ["H0", "H0"]
    columns = {row[0]: row[1:] for row in table_under("\n" + text, "### Columns over seeds")}
    assert columns["H0"] == 2 * ["0.0100 → 0.0400, rising"]


def test_methods_tell_what_all_share_once(files):
    text = files["report.md"].split("\n## Methods\n")[1].split("\n## Sessions\n")[0]
    assert text.count("AdamW") == 1 and text.count("Seeds 1, 3.") == 1
    assert "- `cut`: Their Q, K, V rows were drawn anew" in text
    assert "- `control`: Nothing was reinitialised" in text
    assert table_under("\n" + text, "### What differs")[2:] == [["cut", "yes"], ["control", "no"]]
    assert not re.search(r"\S  \S|\. \.|\.\.", text)


def test_sessions_hashes_and_notes_are_listed(files):
    text = files["report.md"].split("\n## Sessions\n")[1]
    assert text.count(f"patch of step 30 `{'12' * 32}`") == 4
    assert "and the same after" in text and text.count("is done") == 4


def test_the_csv_files_hold_every_run_and_every_check(files):
    arms = rows_of(files["arms.csv"])
    assert [(row["arm"], row["pass"], row["seed"]) for row in arms] == [
        ("cut", "1", "1"), ("cut", "1", "3"), ("control", "1", "1"), ("control", "1", "3"),
    ]  # fmt: skip
    assert arms[1]["heldout_after"] == "63.0" and arms[1]["perplexity.bible.txt.after"] == "20.0"
    spread = {(row["arm"], row["figure"]): row for row in rows_of(files["spread.csv"])}
    kept = spread["cut", "heldout_after"]
    assert (kept["n"], kept["mean"], kept["low"], kept["high"]) == ("2", "62.0", "61.0", "63.0")
    assert float(kept["sd"]) == pytest.approx(2**0.5)
    series = rows_of(files["series.csv"])
    assert len(series) == 4 * 5
    (row,) = [row for row in series if (row["arm"], row["seed"], row["step"]) == ("control", "3", "20")]
    assert (row["heldout_perplexity"], row["drift_in_band_frozen_mean"], row["column_H0"]) == ("83.0", "0.02", "0.02")
    heads = rows_of(files["heads.csv"])
    assert len(heads) == 4 * 2 * 12
    woken = [row for row in heads if (row["stage"], row["layer"], row["head"]) == ("pass-1", "1", "3")]
    assert {(row["bos_mass"], row["class"], row["target"]) for row in woken} == {("0.04", "healthy", "yes")}


def test_the_json_holds_the_records_and_what_was_worked_out(files):
    told = json.loads(files["report.json"])
    assert told["title"] == "Birds" and told["questions"] == [QUESTION] and told["comparable"]
    assert [arm["seeds"] for arm in told["arms"]] == [[1, 3], [1, 3]]
    assert told["arms"][0]["figures"]["heldout_after"]["values"] == [61.0, 63.0]
    assert told["arms"][0]["analysis"][0]["phases"]["reading"] == "both"
    assert told["differs"] == {"pass-1": {"reinit": {"cut": True, "control": False}}}
    assert [record["session"]["arm"] for record in told["records"]] == ["cut", "cut", "control", "control"]


def test_pictures_are_files_and_stand_in_the_page(files):
    pictures = {name: text for name, text in files.items() if name.endswith(".svg")}
    of_arms = [f"{i}-{arm}-{what}.svg" for i, arm in ((1, "cut"), (2, "control")) for what in
               ("before", "after", "change", "histogram", "columns")]  # fmt: skip
    assert {*pictures} == {"heldout.svg", "drift-outside.svg", "drift-in-band.svg", "histogram-stock.svg", *of_arms}
    for name, svg in pictures.items():
        drawn = ElementTree.fromstring(svg)
        assert f"]({name})" in files["report.md"] and svg.strip() in files["report.html"]
        assert (drawn.find(f".//{SVG}rect[@class='zone']") is not None) == bool(re.search("before|after|change", name))
    names = [text.text for text in ElementTree.fromstring(pictures["heldout.svg"]).findall(f"{SVG}text")]
    assert "cut: best 62.00 at step 30" in names and names.count("stock 128.98") == 1


def test_curves_of_seeds_and_their_mean(folder):
    found = gather_all(trial(folder / "more"))
    svg = ElementTree.fromstring(heldout_picture(found.arms, "all"))
    lines = svg.findall(f"{SVG}polyline")
    assert len(lines) == 1 + 2 * (2 + 1)  # stock, and per arm two seeds and their mean
    assert mean_of([[(0, 1.0), (10, 3.0)], [(0, 3.0), (20, 9.0)]]) == [(0, 2.0)]
    assert mean_of([]) == []


def test_latex_is_sound(files):
    tables = sound(files["report.tex"])
    assert (3, 7) in tables  # the two arms under their header
    assert r"cut & 6 \textrightarrow{} 8 & 2 \textrightarrow{} 2 of 2" in files["report.tex"]


def test_a_page_needs_nothing_from_elsewhere(files):
    page = Tags(files["report.html"])
    assert not page.tags & {"script", "link", "iframe", "img", "object", "use"}
    assert not page.attributes & {"href", "src", "srcset", "action", "data", "xlink:href"}
    assert set(re.findall(r"\w+://[^\"\s]+", files["report.html"])) == {"http://www.w3.org/2000/svg"}


# -- what comes from outside


def foul(folder: Path, name: str) -> dict[str, str]:
    sessions = [session(folder / "s", f"{name}{i}"[-40:] if i else name, 1, name, name, samples=7 + i) for i in (0, 1)]
    return report_on(sessions, folder / "report", name)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return foul(tmp_path_factory.mktemp("hostile"), NASTY + "\x1b[1m\u202e")


def test_hostile_names_leave_the_page_the_same(hostile, tmp_path):
    page, plain = Tags(hostile["report.html"]), Tags(foul(tmp_path, "plain")["report.html"])
    assert page.tags == plain.tags and page.attributes == plain.attributes
    assert [len(row) for row in page.rows] == [len(row) for row in plain.rows]
    assert page.text.count(NASTY) > 10
    for text in (text for name, text in hostile.items() if name != "report.json"):  # there it is data
        assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)


def test_hostile_names_render_in_markdown_as_what_they_are(hostile):
    page = Tags(MarkdownIt("commonmark").enable("table").enable("strikethrough").render(hostile["report.md"]))
    assert not page.tags & {"a", "script", "b", "em", "s", "br"}
    assert page.text.count(NASTY) > 10


def test_hostile_names_are_sound_latex_and_start_no_formula(hostile, tmp_path):
    sound(hostile["report.tex"])
    files = report_on([session(tmp_path / "s", '=cmd|"/c calc"', 1, source="@x")], tmp_path / "report")
    (row,) = rows_of(files["arms.csv"])
    assert row["arm"] == '\'=cmd|"/c calc"' and "perplexity.@x.stock" in row
    assert {row["arm"] for row in rows_of(files["series.csv"])} == {'\'=cmd|"/c calc"'}
    for name in hostile:
        assert re.fullmatch(r"[a-z0-9.-]+", name)


# -- other kinds of protocol


def test_a_family_is_a_table_of_patients_and_their_bands(tmp_path):
    sessions = []
    for i, (arm, rows) in enumerate([("small", story.STOCK), ("large", [*story.STOCK, *story.STOCK])]):
        loaded = replace(story.LOADED, weights_sha256=f"{i}{i}" * 32, n_layers=len(rows))
        entropy = story.ENTROPY * (len(rows) // 3)
        told = [
            replace(story.CREATED, protocol="Family", arm=arm), loaded,
            story.diagnosed(map_=story.head_map(rows, entropy)), events.Closed(),
        ]  # fmt: skip
        sessions.append(story.tell(tmp_path / "s" / arm, told))
    files = report_on(sessions, tmp_path / "report")
    rows = table_under(files["report.md"], "## What came of it")
    assert rows[2][:5] == ["small", "3 × 4", "5", "41.7", "H2–H3"]
    assert rows[3][:5] == ["large", "6 × 4", "10", "41.7", "H2–H3"]
    strips = ElementTree.fromstring(files["bands.svg"]).findall(f"{SVG}rect")
    assert [strip.find(f"{SVG}title").text for strip in strips if strip.find(f"{SVG}title") is not None] == 2 * [
        "H0: 0 % of its layers sick", "H1: 0 % of its layers sick",
        "H2: 67 % of its layers sick, in the band", "H3: 100 % of its layers sick, in the band",
    ]  # fmt: skip
    assert "1-small-grid.svg" in files and "Methods" in files["report.md"]
    assert rows_of(files["series.csv"]) == [] and len(rows_of(files["arms.csv"])) == 2
    assert json.loads(files["report.json"])["patients"][1]["n_layers"] == 6
    sound(files["report.tex"])


def test_a_trial_under_way_has_a_report(tmp_path):
    begun = replace(story.CREATED, protocol="Birds", arm="young")
    running = replace(story.CREATED, protocol="Birds", arm="running")
    sessions = [
        session(tmp_path / "s", "done", 1),
        story.tell(tmp_path / "begun", [begun]),
        story.tell(tmp_path / "running", [running, *story.DIAGNOSED[1:], story.started(), story.cut()]),
    ]
    files = report_on(sessions, tmp_path / "report")
    rows = table_under(files["report.md"], "## What came of it")
    assert [row[0] for row in rows[2:]] == ["done", "running"]
    assert rows[3][1:] == ["6 → –", "2 → – of 2", "0.0300 → –", "128.98 → –", "–", "–"]
    report_on(sessions[1:2], tmp_path / "nothing")


def test_an_arm_of_two_passes_has_a_row_and_curves_for_each(tmp_path):
    created = replace(story.CREATED, protocol="Relapse", arm="same corpus")
    second = [
        story.started(2, reinit=False), story.cut(2, woken=2), story.check(20, 50.0, number=2),
        story.check(40, 52.0, number=2, best=False, woken=1),
        story.ended(2, heldout_perplexity=50.0, kept_step=20),
    ]  # fmt: skip
    files = report_on([story.tell(tmp_path / "s", [created, *story.ONE_PASS[1:-1], *second])], tmp_path / "report")
    rows = table_under(files["report.md"], "## What came of it")
    assert [row[0] for row in rows[2:]] == ["same corpus, pass 1", "same corpus, pass 2"]
    assert {"heldout-pass-1.svg", "heldout-pass-2.svg"} <= {*files}
    assert "- same corpus, pass 2: the last check 4.0 % above it; at least 1 sank again;" in files["report.md"]
    assert "Pass 1, in all arms: " in files["report.md"] and "Pass 2, in all arms: " in files["report.md"]
    sound(files["report.tex"])


def test_the_papers_figures_stand_beside_those_of_its_patient(tmp_path):
    shape = {"n_layers": 24, "n_heads": 16, "d_model": 2048, "vocabulary": 250_880}
    told = [replace(story.CREATED, arm="stock", protocol="Paper"), replace(story.LOADED, **shape), story.diagnosed()]
    files = report_on([story.tell(tmp_path / "s", told)], tmp_path / "report")
    (row,) = [line for line in files["report.md"].splitlines() if line.startswith("| healthy heads |")]
    assert row == "| healthy heads | 242 | 6 |"
    assert "### stock, seed 42" in files["report.md"] and files["report.md"].count("## Beside the paper\n") == 1


# -- as its readers open it


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_shows_the_page(files, folder, tmp_path):
    shot = tmp_path / "page.png"
    seen = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--window-size=500,600", f"--screenshot={shot}", "--dump-dom", (folder / "report" / "report.html").as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    dom = Tags(seen.stdout)
    assert QUESTION in dom.text and {"svg", "details", "table"} <= dom.tags
    width, height, colours = picture(shot.read_bytes())
    assert width == 500 and height > 300 and len(colours) > 8


@pytest.mark.skipif(RSVG is None, reason="rsvg-convert is not installed")
def test_the_pictures_can_be_drawn(files, folder, tmp_path):
    bands = tmp_path / "bands.svg"
    record = gather_all(trial(tmp_path / "s")).materials[0].record
    bands.write_text(bands_picture(patients_of(arms_of([record])), "bands"), "utf-8")
    for path in (bands, *(folder / "report" / f"{name}.svg" for name in ("heldout", "drift-outside"))):
        png = subprocess.run([RSVG, "--width=200", str(path)], capture_output=True, timeout=60, check=True).stdout
        width, _, colours = picture(png)
        assert width == 200 and len(colours) > 8, path.name
