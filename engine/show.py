"""What the headless commands print: grids, counts and records as plain text and JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine import events
from engine.generation import averages
from engine.heads import Head, HeadMap
from engine.journal import Entry
from engine.preflight import Preflight
from engine.printable import printable, size
from engine.tables import PassTable, Record
from engine.treatments import named


def diagnosis_json(patient: events.Loaded, m: HeadMap) -> dict[str, Any]:
    """``diagnose --json``."""
    band = m.band()
    mean, last = m.distances()
    return {
        "model": patient.source,
        "family": patient.family,
        "n_layers": m.n_layers,
        "n_heads": m.n_heads,
        "dtype": patient.dtype,
        "weights_sha256": patient.weights_sha256,
        **({"stored": patient.stored} if patient.stored else {}),
        "thresholds": asdict(m.thresholds),
        "texts": [{**asdict(text), "uniform_bos_mass": round(text.uniform, 6)} for text in m.texts],
        "tokens": m.tokens,
        "uniform_bos_mass": round(m.uniform(), 6),
        "mean_distance": round(mean, 6),
        "last_distance": last,
        "counts": m.counts(),
        "sensitivity": m.sensitivity(),
        "band": list(band) if band else None,
        **({"windows": m.windows, "reach": [round(m.reach(i), 6) for i in range(m.n_layers)]} if m.windows else {}),
        "heads": [
            {
                "layer": head.layer,
                "head": head.head,
                "bos_mass": m.mass(head),
                "bos_interval": list(m.interval(head)),
                "entropy": m.entropy[head.layer][head.head],
                "entropy_interval": list(m.entropy_interval(head)),
                **({"sink_mass": m.sink_mass[head.layer][head.head]} if m.sink_mass else {}),
                "class": m.class_of(head),
                "borderline": m.is_borderline(head),
                **_slope(patient, head, mean, last),
            }
            for head in m.heads()
        ],
    }


def _slope(patient: events.Loaded, head: Head, mean: float, last: int) -> dict[str, float]:
    """A head's ALiBi slope and what it takes off a score, in nats, 100 tokens away, and as far away as
    position 0 is on the mean and at the most; empty where the model has other positions."""
    if not patient.slopes:
        return {}
    slope = patient.slopes[head.head]
    at = {"penalty_at_100": 100, "penalty_at_mean": mean, "penalty_at_last": last}
    return {"slope": round(slope, 6), **{name: round(slope * distance, 4) for name, distance in at.items()}}


def _slopes_text(patient: events.Loaded, m: HeadMap) -> list[str]:
    if not patient.slopes:
        return []
    at = (100.0, *m.distances())
    heading = "".join(f"{f'at {distance:.0f}':>9}" for distance in at)
    lines = [f"ALiBi slope per head index, and nats it takes off a key so many tokens away ({at[1]:.0f} is the mean"]
    lines += [f"distance to position 0 in these texts, {at[2]:.0f} the longest)", f"       {'slope':>8}{heading}"]
    for index, slope in enumerate(patient.slopes):
        lines.append(f"{f'H{index}':<6} {slope:>8.4f}" + "".join(f"{-slope * distance:>9.2f}" for distance in at))
    return lines


def _texts_text(patient: events.Loaded, m: HeadMap) -> list[str]:
    lengths = [text.tokens for text in m.texts]
    firsts = ", ".join(f"“{printable(t)}”" for t in dict.fromkeys(text.first_token for text in m.texts))
    span = f"{min(lengths)}–{max(lengths)}" if min(lengths) < max(lengths) else str(lengths[0])
    lines = [f"{len(lengths)} {'text' if len(lengths) == 1 else 'texts'} of {span} tokens; position 0 held {firsts}"]
    full = sum(length >= patient.context for length in lengths)
    if full:
        lines.append(f"{full} of them fill the context of {patient.context} tokens; a longer text is cut there")
    return lines


def _uniform_text(m: HeadMap) -> str:
    short, long = min(m.texts, key=lambda t: t.tokens), max(m.texts, key=lambda t: t.tokens)
    ends = f" ({short.uniform:.3f} on {short.tokens} tokens, {long.uniform:.3f} on {long.tokens})"
    return f"BOS mass of uniform attention on these texts: {m.uniform():.3f}" + (ends if short != long else "")


def _reach_text(m: HeadMap) -> list[str]:
    """Layers where position 0 lies out of the window of some query rows."""
    short = [layer for layer in range(m.n_layers) if m.reach(layer) < 1]
    if not short:
        return []
    worst = min(short, key=m.reach)
    windows = sorted({m.window(layer) for layer in short})
    return [
        f"{', '.join(f'L{layer}' for layer in short)} see {' or '.join(map(str, windows))} tokens back: from up to "
        f"{100 * (1 - m.reach(worst)):.1f} % of their query rows position 0 is not",
        f"reachable; BOS mass there is the mean over the other rows, on which uniform attention scores "
        f"{m.uniform(worst):.3f}",
    ]


def _sink_text(m: HeadMap) -> list[str]:
    """How much the sink logits take, apart from the keys."""
    if not m.sink_mass:
        return []
    most = max(m.heads(), key=lambda head: m.sink_mass[head.layer][head.head])
    flat = [mass for row in m.sink_mass for mass in row]
    return [
        f"sink logits take {sum(flat) / len(flat):.3f} of the attention on the mean, "
        f"most on {most} ({max(flat):.3f}); keys and sink sum to 1"
    ]


def grid_text(m: HeadMap) -> list[str]:
    """One row per layer; a cell is the first decimal of the BOS mass, ``D`` for dead, ``.`` below 0.1."""
    lines = ["       " + "".join(f"{f'H{h}':<4}" for h in range(0, m.n_heads, 4))]
    for layer in range(m.n_layers):
        cells = ""
        for index in range(m.n_heads):
            head = Head(layer, index)
            mass = m.mass(head)
            cells += "D" if m.class_of(head) == "dead" else "." if mass < 0.1 else str(min(9, int(mass * 10)))
        lines.append(f"{f'L{layer}':<6} {cells}")
    return lines


def diagnosis_text(patient: events.Loaded, m: HeadMap) -> str:
    """``diagnose`` for people."""
    counts, total = m.counts(), m.n_layers * m.n_heads
    band = m.band()
    why = "an interval over texts holds a threshold" if len(m.texts) > 1 else "one text has no interval"
    return "\n".join(
        [
            f"{printable(patient.source)}: {patient.family}, {m.n_layers} layers × {m.n_heads} heads, {patient.dtype}",
            *([printable(patient.stored)] if patient.stored else []),
            *_texts_text(patient, m),
            "",
            *grid_text(m),
            "",
            *(f"{name:<12} {n:>4}  {100 * n / total:5.1f} %" for name, n in counts.items()),
            f"{'borderline':<12} {sum(map(m.is_borderline, m.heads())):>4}  ({why})",
            "band         " + (f"H{band[0]}–H{band[1]}" if band else "none"),
            "sick at      " + ", ".join(f"{limit}: {n}" for limit, n in m.sensitivity().items()),
            _uniform_text(m),
            *_reach_text(m),
            *_sink_text(m),
            "",
            *_slopes_text(patient, m),
        ]
    ).rstrip()


def preflight_json(p: Preflight) -> dict[str, Any]:
    """``preflight --json``."""
    flat = {name: value for name, value in asdict(p).items() if value != ""}
    zone = {
        "layers": list(flat.pop("zone_layers")),
        "heads": list(flat.pop("zone_heads")),
        "in_band_frozen": flat.pop("in_band_frozen"),
        "outside": flat.pop("outside"),
    }
    return {**flat, "zone": zone}


def preflight_text(p: Preflight, free: int) -> str:
    """``preflight`` for people; ``free`` bytes of memory are there on this machine."""
    share = 100 * p.trained_parameters / p.total_parameters
    touched = 100 * p.touched_tensor_parameters / p.total_parameters
    layers, heads = p.zone_layers, p.zone_heads
    return "\n".join(
        [
            f"{p.targets} targets in L{layers[0]}–L{layers[1]} × H{heads[0]}–H{heads[1]}",
            f"{p.in_band_frozen} in-band frozen, {p.outside} outside",
            f"trained {p.trained_parameters:,} of {p.total_parameters:,} parameters ({share:.2f} %)",
            f"in touched tensors {p.touched_tensor_parameters:,} ({touched:.2f} %)",
            *([f"their sink logits {p.sink_logits}"] if p.sink_logits else []),
            f"memory about {p.memory_bytes / 1e9:.1f} GB ({free / 1e9:.1f} GB of RAM are free here), "
            f"disk about {p.disk_bytes / 1e6:.0f} MB",
        ]
    )


def entry_line(entry: Entry) -> str:
    """An event as a line of progress; empty for those that need none."""
    match entry.event:
        case events.Loaded() as e:
            how = f", {printable(e.stored)}" if e.stored else ""
            return f"loaded {printable(e.source)}: {e.n_layers}×{e.n_heads} heads, {e.dtype} on {e.device}{how}"
        case events.Diagnosed() as e:
            return f"{e.stage}: " + ", ".join(f"{n} {name}" for name, n in e.head_map.counts().items())
        case events.PassStarted() as e:
            said = f"; their sink logits {e.sink_logits}" if e.sink_logits else ""
            token = f"; {printable(repr(e.placeholder_text))} before every text" if e.placeholder is not None else ""
            done = e.plan.get("treatment", "reinitialise")
            how = "" if done == "reinitialise" else f", {named(done)}"
            return (
                f"pass {e.number}{how}: {len(e.target_heads)} targets, {e.trained_parameters:,} parameters, "
                f"{e.steps} steps{said}{token}"
            )
        case events.Resumed() as e:
            return f"pass {e.number} goes on from step {e.step}"
        case events.Cut() as e:
            return f"cut: {e.woken} woken before any training, held-out perplexity {e.heldout_perplexity:.2f}"
        case events.Check() as e:
            best = ", best so far" if e.best else ""
            return (
                f"step {e.step}: loss {e.train_loss:.3f}, held-out perplexity {e.heldout_perplexity:.2f}, "
                f"woken {e.woken}{best}"
            )
        case events.Changed() as e:
            values = ", ".join(f"{name} {value}" for name, value in e.values.items())
            return printable(f"pass {e.number}, from step {e.step + 1} on: {values}")
        case events.OutOfMemory() as e:
            return f"pass {e.number}: step {e.step + 1} did not fit into memory with micro-batch {e.micro_batch}"
        case events.Generated() as e:
            figures = averages(e.continuations)
            repeated = f"{100 * figures['repeated_ngrams']:.1f} % of their 4-grams repeated"
            return f"{printable(e.stage)}: wrote {len(e.continuations)} texts, {repeated}"
        case events.Contributed() as e:
            worth, head = max((nats, Head(i, j)) for i, row in enumerate(e.rows) for j, nats in enumerate(row))
            return f"{printable(e.stage)}: worth most by itself is {head}, {worth:+.4f} nats on {printable(e.text)}"
        case events.PassEnded() as e:
            return f"pass {e.number} {e.outcome}: kept step {e.kept_step}, perplexity {e.heldout_perplexity:.2f}"
        case events.Refused() | events.Failed() as e:
            return printable(e.message)
    return ""


def record_text(record: Record, folder: Path) -> str:
    """What a session came to, for people: figures, no verdict."""
    lines = [f"session {printable(str(folder))}"]
    stages = list(record.diagnosis.items())
    if stages:
        lines.append(f"healthy {stages[0][1].counts['healthy']} → {stages[-1][1].counts['healthy']}")
    for p in record.passes:
        done = "" if p.treatment == "reinitialise" else f", {named(p.treatment)}"
        lines.append(f"pass {p.number}, {p.outcome}{done}: {len(p.target_heads)} targets ({printable(p.targets)})")
        if p.frozen_sha256_after is None:
            continue
        if p.sink_logits:
            lines.append(f"  their sink logits {printable(p.sink_logits)}")
        n, watched = len(p.target_heads), p.perplexity_after or {}
        same = "unchanged" if p.frozen_sha256_after == p.frozen_sha256_before else "CHANGED"
        lines += [
            f"  woken at the cut {p.woken_at_cut}/{n}, after training {p.woken}/{n}",
            *(
                [f"  sink logits take {p.sink_mass_after:.3f} of the targets' weight on average"]
                if p.sink_mass_after is not None
                else []
            ),
            f"  working: ablating the targets costs {p.ablation_loss_stock:.3f} → {p.ablation_loss_after:.3f} nats",
            f"  held-out perplexity {p.heldout_perplexity_stock:.2f} → {p.heldout_perplexity:.2f} (step {p.best_step})",
            *_sources_text(p),
            *(
                f"  {printable(name)}: perplexity {before:.2f} → {watched.get(name, float('nan')):.2f}"
                for name, before in p.perplexity_stock.items()
            ),
            *_written_text(record, f"pass-{p.number}"),
            *_memory_text(p),
            f"  everything outside the slices: {same}",
        ]
    return "\n".join(lines)


def _sources_text(p: PassTable) -> list[str]:
    after = p.heldout_sources_after or {}
    sides = [
        f"{printable(name)} {stock:.2f} → {after[name]:.2f}"
        for name, stock in p.heldout_sources_stock.items()
        if name in after
    ]
    return ["  of it " + ", ".join(sides)] if len(sides) > 1 else []


def _written_text(record: Record, stage: str) -> list[str]:
    stages = [record.generation.get(name) for name in ("stock", stage)]
    if not all(table and table.text for table in stages):
        return []
    texts = [table.text for table in stages if table]
    shares = [
        ("repeated 4-grams", [sum(t.repeated_ngrams for t in side) / len(side) for side in texts]),
        ("code or markup unasked in", [sum(t.code or bool(t.markup) for t in side) / len(side) for side in texts]),
        ("other language in", [sum(t.language_switched for t in side) / len(side) for side in texts]),
    ]
    told = [f"{name} {100 * before:.1f} → {100 * after:.1f} %" for name, (before, after) in shares]
    return ["  its texts: " + ", ".join(told)]


def _memory_text(p: PassTable) -> list[str]:
    if not p.memory_bytes_peak:
        return []
    estimated = f", estimated {size(p.memory_bytes_estimated)}" if p.memory_bytes_estimated else ""
    return [f"  memory at its peak {size(p.memory_bytes_peak)}{estimated}"]


def sessions_text(rows: list[dict[str, Any]]) -> str:
    """``sessions`` for people."""
    if not rows:
        return "no sessions yet"
    lines = []
    for row in rows:
        if "error" in row:
            lines.append(f"{printable(row['id']):<44} unreadable: {printable(row['error'])}")
            continue
        before, after = row["healthy_before"], row["healthy_after"]
        healthy = "" if before is None else f"{before} healthy" if after is None else f"{before} → {after} healthy"
        name, patient, state = (printable(row[key]) for key in ("id", "patient", "state"))
        lines.append(f"{name:<44} {patient:<24} {state:<10} {healthy}")
    return "\n".join(lines)
