"""The map of these tests, four layers of five heads; intervals reach 0.05 to both sides:

          H0    H1    H2    H3    H4
    L0   0.10  0.20  0.10  0.30  0.20
    L1   0.60  0.20  0.40  0.70  0.97
    L2   0.10  0.20  0.50  0.55  0.96
    L3   0.10  0.20  0.10  0.30  0.60

Sick layers per column are 1, 0, 0, 2 and 3 of 4, so the band is H3-H4 and its sick heads span L1-L3.
"""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import ExpressionError, InputError
from engine.heads import Head, HeadMap
from engine.targets import DEEPEST, Model, needs_head_map, resolve, write, zone_of, zones

MASS = [
    [0.10, 0.20, 0.10, 0.30, 0.20],
    [0.60, 0.20, 0.40, 0.70, 0.97],
    [0.10, 0.20, 0.50, 0.55, 0.96],
    [0.10, 0.20, 0.10, 0.30, 0.60],
]
ENTROPY = [[0.4 if head == 1 and layer < 2 else 1.5 for head in range(5)] for layer in range(4)]
MAP = HeadMap(
    MASS,
    ENTROPY,
    bos_low=[[round(m - 0.05, 6) for m in row] for row in MASS],
    bos_high=[[round(m + 0.05, 6) for m in row] for row in MASS],
)
MODEL = Model.of(MAP)
BLOOM = Model(24, 16)


def chosen(expression: str, model: Model = MODEL) -> list[str]:
    return [str(head) for head in resolve(expression, model)]


@pytest.mark.parametrize(
    ("expression", "heads"),
    [
        ("dead", ["L1-H4", "L2-H4"]),
        ("bos_sink", ["L1-H0", "L1-H3", "L2-H3", "L3-H4"]),
        ("sick & !dead & !bos_sink | L0-H0", ["L0-H0"]),
        ("low_entropy", ["L0-H1", "L1-H1"]),
        ("borderline", ["L1-H4", "L2-H2", "L2-H3", "L2-H4"]),
        ("sick & !band", ["L1-H0"]),
        ("L0 & band", ["L0-H3", "L0-H4"]),
        ("band & !zone", ["L0-H3", "L0-H4"]),
        ("L1-2 x H2-3", ["L1-H2", "L1-H3", "L2-H2", "L2-H3"]),
        ("L3-H4", ["L3-H4"]),
        ("H2 & L0-1", ["L0-H2", "L1-H2"]),
        ("bos>0.6", ["L1-H3", "L1-H4", "L2-H4"]),
        ("bos >= .60", ["L1-H0", "L1-H3", "L1-H4", "L2-H4", "L3-H4"]),
        ("entropy<0.5 & bos<=0.2", ["L0-H1", "L1-H1"]),
        ("L1 & (sick & band | H1)", ["L1-H1", "L1-H3", "L1-H4"]),
        ("L0-H0 | L1-H1 & L2-H2", ["L0-H0"]),  # & binds tighter than |
        ("!L0-2 x H0", ["L3-H0"]),  # and ! tighter than x
        ("  dead\n&\tL1 ", ["L1-H4"]),
    ],
)
def test_expressions(expression, heads):
    assert chosen(expression) == heads


def test_healthy_and_sick_and_low_entropy_are_all():
    assert set(chosen("healthy | sick | low_entropy")) == set(chosen("all"))
    assert len(chosen("all")) == 20


PASS_1 = (
    "L5 x H14-15 | L6 x H9-15 | L7 x H9-14 | L8 x H11-15 | L9 x H9-15 | L10 x H9-15 | L11 x H10-15 | L12 x H9-15 | "
    "L13 x H9-15 | L14 x (H9-11 | H13-15) | L15 x (H9 | H11 | H12 | H14 | H15) | L16 x H10-15 | L17 x H9-14 | "
    "L18 x H9-15 | L19 x H9-15 | L20 x H9-15 | L21 x H9-13 | L22 x (H9-11 | H13 | H14)"
)


