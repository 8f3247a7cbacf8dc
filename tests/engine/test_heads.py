import pytest

from engine.heads import Head, HeadMap, ProbeText, Thresholds, as_rows, classify, uniform_bos_mass
from tests.engine import story

T = Thresholds()


@pytest.mark.parametrize(
    ("bos_mass", "entropy", "expected"),
    [
        (0.9501, 0.0, "dead"),
        (0.95, 0.0, "bos_sink"),  # a threshold itself is not above it
        (0.5001, 0.0, "bos_sink"),
        (0.50, 0.49, "low_entropy"),
        (0.50, 0.50, "healthy"),
        (0.0, 0.4999, "low_entropy"),
        (0.0, 3.0, "healthy"),
    ],
)
def test_a_class_begins_just_beyond_its_threshold(bos_mass, entropy, expected):
    assert classify(bos_mass, entropy, T) == expected


def test_heads_are_written_and_read_alike():
    assert str(Head(16, 4)) == "L16-H4"
    assert Head.parse("L16-H4") == Head(16, 4)


@pytest.mark.parametrize("text", ["", "L16", "L16-H", "16-4", "L-1-H2", "L1-H2 ", "l1-h2"])
def test_anything_else_is_no_head(text):
    with pytest.raises(ValueError, match="not a head"):
        Head.parse(text)


@pytest.mark.parametrize(("tokens", "expected"), [(1, 1.0), (2, 0.75), (16, 0.211), (64, 0.074), (512, 0.013)])
def test_uniform_attention_scores_this_much_bos_mass(tokens, expected):
    assert uniform_bos_mass(tokens) == pytest.approx(expected, abs=5e-4)


def test_each_text_counts_once_in_the_baseline():
    assert story.head_map().uniform() == pytest.approx((0.2113 + 0.0741) / 2, abs=1e-4)
    assert HeadMap([[0.1]], [[1.0]]).uniform() == 0


def test_counts_of_the_story():
    found = story.head_map()
    assert (found.n_layers, found.n_heads, found.tokens) == (3, 4, 80)
    assert found.counts() == {"healthy": 6, "low_entropy": 1, "bos_sink": 3, "dead": 2}
    assert found.class_of(Head(1, 3)) == "dead"
    assert found.is_sick(Head(2, 2)) and not found.is_sick(Head(0, 2))


def test_sensitivity_counts_heads_above_each_limit():
    masses = [[0.40, 0.41, 0.50, 0.51, 0.60, 0.61]]
    assert HeadMap(masses, [[1.0] * 6]).sensitivity() == {"0.40": 5, "0.50": 3, "0.60": 1}


def test_borderline_is_an_interval_that_holds_a_threshold():
    found = HeadMap(
        bos_mass=[[0.47, 0.53, 0.55, 0.93, 0.20, 0.97]],
        entropy=[[1.0] * 6],
        bos_low=[[0.40, 0.50, 0.51, 0.90, 0.10, 0.951]],
        bos_high=[[0.50, 0.60, 0.60, 0.96, 0.30, 0.99]],
    )
    assert [found.is_borderline(head) for head in found.heads()] == [True, True, False, True, False, False]


def test_without_intervals_only_a_mass_on_the_threshold_is_borderline():
    found = HeadMap([[0.50, 0.51]], [[1.0, 1.0]])
    assert [found.is_borderline(head) for head in found.heads()] == [True, False]


def test_borderline_is_an_entropy_interval_too_where_the_entropy_decides():
    found = HeadMap(
        bos_mass=[[0.20, 0.20, 0.20, 0.20, 0.70, 0.97]],
        entropy=[[0.45, 0.60, 0.40, 0.60, 0.45, 0.45]],
        bos_low=[[0.10, 0.10, 0.10, 0.10, 0.60, 0.96]],
        bos_high=[[0.30, 0.30, 0.30, 0.30, 0.80, 0.98]],
        entropy_low=[[0.40, 0.50, 0.30, 0.51, 0.40, 0.40]],
        entropy_high=[[0.55, 0.70, 0.49, 0.70, 0.55, 0.55]],
    )
    assert [found.is_borderline(head) for head in found.heads()] == [True, True, False, False, False, False]
    assert found.entropy_interval(Head(0, 1)) == (0.50, 0.70)


def test_a_map_from_before_entropy_had_an_interval_still_reads():
    data = story.head_map().to_dict()
    del data["entropy_low"], data["entropy_high"]
    old = HeadMap.from_dict(data)
    assert old.entropy_interval(Head(0, 0)) == (old.entropy[0][0], old.entropy[0][0])


def test_distances_to_position_0():
    texts = [ProbeText("a", 11, "<s>"), ProbeText("b", 31, "<s>")]
    assert HeadMap([[0.1]], [[1.0]], texts=texts).distances() == (10.0, 30)  # means 5 and 15, the last 10 and 30
    assert HeadMap([[0.1]], [[1.0]]).distances() == (0.0, 0)


def columns_of_sick(*sick_layers: int, layers: int = 10) -> HeadMap:
    """A map whose column j has so many sick layers of ten."""
    masses = [[0.9 if layer < sick else 0.1 for sick in sick_layers] for layer in range(layers)]
    return HeadMap(masses, [[1.0] * len(sick_layers)] * layers)


@pytest.mark.parametrize(
    ("sick", "band"),
    [
        ([0, 0, 0], None),
        ([3, 3, 3], None),  # 30 % is not more than 30 %
        ([0, 4, 0], (1, 1)),
        ([0, 4, 5, 6], (1, 3)),
        ([9, 0, 4, 4], (0, 0)),  # of two runs the one with more sick heads
        ([7, 0, 4, 4], (2, 3)),
        ([4, 3, 4], (0, 0)),  # a column at 30 % breaks a run; of equals the first
        ([10, 10, 10], (0, 2)),
    ],
)
def test_the_band_is_the_fullest_run_of_columns_above_thirty_per_cent(sick, band):
    assert columns_of_sick(*sick).band() == band


def test_thresholds_of_the_map_decide_not_the_usual_ones():
    strict = HeadMap([[0.45, 0.2]], [[1.0, 1.0]], thresholds=Thresholds(bos_sink=0.4))
    assert strict.counts()["bos_sink"] == 1


def test_a_map_comes_back_from_plain_values():
    found = story.head_map()
    assert HeadMap.from_dict(found.to_dict()) == found


def test_what_a_newer_program_adds_to_a_map_is_passed_over():
    data = story.head_map().to_dict()
    data["a_newer_figure"] = [[0.0]]
    data["texts"][0]["language"] = "en"
    data["thresholds"]["odd"] = 1
    assert HeadMap.from_dict(data) == story.head_map()


def test_rows_are_rounded():
    assert as_rows([[0.12345678, 1]]) == [[0.123457, 1]]
