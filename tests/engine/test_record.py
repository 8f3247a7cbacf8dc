import tomllib

import pytest

from engine import events
from engine.chart import read_chart
from engine.errors import InputError
from engine.record import build, dumps, load, save, summary
from engine.session import Session
from tests.engine import story
from tests.engine.story import DIAGNOSED, ONE_PASS

RUNNING = [*DIAGNOSED, story.started(), story.cut(), story.step(1), story.check(20, 70.0)]


@pytest.fixture
def session(tmp_path):
    return story.tell(tmp_path / "story", ONE_PASS)


@pytest.mark.parametrize(
    "told", [DIAGNOSED[:1], DIAGNOSED[:3], DIAGNOSED, [*DIAGNOSED, story.started()], RUNNING, ONE_PASS]
)
def test_a_record_comes_back_from_its_file_at_every_stage(tmp_path, told):
    session = story.tell(tmp_path / "story", told)
    assert load(session) == build(read_chart(session))


def test_what_a_record_holds(session):
    data = tomllib.loads(session.record.read_text("utf-8"))
    assert data["schema"] == 1
    assert data["session"]["state"] == "operated"
    assert data["patient"]["token_at_position_0"] == ["<s>", "The"]
    assert data["environment"]["torch"] == "2.13.0"
    stock = data["diagnosis"]["stock"]
    assert stock["counts"] == {"healthy": 6, "low_entropy": 1, "bos_sink": 3, "dead": 2}
    assert (stock["band"], stock["borderline"]) == ([2, 3], 2)
    assert stock["sensitivity"] == {"0.40": 5, "0.50": 5, "0.60": 3}
    assert stock["bos_mass"] == story.STOCK
    (done,) = data["pass"]
    assert (done["number"], done["targets"], done["target_heads"]) == (1, "L1 x H2-3", ["L1-H2", "L1-H3"])
    assert done["zone"] == {"layers": [1, 1], "heads": [2, 3]}
    assert (done["lr"], done["length"], done["steps"], done["warmup"], done["init"]) == (
        5e-5,
        512,
        40,
        10,
        "xavier_normal",
    )
    assert (done["woken_at_cut"], done["woken"]) == (2, 2)
    assert (done["ablation_loss_stock"], done["ablation_loss_after"]) == (0.030, 0.744)
    assert done["frozen_sha256_before"] == done["frozen_sha256_after"] == "ef" * 32
    assert [(c["step"], c["heldout_perplexity"]) for c in done["check"]] == [(20, 70.0), (40, 55.2)]
    assert done["corpus"][0]["heldout_tokens"] == 1_000
    assert data["note"][0]["text"] == "woken heads do some work"


def test_a_pass_under_way_has_no_end_yet(tmp_path):
    (done,) = load(story.tell(tmp_path / "story", RUNNING)).passes
    assert done.outcome == "running"
    assert done.woken is None and done.frozen_sha256_after is None and done.ended is None


def test_a_model_without_band_has_an_empty_one(tmp_path):
    flat = story.head_map([[0.1, 0.2]], [[1.0, 1.0]])
    assert (
        load(story.tell(tmp_path / "s", [story.CREATED, story.diagnosed("stock", flat)])).diagnosis["stock"].band == []
    )


def test_rows_stand_on_lines_of_their_own(session):
    text = session.record.read_text("utf-8")
    assert "\n    [0.1, 0.2, 0.3, 0.6],\n" in text
    assert '\ntarget_heads = ["L1-H2", "L1-H3"]\n' in text


def test_text_that_looks_like_rows_is_left_alone(tmp_path):
    note = '[\n    1,\n    2,\n]\n = """ \\ \x07 ü'
    session = story.tell(tmp_path / "story", [*DIAGNOSED, events.Note(text=note)])
    assert load(session).note[0]["text"] == note


