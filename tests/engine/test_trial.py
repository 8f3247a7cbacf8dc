import tomllib
from pathlib import Path

import pytest

from engine import events
from engine.chart import Chart, read_chart
from engine.errors import InputError
from engine.journal import Reader, Writer
from engine.protocol import read_protocol, runs_of
from engine.session import Session, is_trial, list_sessions
from engine.trial import Trial, create_trial, list_trials, open_trial, sessions_in, state_of
from tests.engine import story

PLAN = """
title = "Does it matter"
question = "Does\\nit?"
seeds = [1, 2]
[[arm]]
name = "Cut"
[[arm.pass]]
targets = "sick"
corpus = ["birds.txt"]
[[arm]]
name = "None"
"""


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    path = tmp_path / "matter.toml"
    path.write_text(PLAN, "utf-8")
    protocol = read_protocol(path)
    return create_trial(tmp_path / "sessions", protocol, runs_of(protocol, "some/model"), "cpu")


def told(session: Session, *more: events.Event) -> Chart:
    """The chart of a session with these events after its own."""
    writer = Writer(session.journal)
    for event in more:
        writer.append(event)
    writer.close()
    return read_chart(session)


def test_a_trial_is_what_it_was_begun_as(trial):
    again = open_trial(trial.folder)
    assert again == trial
    assert (again.title, again.question, again.device, again.protocol) == (
        "Does it matter",
        "Does it?",
        "cpu",
        "matter",
    )
    assert [run.name for run in again.runs] == ["cut-1", "cut-2", "none-1", "none-2"]
    assert again.runs[1].plans[0].seed == 2
    assert again.runs[2].plans == []
    assert trial.id.startswith("2") and "-matter-model-" in trial.id
    assert list_trials(trial.folder.parent) == [trial.folder]


def test_a_run_s_session_is_named_after_the_trial_and_knows_its_arm(trial):
    session = trial.begin(trial.runs[0])
    created = read_chart(session).created
    assert session.id == f"{trial.id}/cut-1" == created.session
    assert (created.protocol, created.arm, created.seed, created.model) == ("Does it matter", "Cut", 1, "some/model")
    assert [plan["targets"] for plan in created.plans] == ["sick"]
    assert list_sessions(trial.folder.parent) == [session]
    assert [run.name for run, _ in trial.begun()] == ["cut-1"]
    assert sessions_in(trial.folder) == [session]


def test_a_session_is_begun_once_whatever_a_kill_left(trial):
    first, second = trial.runs[:2]
    trial.begin(first)
    trial.begin(first)
    assert [entry.event.kind for entry in Reader(trial.session(first).journal).entries()] == ["created"]
    trial.session(second).folder.mkdir()  # killed before the first entry
    trial.session(second).journal.write_bytes(b'{"seq": 1, "ki')
    assert read_chart(trial.begin(second)).created.arm == "Cut"


def test_states_of_a_run(trial):
    cut, _, none, _ = trial.runs
    session = trial.session(none)
    assert state_of(none, read_chart(session)) == "waiting"
    trial.begin(none)
    assert state_of(none, read_chart(session)) == "created"
    assert state_of(none, told(session, story.WORKER, *story.DIAGNOSED[2:])) == "diagnosed"
    assert state_of(none, told(session, events.Closed())) == "done"
    session = trial.begin(cut)
    assert state_of(cut, told(session, story.WORKER, *story.DIAGNOSED[2:], events.Closed())) == "diagnosed"
    assert state_of(cut, told(session, events.Failed(message="no"))) == "failed"


def test_a_trial_without_a_session_says_how_to_go_on(trial):
    with pytest.raises(InputError, match=f"no session yet; `headsurgeon resume {trial.folder}`"):
        sessions_in(trial.folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("schema = 1", "schema = 2"), "schema 2 .* reads up to 1; install a newer"),
        (lambda text: text.replace('name = "cut-1"', 'name = "../cut"'), "is damaged .run.0.name"),
        (lambda text: text.replace('targets = "sick"', "targets = 3", 1), "is damaged .*targets"),
        (lambda text: text[:-9], "is damaged"),
        (lambda text: "", "is damaged"),
    ],
)
def test_a_damaged_trial_is_refused(trial, change, says):
    path = trial.folder / "protocol.toml"
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    assert is_trial(trial.folder)
    with pytest.raises(InputError, match=says):
        open_trial(trial.folder)


def test_what_is_no_trial(tmp_path):
    assert not is_trial(tmp_path)
    with pytest.raises(InputError, match=r"is no trial: it holds no protocol\.toml"):
        open_trial(tmp_path)


def test_the_file_is_for_people_too(trial):
    data = tomllib.loads((trial.folder / "protocol.toml").read_text("utf-8"))
    assert (data["schema"], data["title"], data["run"][0]["pass"][0]["lr"]) == (1, "Does it matter", 5e-5)
