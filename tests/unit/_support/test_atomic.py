"""Atomic writes under failure."""

from __future__ import annotations

import errno
import os
import resource
import stat
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import save_file

from flowratio._support.atomic import remove_temporaries, replacing, short_name


def test_name_of_files_that_belong_to_a_file():
    assert short_name(Path("rows.csv")) == "4680db90.rows.csv"


class TestReplacing:
    def test_new_file_and_replaced_file(self, tmp_path):
        for text in ("old", "new"):
            with replacing(tmp_path / "a.json") as temporary:
                assert temporary.parent == tmp_path
                assert temporary.suffix == ".json"
                temporary.write_text(text)
            assert (tmp_path / "a.json").read_text() == text
        assert os.listdir(tmp_path) == ["a.json"]

    def test_takes_the_writers_of_arrays(self, tmp_path):
        X = np.arange(6.0)
        with replacing(tmp_path / "a.npy") as temporary:
            np.save(temporary, X)
        with replacing(tmp_path / "a.safetensors") as temporary:
            save_file({"X": X}, temporary)
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), X)
        assert sorted(os.listdir(tmp_path)) == ["a.npy", "a.safetensors"]

    @pytest.mark.parametrize("error", [KeyError("k"), KeyboardInterrupt(), OSError(errno.EPIPE, "a pipe")])
    def test_failure_keeps_the_old_file_and_the_error(self, tmp_path, error):
        (tmp_path / "a.json").write_text("old")

        def write_half() -> None:
            with replacing(tmp_path / "a.json") as temporary:
                temporary.write_text("half")
                raise error

        with pytest.raises(type(error)) as failure:
            write_half()
        assert failure.value is error
        assert (tmp_path / "a.json").read_text() == "old"
        assert os.listdir(tmp_path) == ["a.json"]

    @pytest.mark.parametrize("writer", ["bytes", "safetensors"])
    def test_full_disk(self, tmp_path, writer):
        (tmp_path / "a").write_text("old")

        def write() -> None:
            with replacing(tmp_path / "a") as temporary:
                if writer == "bytes":
                    temporary.write_bytes(bytes(100_000))
                else:
                    save_file({"X": np.zeros(100_000)}, temporary)

        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))  # a real write that fails half-way
        try:
            with pytest.raises(OSError, match=r"Cannot write .*a \(File too large\)\. Free some space") as error:
                write()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert error.value.errno == errno.EFBIG
        assert isinstance(error.value.__cause__, OSError if writer == "bytes" else SafetensorError)
        assert (tmp_path / "a").read_text() == "old"
        assert os.listdir(tmp_path) == ["a"]

    def test_full_disk_at_the_last_moment(self, tmp_path, monkeypatch):
        def fsync(handle: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match="Free some space") as error, replacing(tmp_path / "a"):
            pass
        assert error.value.errno == errno.ENOSPC
        assert os.listdir(tmp_path) == []

    def test_missing_folder(self, tmp_path):
        with (
            pytest.raises(
                FileNotFoundError, match=r"Cannot write .*b\.json.*folder exists.*choose another path"
            ) as error,
            replacing(tmp_path / "none" / "b.json"),
        ):
            pass
        assert error.value.errno == errno.ENOENT
        assert len(str(error.value).splitlines()) == 1

    def test_folder_that_cannot_be_written(self, tmp_path, monkeypatch):
        def refuse(path: str, flags: int, mode: int = 0o777) -> int:
            raise PermissionError(errno.EACCES, "Permission denied", path)

        monkeypatch.setattr(os, "open", refuse)  # permissions do not bind the superuser, who may run the tests
        with pytest.raises(PermissionError, match=r"Permission denied.*written") as error, replacing(tmp_path / "b"):
            pass
        assert error.value.errno == errno.EACCES

    def test_folder_in_the_place_of_the_file(self, tmp_path):
        with pytest.raises(OSError, match="because it is a folder"), replacing(tmp_path):
            pass

    def test_mode_is_that_of_a_plain_file_or_of_the_old_one(self, tmp_path):
        (tmp_path / "plain").write_text("")
        with replacing(tmp_path / "a"):
            pass
        assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode
        (tmp_path / "a").chmod(0o640)
        with replacing(tmp_path / "a"):
            pass
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640

    def test_link_stays_a_link(self, tmp_path):
        (tmp_path / "real").write_text("old")
        (tmp_path / "link").symlink_to("real")
        with replacing(tmp_path / "link") as temporary:
            temporary.write_text("new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == "new"

    def test_long_name(self, tmp_path):
        with replacing(tmp_path / ("ä" * 120 + ".json")) as temporary:
            temporary.write_text("{}")
        assert os.listdir(tmp_path) == ["ä" * 120 + ".json"]


def test_only_temporaries_of_the_file_are_removed(tmp_path):
    east, west = (tmp_path / f"{side}{'_rows' * 10}.csv" for side in ("east", "west"))
    with replacing(east) as temporary:
        temporary.write_text("whole")
        remove_temporaries(west)
        assert temporary.exists()
        left = temporary.read_bytes()
    temporary.write_bytes(left)  # as a kill would leave it
    remove_temporaries(east)
    assert os.listdir(tmp_path) == [east.name]
