import errno
import hashlib
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.errors import InputError
from engine.files import disk_full, require_space, sha256_of, write_atomic, write_text


@pytest.fixture
def old(tmp_path) -> Path:
    path = tmp_path / "session.toml"
    path.write_text("old", "utf-8")
    return path


def unharmed(path: Path) -> bool:
    """The old content is there and nothing else lies beside it."""
    return path.read_text("utf-8") == "old" and [p.name for p in path.parent.iterdir()] == [path.name]


def failing(error: OSError):
    def fail(*_args, **_kwargs):
        raise error

    return fail


def test_a_text_replaces_the_old_one(old):
    write_text(old, "neu: ä\n")
    assert old.read_bytes() == "neu: ä\n".encode()
    assert [p.name for p in old.parent.iterdir()] == [old.name]


def test_what_utf_8_cannot_hold_is_marked(old):
    write_text(old, "file \udcff")
    assert old.read_text("utf-8") == "file ?"


def test_a_new_file_may_begin(tmp_path):
    write_text(tmp_path / "new", "content")
    assert (tmp_path / "new").read_text("utf-8") == "content"


def test_the_content_is_on_the_disk_before_it_gets_its_name(old, monkeypatch):
    order = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("sync"), fsync(handle)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (order.append("rename"), replace(self, to))[1])
    write_text(old, "new")
    assert order == ["sync", "rename", "sync"]  # the last one is the folder's


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("where", ["write", "fsync", "rename"])
def test_a_full_disk_is_told_in_words_and_harms_nothing(old, monkeypatch, where, code):
    full = failing(OSError(code, "no room"))
    if where == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    if where == "rename":
        monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match="no room left on the disk"):
        write_atomic(old, full if where == "write" else lambda file: file.write(b"new"))
    assert unharmed(old)


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_any_other_failure_harms_nothing_either(old, monkeypatch, where):
    monkeypatch.setattr(os if where == "fsync" else Path, where, failing(OSError(errno.EIO, "broken disk")))
    with pytest.raises(OSError, match="broken disk"):
        write_text(old, "new")
    assert unharmed(old)


@pytest.mark.parametrize("error", [RuntimeError("half way"), KeyboardInterrupt()])
def test_a_writer_that_gives_up_half_way_harms_nothing(old, error):
    def half(file):
        file.write(b"ne")
        raise error

    with pytest.raises(type(error)):
        write_atomic(old, half)
    assert unharmed(old)


def test_only_a_full_disk_is_a_full_disk():
    assert disk_full(Path("x"), OSError(errno.EACCES, "no")) is None


def test_space_is_asked_for_first(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=5_000_000))
    require_space(tmp_path, 5_000_000, "the patch")
    with pytest.raises(InputError, match=r"the patch needs 6 MB in .* and only 5 MB are free"):
        require_space(tmp_path, 6_000_000, "the patch")


def test_digest_of_a_file(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256_of(tmp_path / "abc") == hashlib.sha256(b"abc").hexdigest()
    assert sha256_of(tmp_path / "abc").startswith("ba7816bf")
