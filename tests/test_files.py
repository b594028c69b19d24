"""Files that are written whole or not at all."""

import os
import threading

import pytest

from steadyrank.core.files import replacing


def test_a_file_takes_the_place_of_another_at_the_end(tmp_path):
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    with pytest.raises(TypeError), replacing(path) as file:
        file.write([b"half", file.write(b"no bytes")])
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["kept"]


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "kept"
    path.write_bytes(b"old")

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"), replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["kept"]


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as failure, replacing(tmp_path / "none" / "kept"):
        pass
    assert failure.value.filename == str(tmp_path / "none" / "kept")


def test_threads_that_write_the_same_file_do_not_mix(tmp_path):
    path, begin = tmp_path / "kept", threading.Barrier(4)

    def write(letter):
        begin.wait()
        for _ in range(20):
            with replacing(path) as file:
                for _ in range(50):
                    file.write(letter * 1000)
                    file.flush()

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c", b"d")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            content = path.read_bytes()
            assert len(content) == 50_000
            assert len(set(content)) == 1
    assert os.listdir(tmp_path) == ["kept"]


def test_a_pipe_is_written_to_and_a_secret_is_for_its_owner(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDWR)  # both ends, so that neither waits for the other
    with replacing(tmp_path / "pipe") as file:
        file.write(b"words")
    assert os.read(reader, 10) == b"words"
    assert (tmp_path / "pipe").is_fifo()
    os.close(reader)
    with replacing(tmp_path / "secret", 0o600) as file:
        file.write(b"words")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
