"""Number formats that a card does not have, where a file names the card."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..documents import Document

CAPABILITY = {
    "v100": 70, "titan-v": 70, "t4": 75, "titan-rtx": 75, "rtx2080": 75, "2080ti": 75,
    "a100": 80, "a30": 80, "a800": 80, "a10": 86, "a10g": 86, "a16": 86, "a40": 86, "a6000": 86, "3090": 86,
    "rtx3090": 86, "l4": 89, "l40": 89, "l40s": 89, "4090": 89, "rtx4090": 89, "rtx6000ada": 89,
    "h100": 90, "h200": 90, "h800": 90, "h20": 90, "gh200": 90,
    "b100": 100, "b200": 100, "gb200": 100, "b300": 103, "gb300": 103, "5090": 120, "rtx5090": 120,
}  # fmt: skip
"""Ten times the compute capability (NVIDIA, CUDA GPUs): 80 has bfloat16, 89 fp8, 100 block-scaled fp8."""

BF16, FP8, MXFP8 = 80, 89, 100
OPTIONS = ("gres", "gpus", "gpus_per_node", "gpus_per_task", "constraint", "C", "G")
_WORD = re.compile(r"[a-z]*\d+[a-z]*")


def cards(documents: Iterator[Document] | tuple[Document, ...]) -> Iterator[tuple[str, int]]:
    """(name, capability) of every card that a batch directive or the head of a script of ours names."""
    for document in documents:
        if document.kind != "script":
            continue
        batch = document.values["sbatch"]
        said = [batch.get(option, "") for option in OPTIONS]
        said += [document.values["about"]]
        for text in said:
            for word in _WORD.findall(text.lower()):
                if word in CAPABILITY:
                    yield word, CAPABILITY[word]
