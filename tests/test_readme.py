from __future__ import annotations

import re
from pathlib import Path
from statistics import mean, stdev

from engine.record import load
from engine.session import Session
from engine.tables import PassTable
from tui.commands import key_table

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
SESSIONS = Path(__file__).parents[1] / "sessions"


def test_the_key_table_is_the_programs_own() -> None:
    assert key_table() in README


def test_every_make_target_and_file_it_names_exists() -> None:
    root = Path(__file__).parents[1]
    makefile = (root / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in set(re.findall(r"`((?:engine|tui|tests|benchmarks|sessions)/[\w./-]+)`", README)):
        assert (root / path).exists(), path


def test_the_claims_stand_on_the_committed_trials() -> None:
    """Every figure of the table that an arm's record holds, worked out anew."""
    table = README.split("### The paper's claims, on the demo patient")[1].split("\n## ")[0]

    def passes(trial: str, arm: str) -> list[PassTable]:
        (folder,) = SESSIONS.glob(f"*-{trial}-demo-*/{arm}")
        return load(Session(folder)).passes

    def last(trial: str, arm: str) -> PassTable:
        return passes(trial, arm)[-1]

    def over_seeds(arm: str, name: str, digits: int) -> str:
        values = [float(getattr(last("gradients-only", f"{arm}-{seed}"), name)) for seed in (42, 43, 44)]
        return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"

    first, second = passes("two-passes", "two-passes")
    a, b = last("two-corpora", "corpus-a"), last("two-corpora", "corpus-b")
    other = {of: (p.perplexity_after or {})[f"demo:{of}.txt (held out)"] for p, of in ((a, "devil"), (b, "bible"))}
    after = [p.perplexity_after or {} for p in (a, b)]
    austen, code = ([found[f"demo:heldout-{name}.txt"] for found in after] for name in ("austen", "code"))
    (folder,) = SESSIONS.glob("*-two-passes-demo-*/two-passes")
    healthy = [found.counts["healthy"] / 48 for found in load(Session(folder)).diagnosis.values()]
    relapse = [check for arm in ("same-corpus", "what-it-was-pretrained-on") for check in last("relapse", arm).check]
    told = [
        f"{first.woken} of {len(first.target_heads)}, and all {first.woken_at_cut} at the cut",
        " → ".join(f"{100 * share:.1f} %".replace("100.0", "100") for share in healthy),
        f"at 1e-3 {over_seeds('gradients-only', 'woken', 1)} of 19",
        f"−0.020 → {over_seeds('reinitialised', 'ablation_loss_after', 3)} nats",
        f"comes to {over_seeds('gradients-only', 'ablation_loss_after', 3)} as well",
        f"perplexity {over_seeds('reinitialised', 'heldout_perplexity', 2)}, "
        f"control {over_seeds('gradients-only', 'heldout_perplexity', 2)}",
        f"{a.woken} of 19 on the Bible, {b.woken} of 19 on the Devil's Dictionary",
        f"on the Bible {a.heldout_perplexity:.2f} and {other['bible']:.2f}",
        f"on the Dictionary {other['devil']:.2f} and {b.heldout_perplexity:.2f}",
        f"→ {austen[0]:.2f} and {austen[1]:.2f}, code 15.01 → {code[0]:.2f} and {code[1]:.2f}",
        f"{last('healthy-column', 'band-and-h3').heldout_perplexity:.2f} against "
        f"{last('healthy-column', 'band').heldout_perplexity:.2f} for the band alone",
    ]
    assert [figure for figure in told if figure not in table] == []
    assert second.woken == len(second.target_heads)
    assert {check.woken for check in relapse} == {19}


def test_the_table_of_treatments_stands_on_the_committed_trial() -> None:
    (trial,) = SESSIONS.glob("*-treatments-demo-*")
    rows = []
    for arm in ("nothing", "prune", "sink-logit", "placeholder", "reinitialise"):
        (p,) = load(Session(trial / arm)).passes
        other = p.perplexity_after or {}
        logits = "" if p.sink_mass_after is None else f"{p.sink_mass_after:.3f} "
        watched = " | ".join(f"{other[f'demo:heldout-{text}.txt']:.2f}" for text in ("austen", "code"))
        worth = f"{p.ablation_loss_after:.3f} nats".replace("-", "−")
        rows.append(
            f"| {arm.replace('-', ' ')} | {p.trained_parameters:,} | {p.woken} | {logits}| "
            f"{p.heldout_perplexity:.2f} | {watched} | {worth} |"
        )
    assert [row for row in rows if row not in README] == []


def test_the_table_of_streaming_stands_on_the_committed_session() -> None:
    record = load(Session(SESSIONS / "2026-11-30-demo-f0d0"))
    stock, after = ({(arm.kind, arm.anchors): arm for arm in read.arm} for read in record.stream)
    assert [read.stage for read in record.stream] == ["stock", "pass-1"]
    rows = []
    for how, name in {
        ("full", 0): "full attention",
        ("anchors", 0): "window alone",
        ("recomputed", 0): "window recomputed",
    }.items():
        cells = []
        for by in (stock, after):
            rate = by[how].tokens_per_second
            cells += [f"{by[how].perplexity:.2f}", f"{rate:.0f} ({rate / by['recomputed', 0].tokens_per_second:.1f} ×)"]
        cache = f"{stock[how].cache_bytes:,} B" if stock[how].cache_bytes else "none"
        rows.append(f"| {name} | {' | '.join(cells)} | {cache} |")
    for anchors in (1, 2, 4, 8):
        cells = [f"{by['anchors', anchors].perplexity:.2f}" for by in (stock, after)]
        (row,) = (line for line in README.splitlines() if re.match(rf"\| {anchors} anchors? \+ window \|", line))
        assert all(cell in row for cell in cells)
    assert [row for row in rows if row not in README] == []
    lost = [by["anchors", 0].perplexity / by["anchors", 8].perplexity - 1 for by in (stock, after)]
    assert f"+{100 * lost[0]:.0f} %" in README and f"(+{100 * lost[1]:.1f} %)" in README