def test_unknown_keys_are_kept(session):
    text = session.record.read_text("utf-8")
    text = text.replace("schema = 1\n", "schema = 1\nward = 2026-11-30\n")
    text = text.replace("[patient]\n", '[patient]\nblood_type = "0"\n')
    text = text.replace("[diagnosis.stock]\n", "[diagnosis.stock]\nskew = 0.5\n")
    text = text.replace("[[pass]]\n", "[[pass]]\nsurgeon = 'me'\n")
    text = text.replace("[[pass.check]]\n", "[[pass.check]]\npulse = [60, 61]\n")
    text = text.replace("[pass.drift.outside]\n", "[pass.drift.outside]\nmedian = 0.01\n")
    text += "\n[ward]\n".replace("ward", "annex") + "rooms = 3\n"
    session.record.write_text(text, "utf-8")
    data = tomllib.loads(text)
    assert data["pass"][0]["check"][1]["pulse"] == [60, 61] and data["annex"]["rooms"] == 3
    assert tomllib.loads(dumps(load(session))) == data


def test_a_newer_schema_is_refused(session):
    session.record.write_text(session.record.read_text("utf-8").replace("schema = 1", "schema = 2"), "utf-8")
    with pytest.raises(InputError, match="has schema 2 and this headsurgeon reads up to 1; install a newer"):
        load(session)


@pytest.mark.parametrize(
    ("find", "replace", "says"),
    [
        ("schema = 1\n", "", "schema: Field required"),
        ("schema = 1\n", 'schema = "one"\n', "schema: "),
        ('id = "story"\n', "", "session.id: Field required"),
        ("seed = 42\nsteps", "steps", "pass.0.seed: Field required"),
        ("lr = 5e-05\n", 'lr = "slow"\n', "pass.0.lr: "),
        ("[0.1, 0.2, 0.3, 0.6]", '["a"]', "diagnosis.stock.bos_mass"),
        ('["L1-H2", "L1-H3"]', '["L1-H2", "../L1"]', "target_heads.1: "),
        ("[session]", "[session", "damaged"),
        ("schema = 1", "schema = 1\nschema = 1", "damaged"),
    ],
)
def test_a_damaged_record_is_told_with_its_place_and_the_way_out(session, find, replace, says):
    text = session.record.read_text("utf-8")
    assert find in text
    session.record.write_text(text.replace(find, replace, 1), "utf-8")
    with pytest.raises(InputError, match="is damaged") as refused:
        load(session)
    assert says in str(refused.value)
    assert f"headsurgeon resume {session.folder}" in str(refused.value)


def test_a_truncated_record_is_a_shorter_one_or_damaged(session):
    data = session.record.read_bytes()
    damaged = 0
    for cut in range(0, len(data), 13):
        session.record.write_bytes(data[:cut])
        try:
            assert load(session).session.id == "story"
        except InputError as error:
            assert "is damaged" in str(error)
            damaged += 1
    assert damaged > 100


def test_bytes_that_are_no_text_are_refused(session):
    session.record.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is damaged"):
        load(session)


def test_a_renamed_session_is_recorded_under_its_new_name(session):
    renamed = Session(session.folder.rename(session.folder.with_name("patient zero")))
    save(renamed, read_chart(renamed))
    assert load(renamed).session.id == "patient zero"
    renamed.record.unlink()
    with pytest.raises(InputError, match=r"patient zero has no session\.toml yet"):
        load(renamed)


def test_a_missing_record_is_told(session):
    session.record.unlink()
    with pytest.raises(InputError, match=r"story has no session\.toml yet"):
        load(session)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_no_nan_reaches_a_record(session, number):
    before = session.record.read_bytes()
    chart = read_chart(session)
    chart.passes[0].checks[0] = story.check(20, number)
    with pytest.raises(ValueError):
        save(session, chart)
    assert session.record.read_bytes() == before


def test_nor_inside_of_what_is_only_carried_along(session):
    record = load(session)
    record.passes[0].check[0].drift.outside.mean = float("nan")
    with pytest.raises(ValueError):
        dumps(record)


def test_the_line_of_the_session_list(session, tmp_path):
    line = summary(load(session))
    assert (line["id"], line["patient"], line["state"]) == ("story", "demo", "operated")
    assert (line["heads"], line["healthy_before"], line["healthy_after"]) == (12, 6, 8)
    young = summary(load(story.tell(tmp_path / "young", DIAGNOSED)))
    assert (young["healthy_before"], young["healthy_after"]) == (6, None)
    newborn = summary(load(story.tell(tmp_path / "newborn", DIAGNOSED[:1])))
    assert (newborn["heads"], newborn["healthy_before"]) == (0, None)
