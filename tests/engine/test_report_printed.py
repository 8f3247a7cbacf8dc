"""What the headless commands print of a session: its summary, and a line per event."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine import events
from engine.chart import read_chart
from engine.journal import Entry
from engine.record import build
from engine.show import entry_line, record_text
from tests.engine import story


def summary_of(tmp_path, told) -> list[str]:
    chart = read_chart(story.tell(tmp_path / "story", told, keep_record=False))
    return record_text(build(chart), Path("sessions/story")).splitlines()


def test_the_summary_of_a_whole_pass(tmp_path):
    assert summary_of(tmp_path, story.WHOLE_PASS) == [
        "session sessions/story",
        "healthy 6 → 8",
        "pass 1, completed: 2 targets (L1 x H2-3)",
        "  woken at the cut 2/2, after training 2/2",
        "  working: ablating the targets costs 0.030 → 0.744 nats",
        "  held-out perplexity 128.98 → 55.20 (step 40)",
        "  of it bible.txt 140.00 → 60.00, birds.txt 90.00 → 40.00",
        "  austen: perplexity 18.51 → 27.20",
        "  its texts: repeated 4-grams 0.0 → 0.0 %, code or markup unasked in 0.0 → 50.0 %, "
        "other language in 0.0 → 0.0 %",
        "  memory at its peak 1.3 GB, estimated 1.2 GB",
        "  everything outside the slices: unchanged",
    ]


def test_the_summary_of_an_older_record_is_shorter(tmp_path):
    lines = summary_of(tmp_path, story.ONE_PASS)
    assert len(lines) == 8 and not any(word in line for line in lines for word in ("texts", "memory", "of it"))


def test_names_from_outside_are_only_shown(tmp_path):
    told = [*story.DIAGNOSED, replace(story.started(), perplexity_stock={"\x1b[2J": 18.0}), story.cut(), story.ended()]
    assert any(line.startswith("  \\x1b[2J: perplexity 18.00") for line in summary_of(tmp_path, told))


STILL = events.OutOfMemory(
    number=1, step=4, micro_batch=8, accumulate=1, offered_micro_batch=4, offered_accumulate=2, checkpointing=False
)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (story.generated(), "stock: wrote 2 texts, 0.0 % of their 4-grams repeated"),
        (story.generated("pass-1", " no no no no no"), "pass-1: wrote 2 texts, 25.0 % of their 4-grams repeated"),
        (story.contributed(), "stock: worth most by itself is L1-H3, +0.0097 nats on bible.txt"),
        (
            replace(story.contributed(), text="\x1b[2J"),
            "stock: worth most by itself is L1-H3, +0.0097 nats on \\x1b[2J",
        ),
        (STILL, "pass 1: step 5 did not fit into memory with micro-batch 8"),
        (
            events.Changed(number=1, step=20, values={"micro_batch": 2, "accumulate": 4}),
            "pass 1, from step 21 on: micro_batch 2, accumulate 4",
        ),
        (events.Progress(what="diagnosing", done=1, total=2), ""),
        (story.step(1), ""),
    ],
)
def test_an_event_as_a_line(event, line):
    assert entry_line(Entry(1, "", event)) == line
