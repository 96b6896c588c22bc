"""Reading the trainer's arguments back to choices, where they switch FSDP on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ...inputs import InputError
from ..accelerate.read import STRATEGIES
from ..bundle import Bundle, Given
from ..documents import Document, document
from ..fsdp.read import KINDS
from ..mesh import ranks_of
from ..trainer import DEFAULT_MICRO_BATCH, TRUE, Trainer
from .variables import CONTEXT, REPLICAS, ROTATION

FALSE = {"false", "0", "no", "none", ""}
ASIDE = ("auto_wrap", "offload")
"""Words of `fsdp` that are no sharding strategy."""


def shards(trainer: Trainer) -> bool:
    """Whether the arguments switch FSDP on."""
    said = trainer.argument("fsdp")
    return said is not None and str(said.value).lower() not in FALSE


def fields(bundle: Bundle, file: Document, cards: int, per_node: int) -> dict[str, Any]:
    """Choices by their name in `Strategy`; machines have `per_node` cards."""
    trainer = Trainer(bundle)
    config, words = _config(bundle, trainer, file), _words(trainer)
    world = bundle.world() or cards
    stage, group = _sharding(bundle, config, words, world, per_node)
    context = ranks_of(bundle, CONTEXT, world)
    precision = _precision(trainer, file)
    place = "cpu" if "offload" in words or _on(config, "cpu_offload") else "none"
    again = _on(config, "activation_checkpointing") or trainer.recomputes
    return {
        "backend": "fsdp",
        "software_stack": "fsdp-compile-2024" if trainer.switch("torch_compile") else "fsdp-hf-2023",
        "data_parallel": world // context,
        "context_parallel": context,
        "context_parallel_kind": _exchange(bundle) if context > 1 else "none",
        "zero_stage": stage,
        "shard_group_size": group,
        "reshard_after_forward": stage == 3,
        "micro_batch_size": trainer.number("per_device_train_batch_size") or DEFAULT_MICRO_BATCH,
        "gradient_accumulation_steps": trainer.number("gradient_accumulation_steps") or 1,
        "precision": precision,
        "gradient_dtype": precision,
        "loss_kernel": "chunked" if trainer.switch("use_liger_kernel") else "eager",
        "offload_optimizer": place,
        "offload_params": place,
        "recompute": "full" if again else "none",
    }


def _precision(trainer: Trainer, file: Document) -> str:
    chosen = [word for word in ("bf16", "fp16") if trainer.switch(word)]
    if len(chosen) > 1:
        raise InputError("fp16", "true", file.name, "bf16 and fp16 exclude each other", legal=["false"])
    return chosen[0] if chosen else "fp32"


def _words(trainer: Trainer) -> list[str]:
    """The words of the older spelling, `fsdp="full_shard auto_wrap"`; none of the newer, `fsdp=True`."""
    said = trainer.argument("fsdp")
    value: Any = said.value if said is not None else None
    listed = value if isinstance(value, list) else str(value).split()
    return [word for word in (str(each).lower() for each in listed) if word not in TRUE]


def _config(bundle: Bundle, trainer: Trainer, file: Document) -> dict[str, Given]:
    """Entries of `fsdp_config`, which may be a table, JSON text or the path of a file, without `fsdp_`."""
    said = trainer.argument("fsdp_config")
    if said is None:
        return {}
    value, where = said
    if isinstance(value, str):
        value = _loaded(bundle, value, where, file)
    if not isinstance(value, Mapping):
        raise InputError("fsdp_config", str(value)[:60], where, "must be a table or the path of a JSON file")
    return {
        str(key).removeprefix("fsdp_"): Given(entry, _place(file, str(key), where))
        for key, entry in value.items()
    }


def _place(file: Document, key: str, where: str) -> str:
    path = f"fsdp_config.{key}"
    return file.where(path) if path in file.lines else where


def _loaded(bundle: Bundle, text: str, where: str, file: Document) -> Any:
    """JSON text, or the file named, among those given or beside the arguments."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise InputError("fsdp_config", text[:60], where, "is no JSON") from None
    name = os.path.basename(text)
    held = next((each for each in bundle.documents if os.path.basename(each.name) == name), None)
    return (held or document(os.path.join(os.path.dirname(file.name), text))).values


def _sharding(
    bundle: Bundle, config: Mapping[str, Given], words: list[str], world: int, per_node: int
) -> tuple[int, int]:
    """(ZeRO stage, cards that share one copy) of FSDP2, or of FSDP1 where `version` is 1."""
    strategies = [word for word in words if word not in ASIDE]
    version = config.get("version")
    reshard = config.get("reshard_after_forward")
    if version is not None and str(version.value) not in ("1", "2"):
        legal = ["2", "1"]
        raise InputError(
            "fsdp_config.version", str(version.value)[:60], version.where, "is none", legal=legal
        )
    first = version is not None and str(version.value) == "1"
    word = str(reshard.value).upper() if reshard is not None else strategies[0].upper() if strategies else ""
    known = (
        {**STRATEGIES, "": 3}
        if first
        else {"TRUE": 3, "FALSE": 2, "FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "": 3}
    )
    if word not in known:
        where = reshard.where if reshard is not None else "fsdp"
        field = "fsdp" if reshard is None else "fsdp_config.reshard_after_forward"
        legal = ["full_shard", "shard_grad_op"] if first or reshard is None else ["true", "false"]
        reason = f"is not priced under FSDP{1 if first else 2}: its plans shard at the ZeRO stages 2 and 3"
        raise InputError(field, word.lower()[:60], where, reason, legal=legal)
    if first:
        return known[word], min(world, per_node) if "HYBRID" in word else world
    return known[word], world // ranks_of(bundle, REPLICAS, world)


def _exchange(bundle: Bundle) -> str:
    """How context ranks exchange a sequence; Accelerate's own way where nothing is said."""
    said = bundle.variable(ROTATION)
    word = said.value if said is not None else "allgather"
    if said is not None and word not in KINDS:
        raise InputError(ROTATION, word, said.where, "is no way to exchange a sequence", legal=[*KINDS])
    return KINDS[word]


def _on(config: Mapping[str, Given], key: str) -> bool:
    said = config.get(key)
    return said is not None and str(said.value).lower() in TRUE
