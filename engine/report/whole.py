"""The sections of a report that are about the session as a whole."""

from __future__ import annotations

from engine.heads import CLASSES, uniform_bos_mass
from engine.report.blocks import Block, Facts, Figure, Figures, Heading, Paragraph, Table
from engine.report.grid import head_grid
from engine.report.histogram import histogram
from engine.report.material import Material
from engine.report.words import Code, Text, grouped, percent, quoted, share, stage_name
from engine.tables import DiagnosisTable, PatientTable


def opening(m: Material) -> list[Block]:
    """Title and the session's own facts."""
    session = m.record.session
    passes = ", ".join(f"pass {p.number} {p.outcome}" for p in m.record.passes) or "none yet"
    return [
        Heading(1, ["Head surgery on ", Code(session.model)]),
        Facts(
            [
                ("session", [Code(session.id)]),
                ("state", [session.state]),
                ("passes", [passes]),
                ("begun", [session.created]),
                ("last entry", [session.updated]),
                ("headsurgeon", [session.headsurgeon]),
            ]
        ),
    ]


def how_to_read(m: Material) -> list[Block]:
    """What the figures say, and what they do not."""
    stock = m.maps.get("stock")
    baseline = (
        f" Uniform attention over all tokens so far would score {stock.uniform():.3f} on these texts."
        if stock and stock.texts
        else ""
    )
    return [
        Heading(2, ["How to read this"]),
        Paragraph(
            [
                "BOS mass is the share of a head's attention that goes to the first token, averaged over all "
                "query positions of a text (the first included) and then over the texts." + baseline + " Entropy is "
                "averaged in the same way, in nats. A head is borderline when the 95 % interval of its BOS mass over "
                "the texts holds a threshold: other texts may give it another class."
            ]
        ),
        Paragraph(
            [
                "A count of heads below a threshold proves little: a freshly reinitialised head is below it before "
                "any training, while its output columns are still zero and it adds nothing. So each pass states "
                "three things apart: woken at the cut, woken after training, and working, which is what the "
                "held-out loss loses when the targets' output columns are zeroed together. Whether a pass was worth "
                "it is for the reader to judge, by that loss, by the perplexities and by the drift of the heads "
                "that were left alone."
            ]
        ),
    ]


def patient(m: Material) -> list[Block]:
    """Who was operated on."""
    table = m.record.patient
    if table is None:
        return [Heading(2, ["Patient"]), Paragraph(["Not loaded yet: ", Code(m.record.session.model)])]
    revision: Text = [", revision ", Code(table.revision)] if table.revision else []
    return [
        Heading(2, ["Patient"]),
        Facts(
            [
                ("name", [Code(m.record.session.model)]),
                ("source", [Code(table.source), *revision]),
                ("weights sha256", [Code(table.weights_sha256)]),
                ("family", [Code(table.family)]),
                ("shape", [_shape(table)]),
                ("parameters", [grouped(table.parameters)]),
                ("positions", [_positions(table)]),
                ("dtype and device", [Code(table.dtype), " on ", Code(table.device)]),
                *([("weights", [table.stored])] if table.stored else []),
            ]
        ),
    ]


def _shape(t: PatientTable) -> str:
    key_values = f" ({t.n_kv_heads} of keys and values)" if t.n_kv_heads != t.n_heads else ""
    return (
        f"{t.n_layers} layers × {t.n_heads} heads{key_values}, width {t.d_model}, head size {t.d_head}, "
        f"vocabulary {grouped(t.vocabulary)}, context {grouped(t.context)}"
    )


def _positions(t: PatientTable) -> str:
    if not t.slopes:
        return t.position_encoding
    return (
        f"{t.position_encoding}, slope {t.slopes[0]:.4f} at H0 to {t.slopes[-1]:.4f} at H{len(t.slopes) - 1} "
        "(a gentle slope still sees the first token from afar)"
    )


