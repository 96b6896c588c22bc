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
