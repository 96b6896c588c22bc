"""Files and paths that hold no config.json: one error each, naming the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwise.inputs import InputError
from shardwise.models import read_config

FILES: list[tuple[str, bytes, str]] = [
    ("empty", b"", "is empty"),
    ("blank", b" \n", "is empty"),
    ("binary", b"\x00\x01", "is binary"),
    ("not UTF-8", b"\xff{}", "is not UTF-8"),
    ("UTF-16", '{"model_type": "llama"}'.encode("utf-16"), "is UTF-16"),
    ("UTF-16 without a mark", '{"model_type": "llama"}'.encode("utf-16-le"), "is binary"),
    ("NUL in a word", b'{"model_type": "lla\x00ma"}', "is binary"),
    ("cut short", b'{"hidden_size": 64', "is not JSON"),
    ("a list", b"[1]", "must hold a JSON object"),
    ("not a number", b'{"model_type": "llama", "vocab_size": NaN}', "is not a finite number"),
    ("a key twice", b'{"hidden_size": 1, "hidden_size": 2}', "stands twice"),
    ("nested deeply", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    ("a number without end", b'{"hidden_size": ' + b"9" * 10_000 + b"}", "too long to read"),
    ("too large", b'{"a": "' + b"x" * 9_000_000 + b'"}', "is larger than"),
]


@pytest.mark.parametrize(("content", "words"), [file[1:] for file in FILES], ids=[file[0] for file in FILES])
def test_a_file_that_is_no_config_gives_one_error(content: bytes, words: str, tmp_path: Path) -> None:
    """Whatever the bytes are, the error names the file."""
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_config(path)

    assert words in caught.value.reason
    assert caught.value.origin.startswith(str(path))


@pytest.mark.parametrize("name", ["none.json", "folder", "folder/../none", "\0"])
def test_a_path_without_a_config_is_refused(name: str, tmp_path: Path) -> None:
    """A missing file, and a folder that holds no config.json."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError) as caught:
        read_config(f"{tmp_path}/{name}")

    assert (caught.value.field, caught.value.code) == ("model", "no-file")


def test_a_mark_of_byte_order_changes_nothing(tmp_path: Path) -> None:
    """UTF-8 with a BOM, as some editors write it."""
    path = tmp_path / "config.json"
    keys = b'{"model_type": "gpt2", "vocab_size": 512, "n_embd": 64, "n_layer": 2, "n_head": 4}'
    path.write_bytes(b"\xef\xbb\xbf" + keys)

    assert read_config(path).hidden_size == 64


def test_a_key_that_stands_twice_is_told_with_its_line(tmp_path: Path) -> None:
    """The second of two places; no line where a third could be meant."""
    path = tmp_path / "config.json"
    for text, place in (('{"a": 1,\n"a": 2}', ":2"), ('{"b": {"a": 0},\n"a": 1,\n"a": 2}', "")):
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            read_config(path)

        assert caught.value.origin == f"{path}{place}"


def test_a_link_to_itself_and_a_device_are_no_files(tmp_path: Path) -> None:
    """Neither is opened, so nothing hangs."""
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    for path in (loop, Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(InputError) as caught:
            read_config(path)

        assert caught.value.code == "no-file"
