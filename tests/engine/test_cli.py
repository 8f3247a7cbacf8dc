"""The command line as a user meets it, in this process; what needs a process of its own is in tests/e2e."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine import __main__ as program
from engine import events
from engine.errors import Failure
from engine.session import create_session
from tests.engine.conftest import refused
from tests.engine.nn.patients import make_patient, write_corpus
from tests.engine.test_families import SMOLLM2_135M

BLOOM_1B7 = {"model_type": "bloom", "n_embed": 2048, "n_layer": 24, "num_attention_heads": 16, "vocab_size": 250880}
PASS_1 = (
    "L5 x H14-15 | L6 x H9-15 | L7 x H9-14 | L8 x H11-15 | L9-10 x H9-15 | L11 x H10-15 | L12-13 x H9-15"
    " | L14 x (H9-11 | H13-15) | L15 x (H9 | H11-12 | H14-15) | L16 x H10-15 | L17 x H9-14"
    " | L18-20 x H9-15 | L21 x H9-13 | L22 x (H9-11 | H13-14)"
)


def test_no_refusal_is_obeyed_by_the_terminal(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "x\x1b[2J\n").mkdir()
    said = refused(run("resume", "x\x1b[2J\n"))
    assert r"x\x1b[2J\n is no session" in said and said.isprintable()


def test_nor_is_a_failure(run, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    def fail(arguments: list[str]) -> int:
        raise Failure("\x1b]0;title\x07 broke")

    monkeypatch.setattr(program, "run", fail)
    ran = run("diagnose")
    assert (ran.code, ran.out, ran.err) == (1, "", "headsurgeon: \\x1b]0;title\\x07 broke\n")


def test_diagnose_demo_says_the_same_twice(run) -> None:  # type: ignore[no-untyped-def]
    one, two = (run("diagnose", "demo", "--json", "--device", "cpu") for _ in range(2))
    assert one.code == 0
    assert one.out == two.out
    found = json.loads(one.out)
    sick = found["counts"]["bos_sink"] + found["counts"]["dead"]
    assert 0.25 <= sick / len(found["heads"]) <= 0.50
    assert found["band"][0] >= found["n_heads"] // 2
    assert found["counts"]["dead"] >= 1
    assert sum(found["counts"].values()) == found["n_layers"] * found["n_heads"] == len(found["heads"])
    head = found["heads"][-1]
    assert (head["layer"], head["head"]) == (found["n_layers"] - 1, found["n_heads"] - 1)
    assert head["bos_interval"][0] <= head["bos_mass"] <= head["bos_interval"][1]
    assert found["texts"][0]["first_token"] == "<s>"


def test_one_text_of_ones_own_is_all_that_counts(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "one.txt").write_text("The committee met on Tuesday to consider the state of the canal.\n")
    found = json.loads(run("diagnose", "demo", "--texts", "one.txt", "--json").out)
    assert [t["name"] for t in found["texts"]] == ["line 1"]
    assert found["tokens"] == found["texts"][0]["tokens"]


def test_diagnose_for_people_names_classes_and_band(run) -> None:  # type: ignore[no-untyped-def]
    out = run("diagnose", "demo").out
    for word in ("healthy", "bos_sink", "dead", "low_entropy", "band", "position 0 held “<s>”", "0.50:"):
        assert word in out


def test_preflight_of_the_papers_first_pass(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "bloom-1b7").mkdir()
    (tmp_path / "bloom-1b7" / "config.json").write_text(json.dumps(BLOOM_1B7))
    found = json.loads(run("preflight", "bloom-1b7", "--targets", PASS_1, "--json").out)
    assert found["targets"] == 108
    assert found["trained_parameters"] == 113_287_680
    assert found["touched_tensor_parameters"] == 302_100_480
    assert found["total_parameters"] == 1_722_408_960
    assert found["zone"] == {"layers": [5, 22], "heads": [9, 15], "in_band_frozen": 18, "outside": 258}
    assert found["memory_bytes"] > 4 * found["total_parameters"]
    assert "6.58 %" in run("preflight", "bloom-1b7", "--targets", PASS_1).out


def test_preflight_of_other_treatments(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "bloom-1b7").mkdir()
    (tmp_path / "bloom-1b7" / "config.json").write_text(json.dumps(BLOOM_1B7))
    counts = {}
    for treatment in ("sink_logit", "placeholder", "prune", "nothing"):
        ran = run("preflight", "bloom-1b7", "--targets", PASS_1, "--treatment", treatment, "--json")
        found = json.loads(ran.out)
        counts[treatment] = found["trained_parameters"], found["touched_tensor_parameters"]
    assert counts == {
        "sink_logit": (108, 18 * 16),
        "placeholder": (2048, 250_880 * 2048),
        "prune": (0, 18 * 2048 * 2048),
        "nothing": (0, 0),
    }
    sentence = refused(run("preflight", "bloom-1b7", "--targets", "H5", "--treatment", "pray"))
    assert "treatment: Input should be 'reinitialise', 'sink_logit', 'placeholder', 'prune' or 'nothing'" in sentence


def test_preflight_of_a_model_whose_heads_share_k_and_v(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "smol").mkdir()
    (tmp_path / "smol" / "config.json").write_text(json.dumps(SMOLLM2_135M))
    sentence = refused(run("preflight", "smol", "--targets", "L2-H4"))
    assert "L2-H4 shares its K and V with L2-H3, which is no target" in sentence
    whole = json.loads(run("preflight", "smol", "--targets", "L2-H4", "--whole-groups", "--json").out)
    assert (whole["targets"], whole["trained_parameters"]) == (3, (3 + 1 + 1 + 3) * 64 * 576)
    alone = json.loads(run("preflight", "smol", "--targets", "L2-H4", "--parts", "q", "--json").out)
    assert (alone["targets"], alone["trained_parameters"]) == (1, 2 * 64 * 576)


def test_classes_need_a_diagnosis(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert "--from SESSION" in refused(run("preflight", "demo", "--targets", "sick"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["diagnose", "no-such-folder"], "folder not found: no-such-folder"),
        (["diagnose", "empty"], "empty holds no model: there is no config.json"),
        (["diagnose", "gpt"], "gpt is a 'mamba' model, and headsurgeon has adapters for bloom, falcon, gemma"),
        (["diagnose", "tiny", "--texts", "no.txt"], "file of texts not found: no.txt"),
        (["diagnose", "tiny", "--dtype", "int3"], "unknown dtype 'int3'"),
        (["operate", "tiny", "--targets", "all"], "names no corpus"),
        (["operate", "tiny", "--targets", "L0-H0", "--corpus", "no.txt"], "corpus not found: no.txt"),
        (["operate", "tiny", "--targets", "L9", "--corpus", "birds.txt"], "there is no layer 9"),
        (["operate", "tiny", "--targets", "dead & !dead", "--corpus", "birds.txt"], "select no head"),
        (["operate", "tiny", "--targets", "all", "--corpus", "short.txt", "--length", "32"], "shorter than one sample"),
        (["operate", "tiny", "--targets", "all", "--corpus", "birds.txt"], "longer than the patient's context"),
        (["operate", "tiny", "--targets", "all", "--corpus", "birds.txt", "--lr", "-1"], "lr: Input should be greater"),
        (["operate", "tiny", "--targets", "all", "--parts", "kq", "--corpus", "birds.txt"], "parts:"),
        (["operate", "tiny", "--corpus", "birds.txt"], "either --targets for one pass or --plan"),
        (["operate", "tiny", "--plan", "no.toml", "--corpus", "birds.txt"], "plan not found: no.toml"),
        (["resume", "nothing-here"], "session not found: nothing-here"),
        (["resume", "empty"], "empty is no session"),
        (["apply", "nothing.safetensors", "--to", "out"], "patch not found"),
        (["undo", "nothing.safetensors", "tiny", "--to", "out"], "patch not found"),
        (["report", "empty", "--to", "out"], "empty is no session"),
        (["open", "empty"], "the app needs a terminal"),
    ],
)
def test_wrong_input_gets_one_sentence_and_leaves_nothing(  # type: ignore[no-untyped-def]
    run, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text('{"model_type": "mamba"}')
    make_patient(tmp_path / "tiny")
    write_corpus(tmp_path / "birds.txt")
    (tmp_path / "short.txt").write_text("too short\n")
    before = sorted(tmp_path.rglob("*"))
    assert sentence in refused(run(*arguments))
    after = [p for p in sorted(tmp_path.rglob("*")) if p not in before and p != tmp_path / "sessions"]
    assert after == []


def test_an_unknown_option_is_code_2_too(run) -> None:  # type: ignore[no-untyped-def]
    assert run("diagnose", "demo", "--speed", "9").code == 2
    assert run("dance").code == 2


def test_operate_apply_undo_report_and_list(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    make_patient(tmp_path / "tiny")
    write_corpus(tmp_path / "birds.txt")
    few = ["--steps", "4", "--length", "16", "--check-every", "2", "--lr", "1e-2"]
    done = run("operate", "tiny", "--targets", "L1-H0 | L2 x H1-2", "--corpus", "birds.txt", *few)
    assert done.code == 0
    assert "everything outside the slices: unchanged" in done.out
    (session,) = (tmp_path / "sessions").iterdir()
    listed = json.loads(run("sessions", "--json").out)
    assert [(row["id"], row["state"], row["heads"]) for row in listed] == [(session.name, "operated", 12)]
    assert run("apply", session, "--to", "out").code == 0
    assert run("undo", session, "out", "--to", "back").code == 0
    stock, back = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("tiny", "back"))
    assert stock == back
    assert (tmp_path / "out" / "model.safetensors").read_bytes() != stock
    written = run("report", session, "--to", "report").out.splitlines()
    assert {Path(w).suffix for w in written} >= {".md", ".html", ".csv", ".svg"}
    assert run("resume", session).code == 0
    found = run("preflight", "tiny", "--targets", "healthy", "--from", session, "--json")
    assert json.loads(found.out)["total_parameters"] > 0


def test_a_plan_file_runs_its_passes_in_order(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    make_patient(tmp_path / "tiny")
    write_corpus(tmp_path / "birds.txt")
    (tmp_path / "two.toml").write_text(
        '[[pass]]\ntargets = "L0-H1"\nsteps = 2\n\n[[pass]]\ntargets = "L1-H1"\nsteps = 3\nreinit = false\n'
    )
    done = run("operate", "tiny", "--plan", "two.toml", "--corpus", "birds.txt", "--length", "16")
    assert done.code == 0
    assert "pass 1, completed: 1 targets (L0-H1)" in done.out
    assert "pass 2, completed: 1 targets (L1-H1)" in done.out


def test_a_session_held_by_a_live_worker_is_refused(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    session = create_session(tmp_path / "sessions", events.Created(session="", model="demo"))
    with session.held():
        assert "is held by a live worker" in refused(run("resume", session.folder))


def test_a_damaged_record_is_named_and_left_alone(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    session = create_session(tmp_path / "sessions", events.Created(session="", model="demo"))
    session.record.write_text("schema = 1\n[[[")
    for command in (["resume", session.folder], ["report", session.folder, "--to", "out"]):
        assert "session.toml is damaged" in refused(run(*command))
    assert "unreadable" in run("sessions").out
    assert session.record.read_text() == "schema = 1\n[[["


@pytest.mark.parametrize("arguments", [["--help"], ["operate", "--help"], ["--version"], ["sessions"]])
def test_help_needs_no_heavy_library(arguments: list[str], tmp_path: Path) -> None:
    code = (
        "import sys; from engine import __main__ as program\n"
        f"sys.argv = ['headsurgeon', *{arguments!r}]\n"
        "try: program.main()\n"
        "except SystemExit as left: assert not left.code\n"
        "heavy = {'torch', 'transformers', 'datasets', 'textual'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    environment = {"PYTHONPATH": str(Path(program.__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, capture_output=True)
