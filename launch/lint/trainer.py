"""Rules on the arguments of the Hugging Face trainer, and on what they share with DeepSpeed's file."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from ..bundle import Bundle
from ..documents import Document
from ..trainer import Trainer
from .accelerate import layer_class
from .finding import Finding, at
from .keys import facts

SHARED: dict[str, tuple[str, Any]] = {
    "train_micro_batch_size_per_gpu": ("per_device_train_batch_size", 8),
    "gradient_accumulation_steps": ("gradient_accumulation_steps", 1),
    "gradient_clipping": ("max_grad_norm", 1.0),
    "optimizer.params.lr": ("learning_rate", 5e-5),
    "optimizer.params.eps": ("adam_epsilon", 1e-8),
    "optimizer.params.weight_decay": ("weight_decay", 0.0),
    "fp16.enabled": ("fp16", False),
    "bf16.enabled": ("bf16", False),
}
"""Keys the trainer compares with its own arguments, and their defaults (transformers 5.24.0)."""

ON, OFF = {"true", "1", "yes"}, {"false", "0", "no", "none"}
"""The newer spelling of `fsdp`, a switch."""

SIMILAR = 0.88
"""How alike a name and a known one are where it is a slip (difflib's ratio)."""


def findings(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """All rules of this client."""
    yield from _names(document)
    yield from _twice(bundle, document)
    yield from _engines(document)
    yield from _fsdp(document)


def contradictions(bundle: Bundle, file: Document) -> Iterator[Finding]:
    """Numbers in DeepSpeed's `file` that the trainer, whose arguments are there too, refuses."""
    trainer = Trainer(bundle)
    if not trainer.given:
        return
    for path, (name, default) in SHARED.items():
        theirs = file.get(path)
        if theirs is None or theirs == "auto":
            continue
        said = trainer.argument(name)
        ours = _value(said.value if said is not None else default, default)
        if ours is None or theirs == ours:
            continue
        whose = f"{name} is {_shown(ours)}" + ("" if said is not None else " where nothing is said")
        message = f"{path} is {_shown(theirs)} and {whose}: the trainer refuses to start"
        yield at(file, path, "trainer-contradiction", message, f'{path}: "auto", or {_shown(ours)}')


def _value(value: Any, default: Any) -> Any:
    """A word of the command line as the kind of its default; None where it comes from outside."""
    if not isinstance(value, str):
        return value
    if isinstance(default, bool):
        return value.lower() in ("true", "1", "yes")
    try:
        return type(default)(value)
    except ValueError:
        return None


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:40]


def _names(document: Document) -> Iterator[Finding]:
    known = facts("transformers")["names"]
    given = document.values["arguments"] if document.kind == "script" else document.values
    prefix = "arguments." if document.kind == "script" else ""
    for name in given:
        close = get_close_matches(name, known, n=1, cutoff=SIMILAR)
        if close and name not in known and not _own(name):
            message = f"{name} is no argument of the trainer"
            yield at(document, f"{prefix}{name}", "unknown-key", message, f"did you mean {close[0]}?")


def _own(name: str) -> bool:
    """Names of scripts and older releases that are near to a field and none."""
    return name in ("max_seq_length", "evaluation_strategy", "run_names", "local_rank", "warmup_ratio")


def _twice(bundle: Bundle, document: Document) -> Iterator[Finding]:
    trainer = Trainer(bundle)
    config = document.values.get("fsdp_config")
    inner = isinstance(config, dict) and config.get("activation_checkpointing") in (True, "true")
    if inner and trainer.recomputes:
        newer = trainer.argument("activation_checkpointing") is not None
        path = "activation_checkpointing" if newer else "gradient_checkpointing"
        message = "layers are recomputed twice: by the trainer and by FSDP"
        yield at(document, path, "recomputed-twice", message, f"{path}: false")
    if trainer.switch("bf16") and trainer.switch("fp16"):
        prefix = "arguments." if document.kind == "script" else ""
        message = "bf16 and fp16 exclude each other"
        yield at(document, f"{prefix}fp16", "two-precisions", message, "take fp16 away")


def _engines(document: Document) -> Iterator[Finding]:
    """Words of `fsdp`, and DeepSpeed beside it."""
    given = document.values["arguments"] if document.kind == "script" else document.values
    path = "arguments.fsdp" if document.kind == "script" else "fsdp"
    said = given.get("fsdp")
    listed = said if isinstance(said, list) else [said]
    words = " ".join(str(each).lower() for each in listed).split()
    if said in (None, False, "") or set(words) & OFF:
        return
    if given.get("deepspeed"):
        message = "fsdp and deepspeed exclude each other: the trainer refuses to start"
        yield at(document, path, "two-engines", message, "take one of them away")
    known = facts("transformers")["fsdp_words"]
    for word in words:
        if word not in known and word not in ON:
            close = get_close_matches(word, known, n=1, cutoff=0.0)[0]
            message = f"{word[:40]} is no word of fsdp: the trainer refuses to start"
            yield at(document, path, "unknown-word", message, f"did you mean {close}?")


def _fsdp(document: Document) -> Iterator[Finding]:
    config = document.values.get("fsdp_config")
    if not isinstance(config, dict):
        return
    known = facts("transformers")["fsdp"]
    second = str(config.get("version", config.get("fsdp_version"))) == "2"
    for key in config:
        bare, path = key.removeprefix("fsdp_"), f"fsdp_config.{key}"
        if bare not in known:
            close = get_close_matches(key, known, n=1, cutoff=0.0)[0]
            message = f"{path} is ignored by the trainer"
            yield at(document, path, "unknown-key", message, f"did you mean {close}?")
        elif bare in facts("transformers")["fsdp1"] and second:
            message = f"{key} does nothing under version 2"
            yield at(document, path, "no-effect", message, "take it away")
    yield from layer_class(document, "fsdp_config.transformer_layer_cls_to_wrap")
