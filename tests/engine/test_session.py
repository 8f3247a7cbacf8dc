import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import events
from engine.errors import InputError
from engine.journal import Reader, Tail
from engine.session import Session, create_session, list_sessions, open_session, sessions_root
from tests.engine import story

HOLD = "import sys; from pathlib import Path; from engine.session import Session\n" + (
    "with Session(Path(sys.argv[1])).held(): print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def session(tmp_path):
    return story.tell(tmp_path / "story", story.DIAGNOSED)


@pytest.fixture
def holder(session):
    """Another process that holds the session."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(session.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_holder_is_refused_and_told_of_the_first(session, holder):
    assert session.holder() == holder.pid
    with pytest.raises(InputError, match=f"process {holder.pid}") as refused, session.held():
        pytest.fail("two workers on one patient")
    assert f"headsurgeon open {session.folder}" in str(refused.value)
    assert session.holder() == holder.pid  # the refusal has not disturbed it


def test_a_killed_holder_holds_nothing(session, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert session.holder() is None
    with session.held():
        assert session.holder() == os.getpid()


def test_a_session_is_free_before_and_after(session):
    assert session.holder() is None
    with session.held():
        assert json.loads(session.lock_file.read_text("utf-8"))["pid"] == os.getpid()
        with pytest.raises(InputError, match="held by a live worker"), session.held():
            pass
    assert session.holder() is None
    assert session.lock_file.read_text("utf-8") == ""
    with session.held():
        pass


def test_a_crash_inside_lets_go_of_the_session(session):
    with pytest.raises(RuntimeError), session.held():
        raise RuntimeError
    assert session.holder() is None


def test_a_look_at_the_holder_keeps_nobody_out(session, monkeypatch):
    session.lock_file.touch()
    look = session.lock_file.open("r+")
    fcntl.flock(look, fcntl.LOCK_SH)  # as `holder` does for an instant
    monkeypatch.setattr(time, "sleep", lambda seconds: look.close())
    with session.held():
        assert session.holder() == os.getpid()


def test_every_path_of_a_session_is_in_its_folder(tmp_path):
    session = Session(tmp_path / "s")
    paths = [session.record, session.journal, session.commands, session.lock_file, session.log, session.exports]
    paths += [session.pass_folder(3), session.patch(12)]
    assert len(set(paths)) == 8
    assert all(path.is_relative_to(session.folder) and ".." not in path.parts for path in paths)


@given(st.text() | st.sampled_from(["..", "../../etc", "/", "/etc/passwd", ".", "a/../..", "big/Model-1.7b", "\0"]))
def test_no_model_name_leads_out_of_the_root(tmp_path_factory, model):
    root = tmp_path_factory.mktemp("root")
    session = create_session(root, events.Created(session="", model=model))
    assert session.folder.parent == root and session.folder.is_dir()
    (entry,) = Reader(session.journal).entries()
    assert entry.event.model == model and entry.event.session == session.id


def test_a_session_is_called_after_day_model_and_chance(tmp_path):
    request = events.Created(session="", model="bigscience/Bloom-1b7")
    first, second = create_session(tmp_path, request), create_session(tmp_path, request)
    assert first.id[:10].count("-") == 2 and first.id[10:].startswith("-bloom-1b7-")
    assert len(first.id) == len("2026-11-30-bloom-1b7-a1f3") and first.id != second.id


def test_a_root_that_cannot_be_written_to_is_refused_in_words(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot make a session in .*--sessions"):
        create_session(tmp_path / "file", story.CREATED)


def test_commands_go_to_their_file(session):
    session.send("option", name="patience", value=3)
    (line,) = Tail(session.commands).lines()
    assert (line["command"], line["name"], line["value"]) == ("option", "patience", 3)


def test_sessions_are_opened_by_their_folder(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_session(Path("story")).folder == session.folder
    monkeypatch.chdir(session.folder)
    assert open_session(Path()).id == "story"


def test_a_record_alone_is_a_session_too(session):
    session.journal.unlink()
    assert open_session(session.folder).id == "story"


def test_other_folders_are_none(tmp_path):
    with pytest.raises(InputError, match="session not found"):
        open_session(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is no session"):
        open_session(tmp_path)


def test_sessions_are_listed_newest_first(tmp_path):
    for name in ("2026-11-28-demo-0001", "2026-11-30-demo-0001", "2026-11-29-demo-0001"):
        story.tell(tmp_path / name, story.DIAGNOSED[:1])
    (tmp_path / "else").mkdir()
    (tmp_path / "README.md").touch()
    assert [s.id[:10] for s in list_sessions(tmp_path)] == ["2026-11-30", "2026-11-29", "2026-11-28"]
    assert list_sessions(tmp_path / "nowhere") == []


def test_a_discarded_session_is_gone(session):
    session.discard()
    assert not session.folder.exists()


def test_the_root_is_chosen_then_set_then_usual(monkeypatch):
    monkeypatch.delenv("HEADSURGEON_SESSIONS", raising=False)
    assert sessions_root() == Path("sessions")
    monkeypatch.setenv("HEADSURGEON_SESSIONS", "/data/sessions")
    assert sessions_root() == Path("/data/sessions")
    assert sessions_root(Path("mine")) == Path("mine")