def measured_on(m: Material) -> list[Block]:
    """Texts and thresholds: what every class rests on."""
    stock = m.maps.get("stock")
    if stock is None:
        return []
    t = m.thresholds
    rows: list[list[Text]] = [
        [[Code(x.name)], [grouped(x.tokens)], [quoted(x.first_token)], [f"{uniform_bos_mass(max(1, x.tokens)):.3f}"]]
        for x in stock.texts
    ]
    return [
        Heading(2, ["What it was measured on"]),
        Paragraph([f"{len(stock.texts)} texts, {grouped(stock.tokens)} tokens; each text counts once."]),
        Table(["text", "tokens", "token at position 0", "BOS mass of uniform attention"], rows),
        Heading(3, ["Thresholds"]),
        Facts(
            [
                ("dead", [f"BOS mass > {t.dead:g}"]),
                ("bos_sink", [f"BOS mass > {t.bos_sink:g}, not dead"]),
                ("low_entropy", [f"neither, entropy < {t.low_entropy:g} nats"]),
                ("healthy", ["all others"]),
                ("sick", ["bos_sink or dead"]),
                ("band", [f"head indices that are sick in more than {100 * t.band_rate:g} % of the layers, in a row"]),
                ("drifting", [f"BOS mass moved by more than {t.drift:g}"]),
                ("spreading", [f"a column's mean |δ| rose by more than {t.spread:g} from first to last check"]),
            ]
        ),
    ]


def heads(m: Material) -> list[Block]:
    """Counts of every diagnosis side by side, and the grids."""
    if not m.maps:
        return []
    stages = [(stage_name(stage), table) for stage, table in m.record.diagnosis.items()]
    return [
        Heading(2, ["Heads"]),
        Table(["", *(name for name, _ in stages)], _head_rows([table for _, table in stages], m.heads)),
        Figures([stock_grid(m), _stock_histogram(m)]),
    ]


def _head_rows(tables: list[DiagnosisTable], total: int) -> list[list[Text]]:
    limits = list(tables[0].sensitivity)
    columns: list[tuple[Text, list[str]]] = [
        *(([Code(name)], [share(t.counts[name], total) for t in tables]) for name in CLASSES),
        (["sick band"], [f"H{t.band[0]}–H{t.band[-1]}" if t.band else "none" for t in tables]),
        (
            [f"sick, were the threshold {' / '.join(limits)}"],
            [" / ".join(grouped(t.sensitivity[limit]) for limit in limits) for t in tables],
        ),
        (["borderline"], [grouped(t.borderline) for t in tables]),
    ]
    if any(t.mlp_dormancy is not None for t in tables):
        columns.append((["dormant MLP neurons"], [percent(t.mlp_dormancy, 2) for t in tables]))
    return [[label, *([cell] for cell in cells)] for label, cells in columns]


def stock_grid(m: Material) -> Figure:
    """The head grid before any pass."""
    rows = m.maps["stock"].bos_mass
    svg = head_grid(rows, (), "BOS mass, stock", m.thresholds)
    return Figure("grid-stock.svg", svg, "Every head of the model as loaded, coloured by BOS mass.")


def _stock_histogram(m: Material) -> Figure:
    """How many heads have how much BOS mass, before any pass."""
    svg = histogram([("stock", m.maps["stock"].bos_mass)], "BOS mass of all heads, stock", m.thresholds)
    caption = "Heads of the model as loaded per twentieth of BOS mass; the dashed lines are where the classes begin."
    return Figure("histogram-stock.svg", svg, caption)


def closing(m: Material) -> list[Block]:
    """The operator's notes and the versions."""
    blocks: list[Block] = []
    if m.record.note:
        notes: list[tuple[str, Text]] = [
            (n.get("time", ""), [" ".join(n.get("text", "").split())]) for n in m.record.note
        ]
        blocks += [Heading(2, ["Notes"]), Facts(notes)]
    if m.record.environment:
        versions: list[tuple[str, Text]] = [
            (name, [Code(v) if v else "none"]) for name, v in m.record.environment.items()
        ]
        blocks += [Heading(2, ["Environment"]), Facts(versions)]
    return blocks
