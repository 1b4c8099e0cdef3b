"""The cache of object files: what comes from it, what is refused, and what others may do to its folder."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import HANGS, examples

from opendml.description.errors import ConfigurationError
from opendml.llvm import compiled_objects, object_cache
from opendml.llvm.compiled_objects import get_or_compile, object_key
from opendml.llvm.host import host_machine
from opendml.llvm.native import (
    DEFAULT_OPTIONS,
)
from opendml.llvm.object_cache import CacheWarning, ObjectCache, default_cache

POSIX = pytest.mark.skipif(os.name != "posix", reason="POSIX only")

ADD = "define i64 @add(i64 %a, i64 %b) {\n  %sum = add i64 %a, %b\n  ret i64 %sum\n}\n"


@pytest.fixture
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "cache"
    monkeypatch.setenv("OPENDML_CACHE_DIR", str(directory))
    monkeypatch.delenv("OPENDML_CACHE", raising=False)
    monkeypatch.delenv("OPENDML_CACHE_SIZE", raising=False)
    return directory


def test_second_compilation_comes_from_the_cache(cache_directory: Path) -> None:
    first, first_cached = get_or_compile(ADD, host_machine())
    second, second_cached = get_or_compile(ADD, host_machine())
    assert (first_cached, second_cached) == (False, True)
    assert first == second
    if os.name == "posix":
        assert cache_directory.stat().st_mode & 0o777 == 0o700
        assert all(path.stat().st_mode & 0o077 == 0 for path in cache_directory.iterdir())


def test_cache_can_be_switched_off(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE", "0")
    assert [get_or_compile(ADD, host_machine())[1] for _ in range(2)] == [False, False]
    assert not cache_directory.exists()


def test_key_depends_on_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    host, options = host_machine(), DEFAULT_OPTIONS
    keys = {
        object_key(ADD, host, options),
        object_key(ADD + " ", host, options),
        object_key(ADD, replace(host, llvm_features=host.llvm_features + ",-avx"), options),
        object_key(ADD, replace(host, cpu_name="other"), options),
        object_key(ADD, replace(host, triple="other"), options),
        object_key(ADD, host, replace(options, speed_level=options.speed_level + 1)),
        object_key(ADD, host, replace(options, between_functions=not options.between_functions)),
    }
    monkeypatch.setattr(compiled_objects, "compiler_version", lambda: "another")
    keys.add(object_key(ADD, host, options))
    monkeypatch.setattr(object_cache, "FORMAT_VERSION", 999)
    keys.add(object_key(ADD, host, options))
    assert len(keys) == 9


def test_entry_of_another_format_version_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, key = ObjectCache(tmp_path, 1 << 20, b"k" * 32), b"n" * 32
    cache.write(key, b"payload")
    monkeypatch.setattr(object_cache, "FORMAT_VERSION", object_cache.FORMAT_VERSION + 1)
    assert cache.read(key) is None
    assert not cache.path(key).exists()


@examples(60)
@given(data=st.data(), payload=st.binary(max_size=200))
def test_damaged_entry_is_removed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, payload: bytes
) -> None:
    cache, key = ObjectCache(tmp_path_factory.mktemp("cache"), 1 << 20, b"k" * 32), b"n" * 32
    cache.write(key, payload)
    assert cache.read(key) == payload
    path = cache.path(key)
    entry = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(entry) - 1))
    if data.draw(st.booleans()):
        entry[position] ^= data.draw(st.integers(1, 255))
    else:
        del entry[position:]
    path.write_bytes(entry)
    assert cache.read(key) is None
    assert not path.exists()


def test_entry_of_another_key_or_another_user_is_refused(tmp_path: Path) -> None:
    mine, theirs = (ObjectCache(tmp_path, 1 << 20, secret * 32) for secret in (b"m", b"t"))
    mine.write(b"1" * 32, b"payload")
    mine.path(b"1" * 32).rename(mine.path(b"2" * 32))
    assert mine.read(b"2" * 32) is None
    theirs.write(b"3" * 32, b"payload")
    assert mine.read(b"3" * 32) is None


def test_damaged_entry_is_compiled_again(cache_directory: Path) -> None:
    compiled, _ = get_or_compile(ADD, host_machine())
    for path in cache_directory.glob("*.object"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert get_or_compile(ADD, host_machine()) == (compiled, False)
    assert get_or_compile(ADD, host_machine()) == (compiled, True)


@POSIX
def test_directory_that_others_can_write_is_not_used(cache_directory: Path) -> None:
    cache_directory.mkdir()
    cache_directory.chmod(0o770)
    with pytest.warns(CacheWarning, match="other users can write to it"):
        assert default_cache() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # The second time it is silent.
        assert [get_or_compile(ADD, host_machine())[1] for _ in range(2)] == [False, False]
    assert not list(cache_directory.iterdir())


@POSIX
def test_directory_of_another_user_is_not_used(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_directory.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: cache_directory.stat().st_uid + 1)
    with pytest.warns(CacheWarning, match="it belongs to another user"):
        assert default_cache() is None


def test_file_in_place_of_the_directory_is_no_error(cache_directory: Path) -> None:
    cache_directory.write_text("")
    with pytest.warns(CacheWarning):
        assert get_or_compile(ADD, host_machine())[1] is False


def test_key_that_another_process_makes_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read, others = tmp_path / "key", object_cache._read_key, b"k" * 32

    def read_just_before(path: Path) -> bytes | None:
        monkeypatch.setattr(object_cache, "_read_key", read)
        try:
            return read(path)
        finally:
            object_cache._write(path, others)

    monkeypatch.setattr(object_cache, "_read_key", read_just_before)
    assert object_cache._authentication_key(path) == others
    assert path.read_bytes() == others


@POSIX
def test_key_that_others_can_read_is_replaced(cache_directory: Path) -> None:
    get_or_compile(ADD, host_machine())
    key_file = cache_directory / "key"
    old = key_file.read_bytes()
    key_file.chmod(0o644)
    object_cache._open_cache.cache_clear()
    assert get_or_compile(ADD, host_machine())[1] is False
    assert key_file.read_bytes() != old
    assert key_file.stat().st_mode & 0o777 == 0o600


def test_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, 40_000, b"k" * 32)
    keys = [bytes([number]) * 32 for number in range(30)]
    for number, key in enumerate(keys):
        cache.write(key, b"p" * 4000)
        if cache.path(key).exists():
            os.utime(cache.path(key), (number + 1000, number + 1000))
        cache.read(keys[0])  # Always in use: its time is now, later than all others'.
        assert sum(path.stat().st_size for path in tmp_path.glob("*.object")) <= cache.size_limit
    left = [number for number, key in enumerate(keys) if cache.path(key).exists()]
    assert left[0] == 0
    assert left[1:] == list(range(left[1], 30))
    assert len(left) >= 4


def test_entry_larger_than_the_cache_is_not_stored(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, 1000, b"k" * 32)
    cache.write(b"n" * 32, b"p" * 1000)
    assert cache.read(b"n" * 32) is None


@pytest.mark.parametrize(
    ("text", "size"), [("", 256 << 20), ("1000", 1000), ("2k", 2048), ("3M", 3 << 20), ("1G", 1 << 30)]
)
def test_size_of_the_environment(text: str, size: int) -> None:
    assert object_cache._parse_size(text) == size


def test_bad_size_of_the_environment(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE_SIZE", "lots")
    with pytest.raises(ConfigurationError, match="OPENDML_CACHE_SIZE='lots'"):
        default_cache()


WRITER = """
import sys
from opendml.llvm.host import host_machine
from opendml.llvm.object_cache import default_cache
cache = default_cache()
for round in range(150):
    key = bytes([round % 7]) * 32
    expected = bytes([round % 7]) * (5000 + round % 7)
    stored = cache.read(key)
    assert stored is None or stored == expected, "a torn entry"
    cache.write(key, expected)
print(cache._authentication_key.hex())
"""


def test_concurrent_processes(cache_directory: Path) -> None:
    environment = {**os.environ, "OPENDML_CACHE_SIZE": "60000"}
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    keys = {process.communicate(timeout=HANGS)[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(keys) == 1
    assert not list(cache_directory.glob(".new-*"))
