"""Rules on the script that starts a run."""

from __future__ import annotations

from collections.abc import Iterator

from ...inputs import InputError
from ..bundle import Bundle
from ..documents import Document
from .finding import Finding


def findings(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """All rules on scripts."""
    programs = [word.rpartition("/")[2] for word in document.values["programs"]]
    if "accelerate" in programs and "launch" in programs:
        yield from _default_config(document)
    if "torchrun" in programs:
        yield from _connections(bundle, document)


def _default_config(document: Document) -> Iterator[Finding]:
    if "config_file" in document.values["arguments"]:
        return
    message = (
        "accelerate launch reads default_config.yaml of the user's home where no file is named: "
        "an old one may switch FSDP or DeepSpeed on"
    )
    yield Finding("default-config", document.name, _line(document), message, "--config_file FILE")


def _connections(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """Megatron-LM's own demand under tensor or context parallel on cards before Blackwell."""
    try:
        degrees = [bundle.number(f"{n}_parallel_size") or 1 for n in ("tensor_model", "context")]
    except InputError:
        return
    environment = document.values["environment"]
    if max(degrees) > 1 and "CUDA_DEVICE_MAX_CONNECTIONS" not in environment:
        message = "without CUDA_DEVICE_MAX_CONNECTIONS=1 Megatron-LM does not hide its communication"
        mend = "export CUDA_DEVICE_MAX_CONNECTIONS=1"
        yield Finding("connections", document.name, _line(document), message, mend)


def _line(document: Document) -> int:
    """The first line with a word of a command."""
    lines = [line for path, line in document.lines.items() if path.startswith(("arguments.", "programs"))]
    return min(lines, default=1)
