"""Files appear whole or not at all."""

import os
import stat

import pytest

from bpuc.base.errors import FileError
from bpuc.base.files import LARGEST, atomic_file, check_writable, make_folder, read_bytes, write_atomic


def test_new_and_replaced(tmp_path):
    path = tmp_path / "x"
    write_atomic(path, "häuser")
    assert path.read_bytes() == "häuser".encode()
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_fault_leaves_the_old_file_and_nothing_else(tmp_path, fault):
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def write():
        with atomic_file(path) as f:
            f.write(b"half")
            raise fault

    with pytest.raises(fault):
        write()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_the_old_file_stands_until_the_end(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with atomic_file(path) as f:
        f.write(b"new")
        f.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "x", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


@pytest.mark.parametrize("path", ["/dev/null", ".", "nowhere/x", "a\0b"])
def test_impossible_paths_are_refused(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match="cannot write"):
        write_atomic(path, b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_file_error(tmp_path):
    with pytest.raises(FileError, match="No space left"), atomic_file(tmp_path / "x"):
        raise OSError(28, "No space left on device")


def test_reading_says_what_the_file_should_have_been(tmp_path):
    with pytest.raises(FileError, match=r"cannot read the model .*No such file"):
        read_bytes(tmp_path / "none", "the model")


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    write_atomic(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "new"
    assert [p.name for p in (tmp_path / "there").iterdir()] == ["file"]


def test_a_link_into_nowhere_names_the_folder_that_is_missing(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "missing" / "file")
    with pytest.raises(FileError, match=r"there is no folder .*missing"):
        check_writable(tmp_path / "link")


def test_a_folder_is_made_once_and_never_over_a_file(tmp_path):
    assert make_folder(tmp_path / "a" / "b").is_dir()
    assert make_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="it is no folder"):
        make_folder(tmp_path / "file")
    with pytest.raises(FileError, match="cannot write to the folder"):
        make_folder(tmp_path / "file" / "below")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_what_never_ends_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert read_bytes(tmp_path / "pipe", "the model") == b""  # nobody writes to it, and nobody waits
    for device in ("/dev/zero", "/dev/full"):
        with pytest.raises(FileError, match=r"cannot read the model .*a device"):
            read_bytes(device, "the model")


def test_a_pipe_is_read_to_its_end():
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as f:
        f.write(b"abc" * 1000)
    assert read_bytes(f"/dev/fd/{reading}", "the model") == b"abc" * 1000
    os.close(reading)


def test_a_file_beyond_protobuf_s_end_is_refused_unread(tmp_path):
    with (tmp_path / "sparse").open("wb") as f:
        f.truncate(LARGEST + 1)
    with pytest.raises(FileError, match="larger than 2048 MB"):
        read_bytes(tmp_path / "sparse", "the model")
