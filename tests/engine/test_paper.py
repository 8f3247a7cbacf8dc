"""The paper's figures beside a record of BLOOM-1b7's shape, made by hand."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from engine import events, paper
from engine.drift import Drift, ZoneDrift
from engine.heads import Head, HeadMap, ProbeText
from engine.record import load
from engine.report import render
from engine.report.material import gather
from engine.targets import Model, resolve, zones
from tests.engine import story

BLOOM = replace(
    story.LOADED,
    source="bigscience/bloom-1b7",
    n_layers=24,
    n_heads=16,
    n_kv_heads=16,
    d_model=2048,
    d_head=128,
    vocabulary=250_880,
    parameters=1_722_408_960,
)
TARGETS = sorted(paper.paper_targets())
MOVED = Drift(ZoneDrift(258, 56, 0.0310, 0.2, "L1-H4"), ZoneDrift(18, 5, 0.0399, 0.1, "L5-H9"))


def head_map(sick: int) -> HeadMap:
    """A map whose first heads, layer by layer, are sinks."""
    mass = [[0.7 if 16 * layer + head < sick else 0.1 for head in range(16)] for layer in range(24)]
    return HeadMap(mass, [[2.0] * 16] * 24, texts=[ProbeText("fable", 55, "The")])


def session(heads=TARGETS, **plan) -> list[events.Event]:
    """A pass on these heads, measured on C4."""
    started = replace(
        story.started(heads=map(str, heads), **plan),
        corpus=[replace(story.SOURCE, source="allenai/c4:en:validation")],
        trained_parameters=113_287_680,
        touched_tensor_parameters=301_996_800,
    )
    checks = [story.check(20, 70.0, columns=[0.0] * 15 + [0.08]), story.check(40, 55.2, columns=[0.0] * 15 + [0.15])]
    return [
        story.CREATED,
        story.WORKER,
        BLOOM,
        replace(story.diagnosed(map_=head_map(96)), mlp_dormancy=[0.0875] * 24),
        started,
        replace(story.cut(), columns=[0.0] * 16, bos_mass=head_map(0).bos_mass),
        *(replace(check, bos_mass=head_map(0).bos_mass) for check in checks),
        story.diagnosed("pass-1", head_map(16)),
        story.ended(drift=MOVED, drift_training=MOVED, woken=108, trained_tokens=4096),
    ]


def groups(tmp_path, told) -> dict[str, paper.Group]:
    return {group.name: group for group in paper.beside(load(story.tell(tmp_path / "story", told)))}


def row(group: paper.Group, label: str) -> paper.Row:
    (found,) = [row for row in group.rows if row.label.startswith(label)]
    return found


def test_the_papers_targets_are_as_many_as_it_says():
    targets, extended = paper.paper_targets(), paper.paper_targets(extended=True)
    assert len(targets) == 108 and len(extended) == 126
    _, frozen, outside = zones(targets, Model(24, 16))
    assert len(frozen) == 18 and len(outside) == 258
    assert Head(14, 12) not in targets and Head(15, 13) not in targets and Head(22, 15) not in targets


def test_the_papers_protocol_operates_on_the_papers_targets():
    told = tomllib.loads((Path(paper.__file__).parent / "protocols" / "paper.toml").read_text("utf-8"))
    model = Model(24, 16)
    first, extended = (resolve(arm["pass"][0]["targets"], model) for arm in told["arm"][:2])
    assert first == TARGETS and frozenset(extended) == paper.paper_targets(extended=True)


def test_the_papers_counts_are_of_all_heads():
    for counts in paper.COUNTS.values():
        assert sum(counts.values()) == 24 * 16


def test_the_shape_tells_the_model_whatever_its_name(tmp_path):
    record = load(story.tell(tmp_path / "story", session()))
    assert paper.is_bloom_1b7(record.patient)
    assert not paper.is_bloom_1b7(None)
    for name, value in (("n_layers", 30), ("d_model", 1024), ("vocabulary", 1024), ("family", "mpt")):
        assert not paper.is_bloom_1b7(record.patient.model_copy(update={name: value}))


def test_measured_figures_stand_beside_the_papers(tmp_path):
    found = groups(tmp_path, session())
    stock, first = found["Stock"], found["Pass 1"]
    assert row(stock, "healthy") == paper.Row("healthy heads", (242,), (288,))  # 384 less 96
    assert row(stock, "sick heads").measured == (25.0,)
    assert row(stock, "dormant MLP").measured == pytest.approx((8.75,))
    assert row(first, "targets").paper == (108,) and row(first, "targets").measured == (108,)
    assert row(first, "parameters of the tensors").measured == (301_996_800,)
    assert row(first, "bos_sink").measured == (16,)
    assert "108 targets, 108 of them among the paper's 108 targets, 40 of 40 steps" in first.about
    corpora = found["Curated corpus, epoch 3 / C4, epoch 3 / C4, epoch 15"]
    assert row(corpora, "outside: mean").paper == (0.0426, 0.0310, 0.0398)
    assert row(corpora, "outside: mean").measured == (0.031,)
    assert row(corpora, "in-band frozen: heads drifting").measured == (5,)
    assert row(corpora, "column H15").measured == (0.08, 0.15)
    assert row(corpora, "column H13").measured == (0.0, 0.0)
    assert row(corpora, "C4 held out").measured == (128.98, 55.2)  # the corpus is C4


def test_what_the_record_does_not_answer_has_no_measured_figure(tmp_path):
    found = groups(tmp_path, session())
    assert row(found["Pass 2"], "healthy").measured == () and "nothing is measured" in found["Pass 2"].about
    assert all(not row.measured for row in found["Extended surgery"].rows)
    early = groups(tmp_path / "early", session()[:3])
    assert all(not row.measured for group in early.values() for row in group.rows)
    assert row(early["Stock"], "healthy").paper == (242,)


def test_other_targets_are_not_put_beside_the_papers_passes(tmp_path):
    found = groups(tmp_path, session(TARGETS[:60]))
    assert row(found["Pass 1"], "targets").measured == ()
    nearly = groups(tmp_path / "nearly", session(TARGETS[:100]))["Pass 1"]  # 100 of 108
    assert row(nearly, "targets").measured == (100,) and "100 targets, 100 of them among" in nearly.about


def test_the_control_and_the_extended_surgery_have_groups_of_their_own(tmp_path):
    control = groups(tmp_path, session(reinit=False))
    assert row(control["Gradients alone, nothing reinitialised"], "targets that woke").measured == (106,)  # 108 less 2
    assert row(control["Pass 1"], "targets").measured == ()
    extended = groups(tmp_path / "more", session(sorted(paper.paper_targets(extended=True))))["Extended surgery"]
    assert row(extended, "targets").measured == (126,)
    assert row(extended, "perplexity after the cut").measured == (132.89,)
    assert row(extended, "lowest training").measured == pytest.approx((66.686,), abs=1e-3)  # e to the 4.2
    assert row(extended, "L5-H5").measured == (0.7, 0.1)


def test_of_its_other_sizes_the_paper_gives_band_and_share(tmp_path):
    small = [replace(event, d_model=1024) if isinstance(event, events.Loaded) else event for event in session()]
    (group,) = groups(tmp_path, small).values()
    assert row(group, "sick heads").paper == (44,) and row(group, "sick heads").measured == (25.0,)
    assert groups(tmp_path / "demo", story.ONE_PASS) == {}


def test_the_report_marks_the_papers_figures_as_the_papers(tmp_path):
    files = render(gather(story.tell(tmp_path / "story", session())))
    text = files["report.md"]
    assert "## Beside the paper" in text and "nothing in them was measured here" in text
    assert text.count("|  | the paper's | measured here |") == 6
    assert "| healthy heads | 242 | 288 |" in text
    assert "| outside: mean \\|δ\\| | 0.0426 / 0.0310 / 0.0398 | 0.0310 |" in text
    assert "| parameters of the tensors that hold a slice | 302 million | 301 996 800 |" in text
    assert "| 15.4 / 20.80 / 36.31 | 66.69 |" in text
    assert "the paper&#39;s" in files["report.html"] and "Beside the paper" in files["report.tex"]
    plain = render(gather(story.tell(tmp_path / "demo", story.ONE_PASS)))
    assert "paper" not in plain["report.md"]
