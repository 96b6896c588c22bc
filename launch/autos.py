"""Where a DeepSpeed file says auto, and who fills it in.

The Hugging Face trainer and Accelerate fill in the keys they know and stop at any other (accelerate,
utils/dataclasses.py, fill_match). DeepSpeed fills in nothing: it leaves an auto of its tables out
(runtime/config_utils.py), and compares the word with numbers at the top of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .bundle import Bundle
from .documents import Document

AUTO = "auto"


def autos(document: Document) -> Iterator[str]:
    """Dotted paths at which a file says auto."""
    yield from _inside(document.values, "")


def by_deepspeed_alone(bundle: Bundle, document: Document) -> bool:
    """Whether no trainer reads the file: no arguments of one beside it, and no script hands it to one."""
    if document.name.endswith(".hf.json") or bundle.of("transformers") or bundle.of("accelerate"):
        return False
    handed = bundle.argument("deepspeed")
    return handed is None or bundle.argument("deepspeed_config") is not None


def _inside(table: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in table.items():
        inner = f"{path}.{key}" if path else key
        if value == AUTO:
            yield inner
        elif isinstance(value, Mapping):
            yield from _inside(value, inner)
