"""Files that mean harm: one clear message, bounded memory, no code run, nothing written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardwise.cli import main

MEMORY = 300 * 2**20
"""Bytes of address space that `lint` may take on any of these files."""

SECONDS = 20
RUN = "import sys; from shardwise.cli import main; sys.exit(main(sys.argv[1:]))"


def text(name: str, content: str) -> Callable[[Path], Path]:
    """A file of that content."""
    return data(name, content.encode())


def data(name: str, content: bytes) -> Callable[[Path], Path]:
    """A file of those bytes."""

    def made(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return made


def sparse(folder: Path) -> Path:
    """100 MB of nothing."""
    path = folder / "large.json"
    with path.open("wb") as file:
        file.truncate(100 * 2**20)
    return path


def spaces(folder: Path) -> Path:
    """100 MB of text."""
    path = folder / "large.yaml"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"a: 1\n" * (2**20 // 5))
    return path


def loop(folder: Path) -> Path:
    """A link to itself."""
    path = folder / "loop.json"
    path.symlink_to(path)
    return path


def empty(folder: Path) -> Path:
    """A folder without files."""
    path = folder / "folder"
    path.mkdir()
    return path


def pipe(folder: Path) -> Path:
    """A named pipe, which nobody writes to."""
    path = folder / "pipe.json"
    os.mkfifo(path)
    return path


def many(folder: Path) -> Path:
    """A folder of a thousand files."""
    path = folder / "many"
    path.mkdir()
    for index in range(1000):
        (path / f"{index}.json").write_text("{}", encoding="utf-8")
    return path


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
GROWTH = "A=x\n" + "A=\"$A$A\"\n" * 3 + "".join(
    f"{b}=({' '.join(['${' + a + '[@]}'] * 30)})\n" for a, b in zip("ABCDEF", "BCDEFG", strict=True)
) + "torchrun x.py --num-layers ${G[@]}\n"  # fmt: skip

REFUSED = {
    "yaml bomb": text("bomb.yaml", BOMB),
    "yaml tag": text("tag.yaml", '!!python/object/apply:os.system ["touch TRAP"]\n'),
    "yaml tag inside": text("tag.yaml", 'a: !!python/object/apply:os.system ["touch TRAP"]\n'),
    "yaml merge": text("merge.yaml", "a: &x {b: 1}\nc:\n  <<: *x\n"),
    "yaml documents": text("two.yaml", "a: 1\n---\nb: 2\n"),
    "yaml list": text("list.yaml", "- 1\n- 2\n"),
    "yaml deep": text("deep.yaml", "a: " + "[" * 50_000),
    "yaml keys": text("keys.yaml", "a: 1\na: 2\n"),
    "yaml number": text("number.yaml", "a: " + "9" * 5000 + "\n"),
    "json deep": text("deep.json", '{"a":' * 100_000),
    "json lists": text("lists.json", '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "json number": text("number.json", '{"a": ' + "9" * 100_000 + "}"),
    "json twice": text("twice.json", '{"a": 1, "a": 2}'),
    "json nan": text("nan.json", '{"a": NaN}'),
    "json list": text("list.json", "[1]"),
    "toml deep": text("deep.toml", "a = " + "[" * 20_000),
    "toml dotted": text("dotted.toml", ".".join("a" * 2000) + " = 1\n"),
    "100 MB of nothing": sparse,
    "100 MB of text": spaces,
    "nul": data("nul.json", b'{"a": 1}\0'),
    "utf-16": data("wide.json", '{"a": 1}'.encode("utf-16")),
    "latin-1": data("latin.yaml", b"name: caf\xe9\n"),
    "empty file": text("nothing.yaml", " \n"),
    "link to itself": loop,
    "empty folder": empty,
    "pipe": pipe,
    "many files": many,
    "shell growth": text("growth.sh", GROWTH),
    "python": text("broken.py", "def (:\n"),
    "python deep": text("deep.py", "A = " + "(" * 20_000 + ")" * 20_000),
    "hostfile": text("hostfile", "node-0 slots=eight\n"),
}
"""What is refused, with what makes it."""


def limited() -> None:
    """Bounds of the process that reads them."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_file_is_one_message(tmp_path: Path, name: str) -> None:
    """Exit 2 within 20 s and 300 MB, one line on standard error, nothing run, nothing written."""
    path = REFUSED[name](tmp_path)
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-c", RUN, "lint", str(path)],
        capture_output=True, text=True, timeout=60, preexec_fn=limited, cwd=tmp_path,
    )  # fmt: skip

    assert done.returncode == 2, done.stderr[-500:]
    assert done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert "defect" not in done.stderr
    assert len(done.stderr) < 1000
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["yaml bomb", "yaml tag", "json deep", "100 MB of nothing", "nul", "pipe"])
def test_check_refuses_it_alike(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files behind --config."""
    monkeypatch.chdir(tmp_path)
    path = REFUSED[name](tmp_path)
    words = ["check", "llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", "1", "--global-batch-size", "64"]
    words += ["--sequence-length", "2048", "--config", str(path)]

    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "TRAP").exists()


COMMANDS = """\
$(touch TRAP) `touch TRAP`
touch TRAP; torchrun --nproc-per-node $(touch TRAP; echo 8) x.py --num-layers 4
cat <<EOF
--fp16
EOF
X=$(touch TRAP)
"""


def test_a_script_is_read_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Substitutions stay text, here-documents are no arguments."""
    monkeypatch.chdir(tmp_path)
    path = text("trap.sh", COMMANDS)(tmp_path)

    main(["lint", str(path)])
    assert not (tmp_path / "TRAP").exists()


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    """Links that lead to a plain file are as good as the file."""
    text("ds.json", '{"train_micro_batch_size_per_gpu": 1}')(tmp_path)
    (tmp_path / "link.json").symlink_to(tmp_path / "ds.json")

    assert main(["lint", str(tmp_path / "link.json")]) == 0


WRITER = """
import os, signal, sys
from pathlib import Path
from shardwise.inputs import write_folder

write_folder(Path("warm"), {"x": ""}, force=True)
write_folder(Path("warm"), {"x": ""}, force=True)
left = int(sys.argv[1])

def watch(event, arguments):
    global left
    if event.startswith(("os.", "open", "shutil.", "tempfile.", "ctypes.call")):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
write_folder(Path("run"), {f"file{index}": "b" * 4096 for index in range(5)}, force=True)
print(left)
"""
"""Writes over the folder `run`, and is killed before the n-th thing it asks of the system."""


def killed_at(folder: Path, moment: int) -> tuple[bool, set[str]]:
    """(whether the writer came to its end, contents of the files of `run` afterwards)."""
    (folder / "run").mkdir(parents=True)
    for index in range(5):
        (folder / "run" / f"file{index}").write_text("a" * 4096, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", WRITER, str(moment)], cwd=folder, capture_output=True)
    assert done.returncode in (0, -9), done.stderr
    files = sorted((folder / "run").iterdir())
    assert [file.name for file in files] == [f"file{index}" for index in range(5)]
    return done.returncode == 0, {file.read_text(encoding="utf-8") for file in files}


def test_a_killed_writer_leaves_a_whole_folder(tmp_path: Path) -> None:
    """Killed before each thing it asks of the system: the old folder or the new one stands there, whole."""
    seen, moment, ended = [], 0, False
    while not ended:
        moment += 1
        ended, contents = killed_at(tmp_path / str(moment), moment)
        assert contents in ({"a" * 4096}, {"b" * 4096})
        seen.append(contents.pop()[0])

    assert moment > 10
    assert "".join(seen) == "a" * seen.count("a") + "b" * seen.count("b")
    assert 0 < seen.count("b") < moment
