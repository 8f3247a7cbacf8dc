"""A record that was not touched holds; whatever is changed by hand is named."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from engine import events
from engine.claims import Claim
from engine.record import load
from engine.session import Session
from engine.trial import sessions_in
from engine.verify import verify, verify_json, verify_text
from tests.engine import story

COMMITTED = Path(__file__).parents[2] / "sessions" / "2026-11-30-demo-f0d0"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A copy of a committed session: 19 targets, woken by the cut, 12 checks."""
    return Session(Path(shutil.copytree(COMMITTED, tmp_path / COMMITTED.name)))


def change_record(session: Session, *path: str | int, to: Any) -> None:
    """Change one value of session.toml, as an editor would."""
    data: Any = tomllib.loads(session.record.read_text("utf-8"))
    table = data
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = to
    session.record.write_text(tomli_w.dumps(data), "utf-8")


def change_journal(session: Session, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
    lines = [json.loads(line) for line in session.journal.read_text("utf-8").splitlines()]
    for line in lines:
        if line["kind"] == kind:
            change(line)
    session.journal.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def failing(session: Session) -> dict[str, Claim]:
    return {claim.name: claim for claim in verify(session) if claim.holds is False}


def committed() -> list[Session]:
    """Those in the repository; what else lies in the folder was left by whoever ran the program there."""
    kept = re.findall(r"^!(sessions/\S+)/$", (COMMITTED.parents[1] / ".gitignore").read_text("utf-8"), re.M)
    return [session for folder in kept for session in sessions_in(COMMITTED.parents[1] / folder)]


@pytest.mark.parametrize("session", committed(), ids=lambda session: session.id)
def test_the_committed_sessions_hold_in_every_claim(session):
    claims = verify(session)
    assert len(claims) > 20
    away = [claim for claim in claims if claim.name == "weights_sha256" and claim.holds is None]
    assert not away or load(session).session.model != "demo"  # the demo travels with the program, others do not
    assert [claim for claim in claims if claim.holds is not True] == away
    assert verify_json(session, claims)["holds"] is True
    there = len(claims) - len(away)
    assert verify_text(session, claims).endswith(f"{there} hold, 0 do not, {len(away)} cannot be checked here")


@pytest.mark.parametrize(
    ("path", "to", "names"),
    [
        (("diagnosis", "stock", "counts", "healthy"), 30, {"counts"}),
        (("diagnosis", "stock", "band"), [3, 7], {"band"}),
        (("diagnosis", "pass-1", "sensitivity", "0.40"), 1, {"sensitivity"}),
        (("diagnosis", "stock", "borderline"), 5, {"borderline"}),
        # a dead head becomes healthy: counts and all that rests on the map move with it
        (("diagnosis", "stock", "bos_mass", 1, 6), 0.1, {"counts", "sensitivity", "target_heads"}),
        (("diagnosis", "stock", "bos_mass", 1), [0.1], {"shape"}),
        (("patient", "parameters"), 1_321_217, {"parameters"}),
        (("patient", "weights_sha256"), "0" * 64, {"weights_sha256", "patch"}),
        (("pass", 0, "target_heads", 0), "L0-H0", {"target_heads", "zone", "patch"}),
        (("pass", 0, "target_heads", 0), "L99-H0", {"target_heads"}),
        (("pass", 0, "targets"), "sick | L0-H0", {"target_heads"}),
        (("pass", 0, "targets"), "sick &", {"target_heads"}),
        (("pass", 0, "zone", "layers"), [0, 5], {"zone"}),
        (("pass", 0, "trained_parameters"), 156_561, {"trained_parameters"}),
        (("pass", 0, "touched_tensor_parameters"), 1, {"touched_tensor_parameters"}),
        (("pass", 0, "parts"), "qk", {"trained_parameters", "patch"}),
        (("pass", 0, "woken_at_cut"), 18, {"woken_at_cut"}),
        (("pass", 0, "woken"), 18, {"woken"}),
        (("pass", 0, "ablation_loss_after"), 1.7, set()),  # only the journal knows
        (("pass", 0, "heldout_perplexity"), 28.0, {"heldout_perplexity"}),
        (("pass", 0, "best_step"), 275, {"best_step"}),
        (("pass", 0, "steps_done"), 299, {"steps_done", "trained_tokens"}),
        (("pass", 0, "steps"), 400, {"steps", "warmup", "steps_done"}),
        (("pass", 0, "warmup"), 74, {"warmup"}),
        (("pass", 0, "drift", "outside", "mean"), 0.002592, {"drift"}),
        (("pass", 0, "drift_cut", "in_band_frozen", "worst_head"), "L5-H3", {"drift_cut"}),
        (("pass", 0, "spreading"), [3], {"spreading"}),
        (("pass", 0, "check", 3, "woken"), 17, {"check"}),
        (("pass", 0, "check", 3, "heldout_perplexity"), 10.0, {"check.best", "best_step"}),
        (("pass", 0, "frozen_sha256_after"), "0" * 64, {"frozen_sha256_after"}),
        (("pass", 0, "patch_sha256"), "0" * 64, {"patch_sha256"}),
        (("generation", "pass-1", "figures", "code"), 0.5, {"figures"}),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_one_value_changed_in_the_record(session, path, to, names):
    change_record(session, *path, to=to)
    found = failing(session)
    assert names | {"record"} <= set(found)
    assert path[0] in found["record"].detail and str(path[-2 if isinstance(path[-1], int) else -1]) in (
        found["record"].detail
    )


def test_a_changed_figure_is_named_with_both_values(session):
    change_record(session, "pass", 0, "woken", to=18)
    found = failing(session)
    assert set(found) == {"record", "woken"}
    assert found["record"].detail == "1 figures are not the journal's: pass[0].woken is 18, in the journal 19"
    assert found["woken"].detail == "woken: the record says 18, computed anew it is 19"
    text = verify_text(session, verify(session))
    assert "pass 1, woken: DOES NOT HOLD (woken: the record says 18, computed anew it is 19)" in text


def test_record_and_journal_changed_alike_are_caught_by_the_maps(session):
    change_record(session, "pass", 0, "woken", to=18)
    change_journal(session, "pass_ended", lambda line: line.update(woken=18))
    assert set(failing(session)) == {"woken"}


def test_a_check_changed_in_both(session):
    change_record(session, "pass", 0, "check", 3, "drift", "outside", "drifting", to=1)

    def change(line: dict[str, Any]) -> None:
        if line["step"] == 100:
            line["drift"]["outside"]["drifting"] = 1

    change_journal(session, "check", change)
    (claim,) = failing(session).values()
    assert claim.detail == "check.100.drift.outside.drifting: the record says 1, computed anew it is 0"


def test_what_a_later_program_wrote_does_not_count(session):
    change_record(session, "pass", 0, "of_tomorrow", to=1)
    assert failing(session) == {}


def test_a_renamed_folder_holds(session):
    moved = session.folder.rename(session.folder.with_name("mine"))
    assert failing(Session(moved)) == {}
    change_record(Session(moved), "session", "id", to="mine")
    assert failing(Session(moved)) == {}


def test_without_journal_and_patch_the_maps_still_speak(session):
    session.journal.unlink()
    session.patch(1).unlink()
    claims = {claim.name: claim.holds for claim in verify(session)}
    assert [name for name, holds in claims.items() if holds is None] == ["record", "woken", "patch_sha256"]
    assert claims["counts"] is claims["target_heads"] is claims["trained_parameters"] is True
    assert False not in claims.values()


def test_a_damaged_patch(session):
    data = bytearray(session.patch(1).read_bytes())
    data[-1] ^= 1
    session.patch(1).write_bytes(data)
    assert set(failing(session)) == {"patch_sha256"}
    session.patch(1).write_bytes(data[:-100])
    assert set(failing(session)) == {"patch_sha256", "patch"}
    assert "truncated" in failing(session)["patch"].detail


def test_a_later_pass_is_resolved_on_the_map_that_stood_before_it(tmp_path):
    # after pass 1 the sick heads of layer 2 alone are H2 and H3; in stock L1 had two as well
    second = [
        story.started(2, "sick & L1-2", ["L2-H2", "L2-H3"]),
        story.cut(2),
        story.check(40, 55.2, 2),
        story.diagnosed("pass-2", story.head_map(story.AFTER)),
        story.ended(2),
    ]
    told = [*story.DIAGNOSED, story.started(), story.diagnosed("pass-1", story.head_map(story.AFTER)), story.ended()]

    def holds(session: Session) -> list[bool | None]:
        return [claim.holds for claim in verify(session) if claim.name == "target_heads"]

    session = story.tell(tmp_path / "two", [*told, *second])
    assert holds(session) == [True, True]
    undone = story.tell(tmp_path / "undone", [*told, *second, events.Undone(number=2), events.Undone(number=1)])
    assert holds(undone) == [True, True]  # the journal still has the map
    undone.journal.unlink()
    assert holds(undone) == [True, None]


def test_what_a_story_made_up_is_found_out(tmp_path):
    # the weights, 70,000 parameters (12 d² + 13 d a layer, 1024 d of words, 4 d of norms, d = 32), and a drift
    # from the cut to checks and end that have the cut's own map
    found = failing(story.tell(tmp_path / "story", story.ONE_PASS))
    assert set(found) == {"parameters", "weights_sha256", "check", "drift_training"}
    own = 3 * (12 * 32**2 + 13 * 32) + 1024 * 32 + 4 * 32
    assert found["parameters"].detail == f"parameters: the record says 70000, computed anew it is {own}"
    moved = "drift_training.outside.drifting: the record says 2, computed anew it is 0"
    assert (found["drift_training"].detail, found["check"].detail) == (moved, f"check.20.{moved}")


@pytest.mark.parametrize("told", [story.DIAGNOSED[:1], story.DIAGNOSED[:3], [*story.DIAGNOSED, story.started()]])
def test_a_session_that_has_just_begun(tmp_path, told):
    claims = {claim.name: claim.holds for claim in verify(story.tell(tmp_path / "story", told))}
    assert claims["record"] is True