def test_the_first_pass_on_bloom_1b7():
    targets = resolve(PASS_1, BLOOM)
    assert len(targets) == 108
    assert zone_of(targets) == ((5, 22), (9, 15))
    _, frozen, outside = zones(targets, BLOOM)
    assert (len(frozen), len(outside)) == (18, 258)
    assert len(resolve(f"{PASS_1} | L5-22 x H5", BLOOM)) == 126


def test_zones_split_all_heads():
    targets = resolve("L1-H3 | L2-H4", MODEL)
    chosen_, frozen, outside = zones(targets, MODEL)
    assert sorted(frozen) == [Head(1, 4), Head(2, 3)]
    assert chosen_ | frozen | outside == MODEL.all
    assert len(chosen_) + len(frozen) + len(outside) == 20


def test_what_an_earlier_pass_changed_was_not_left_alone():
    earlier = frozenset({Head(1, 3), Head(1, 4), Head(0, 0)})
    chosen_, frozen, outside = zones(resolve("L1-H3 | L2-H4", MODEL), MODEL, earlier)
    assert sorted(chosen_) == [Head(1, 3), Head(2, 4)]
    assert sorted(frozen) == [Head(2, 3)]
    assert Head(0, 0) not in outside and len(outside) == 15


@pytest.mark.parametrize(
    ("expression", "position", "says"),
    [
        ("", 0, "nothing is written"),
        ("   ", 3, "nothing is written"),
        ("sick &", 6, "something is missing at the end"),
        ("sick & & dead", 7, "expected a set of heads"),
        ("sick dead", 5, "expected & or |"),
        ("sick $ dead", 5, "cannot read '$ dead'"),
        ("(sick", 5, "not closed"),
        ("sick)", 4, "expected & or |"),
        ("nonsense", 0, "unknown set 'nonsense'"),
        ("sick & L4", 7, "there is no layer 4, they go from L0 to L3"),
        ("H3-5", 0, "there is no head 5, they go from H0 to H4"),
        ("L1-H7", 0, "there is no head 7"),
        ("L2-1", 0, "counts backwards"),
        ("L9999999", 0, ""),
        ("bos>", 3, "cannot read '>'"),
    ],
)
def test_a_wrong_expression_is_answered_with_its_place(expression, position, says):
    with pytest.raises(ExpressionError, match="targets") as caught:
        resolve(expression, MODEL)
    assert says in str(caught.value)
    assert caught.value.position == position or not says


def test_nothing_selected_is_wrong_input_too():
    with pytest.raises(InputError, match="select no head"):
        resolve("dead & L0", MODEL)


def test_no_band_selects_nothing():
    flat = Model.of(HeadMap([[0.1, 0.1]], [[1.0, 1.0]]))
    with pytest.raises(InputError, match="select no head"):
        resolve("band | zone", flat)


@pytest.mark.parametrize("expression", ["sick", "L1 & band", "bos>0.4", "entropy<1"])
def test_classes_and_figures_need_a_diagnosis(expression):
    assert needs_head_map(expression)
    with pytest.raises(ExpressionError, match="needs a diagnosis"):
        resolve(expression, Model(4, 5))


def test_ranges_need_none():
    assert not needs_head_map("L1-2 x H3 | all")
    assert len(resolve("L1-2 x H3 | L0-H0", Model(4, 5))) == 3


@pytest.mark.parametrize("sign", ["(", "!"])
def test_nesting_without_end_is_refused_in_words(sign):
    assert chosen("!" * DEEPEST + "L0-H0")  # as deep as is allowed
    with pytest.raises(ExpressionError, match="within one another"):
        resolve(sign * 5_000 + "all", MODEL)


def test_many_brackets_side_by_side_are_no_nesting():
    assert chosen(" | ".join(["(L0-H0)"] * 3 * DEEPEST)) == ["L0-H0"]


def test_a_chosen_set_is_written_shortly():
    heads = [Head(0, 1), Head(3, 4), Head(3, 5), Head(3, 6), Head(3, 9)]
    assert write(reversed(heads)) == "L0-H1 | L3 x H4-6 | L3-H9"


