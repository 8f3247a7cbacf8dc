from pathlib import Path

from engine.chart import read_chart
from engine.record import save
from engine.session import Session
from tests.tui.story import write_session
from tui.past import read_past, wanted_tables


def written(tmp_path: Path, **options: object) -> Session:
    session = write_session(tmp_path, **options)  # type: ignore[arg-type]
    save(session, read_chart(session))
    return session


def test_a_record_and_the_journal_alone_tell_the_same(tmp_path: Path) -> None:
    session = written(tmp_path, until=40)
    from_record = read_past(session)
    session.record.unlink()
    assert read_past(session) == from_record
    assert (from_record.patient, from_record.state, from_record.heads) == ("bloom-story", "operated", 384)
    assert (from_record.healthy_before, from_record.healthy_after) == (276, 380)


def test_a_session_without_a_pass_has_no_after(tmp_path: Path) -> None:
    past = read_past(written(tmp_path))
    assert (past.state, past.healthy_before, past.healthy_after) == ("diagnosed", 276, None)


def test_a_damaged_record_falls_back_to_the_journal(tmp_path: Path) -> None:
    session = written(tmp_path, until=40)
    session.record.write_text("[session\nstate = ")
    assert read_past(session).healthy_after == 380


def test_the_rows_of_figures_are_not_parsed(tmp_path: Path) -> None:
    text = wanted_tables(written(tmp_path, until=40).record.read_text())
    assert "bos_mass" not in text and "[diagnosis.stock.counts]" in text
    assert len(text) < 4000