@given(st.sets(st.builds(Head, st.integers(0, 23), st.integers(0, 15)), min_size=1))
def test_what_is_written_selects_the_same_heads(heads):
    assert resolve(write(heads), BLOOM) == sorted(heads)


# The same algebra over again, head by head and without any parsing. A node is (rank, text, predicate);
# the rank says how tightly its outermost sign binds.

ATOM, NOT, CROSS, AND, OR = 5, 4, 3, 2, 1


def layer_range(low, high):
    return (ATOM, f"L{low}-{high}", lambda head: low <= head.layer <= high)


def index_range(low, high):
    return (ATOM, f"H{low}-{high}", lambda head: low <= head.head <= high)


def one_head(layer, index):
    return (ATOM, f"L{layer}-H{index}", lambda head: head == (layer, index))


def above(hundredths):
    return (ATOM, f"bos>{hundredths / 100}", lambda head: MASS[head.layer][head.head] > hundredths / 100)


WORDS = [
    (ATOM, "all", lambda head: True),
    (ATOM, "sick", lambda head: MASS[head.layer][head.head] > 0.5),
    (ATOM, "dead", lambda head: MASS[head.layer][head.head] > 0.95),
    (ATOM, "bos_sink", lambda head: 0.5 < MASS[head.layer][head.head] <= 0.95),
    (ATOM, "low_entropy", lambda head: head.head == 1 and head.layer < 2),
    (ATOM, "band", lambda head: head.head >= 3),
    (ATOM, "zone", lambda head: head.head >= 3 and head.layer >= 1),
]


def bracketed(node, rank):
    return node[1] if node[0] >= rank else f"({node[1]})"


def negated(node):
    return (NOT, "!" + bracketed(node, NOT), lambda head: not node[2](head))


def joined(a, b, sign):
    rank = {"x": CROSS, "&": AND, "|": OR}[sign]
    text = f"{bracketed(a, rank)} {sign} {bracketed(b, rank)}"
    if sign == "|":
        return (rank, text, lambda head: a[2](head) or b[2](head))
    return (rank, text, lambda head: a[2](head) and b[2](head))


layers, indices = st.integers(0, 3), st.integers(0, 4)
atoms = st.one_of(
    st.sampled_from(WORDS),
    st.tuples(layers, layers).map(lambda pair: layer_range(*sorted(pair))),
    st.tuples(indices, indices).map(lambda pair: index_range(*sorted(pair))),
    st.builds(one_head, layers, indices),
    st.integers(0, 99).map(above),
)
nodes = st.recursive(
    atoms,
    lambda inner: st.one_of(inner.map(negated), st.builds(joined, inner, inner, st.sampled_from("x&|"))),
    max_leaves=12,
)


@given(nodes)
def test_the_parser_agrees_with_plain_predicates(node):
    _, text, holds = node
    expected = [Head(i, j) for i in range(4) for j in range(5) if holds(Head(i, j))]
    if expected:
        assert resolve(text, MODEL) == expected
    else:
        with pytest.raises(InputError, match="select no head"):
            resolve(text, MODEL)


pieces = st.sampled_from([*"LHx&|!()<>=-.0 9", "sick", "bos", "L1", "H2", "L1-H2", "0.5", "band", "²", "٣", "\n"])


@given(st.text() | st.lists(pieces, max_size=30).map("".join))
@example("L" + "9" * 5000)
@example("bos>" + "9" * 5000)
@example("L٣")
def test_no_text_at_all_brings_the_parser_down(text):
    try:
        assert resolve(text, MODEL)
    except ExpressionError as error:
        assert 0 <= error.position <= len(text)
    except InputError as error:
        assert "select no head" in str(error)


@pytest.mark.parametrize("written", ["L0-1xH2", "L0-1 xH2", "L0-1x H2", "(L0-1)x(H2)"])
def test_the_cross_needs_no_spaces(written: str) -> None:
    assert resolve(written, Model(3, 4)) == [Head(0, 2), Head(1, 2)]
