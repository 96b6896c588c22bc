"""``--set key=value`` and flags: which field of the request they mean, and their values."""

from __future__ import annotations

import re
from typing import Any

from ..inputs import InputError, nearest
from .choose import Choose
from .cluster_table import CLUSTER_KEYS
from .limits import Limits, Objective
from .training_table import TRAINING_KEYS

FIELDS: tuple[str, ...] = (
    "model",
    *(f"cluster.{key}" for key in CLUSTER_KEYS),
    *(f"training.{key}" for key in TRAINING_KEYS),
    *(f"choose.{key}" for key in Choose.model_fields),
    *(f"limits.{key}" for key in Limits.model_fields),
    *(f"objective.{key}" for key in Objective.model_fields),
)
"""Every field of a request file, dotted."""

INSIDE = "cluster.node."
"""Fields of the machine and its card can be set too: ``cluster.node.nic_bytes_per_s``."""

TEXTS = (
    "model", "cluster.preset", "cluster.file", "cluster.site", "cluster.machine", "cluster.gpu",
    "cluster.mig", "cluster.fabric", "cluster.host_class", "cluster.link", "training.optimizer",
    "training.reference_model", "objective.minimize"
)  # fmt: skip
"""Fields whose value is text as it stands, never read as a number."""

FLAGS = {
    "model": "MODEL",
    "cluster.preset": "--cluster",
    "cluster.file": "--cluster",
    **{
        field: "--" + field.partition(".")[2].replace("_", "-")
        for field in FIELDS
        if field.startswith("training.")
    },
    **{f"cluster.{key}": f"--{key}" for key in ("nodes", "gpus", "oversubscription", "site")},
}
"""The flag that gives a field."""


SHORT = {
    "tp": "choose.tensor_parallel",
    "pp": "choose.pipeline_parallel",
    "dp": "choose.data_parallel",
    "cp": "choose.context_parallel",
    "ep": "choose.expert_parallel",
    "etp": "choose.expert_tensor_parallel",
    "zero": "choose.zero_stage",
    "micro_batch": "choose.micro_batch_size",
    "accumulation": "choose.gradient_accumulation_steps",
    "shard_group": "choose.shard_group_size",
    "hpz": "choose.secondary_shard_group_size",
}
"""Fields by the short words of a printed layout."""


def field_of(key: str, origin: str) -> str:
    """The dotted field that `key` means: itself, the one whose last word it is, or a word of a layout.

    A table of a strategy is written as answers have it.

    >>> field_of("offload_optimizer", "--set"), field_of("overlap.gradient_reduce", "--set")
    ('choose.offload_optimizer', 'choose.overlap_gradient_reduce')
    """
    if key in FIELDS or key.startswith(INSIDE):
        return key
    ends = [field for field in FIELDS if field.rpartition(".")[2] == key.replace(".", "_")]
    if len(ends) == 1:
        return ends[0]
    short = SHORT.get(key.replace("-", "_").replace(" ", "_").lower())
    if short in FIELDS:
        return short
    known = [*FIELDS, *(field.rpartition(".")[2] for field in FIELDS)]
    legal = nearest(key, known)
    flag = origin.partition(" ")[0] if origin.startswith("--") else "key"
    raise InputError(flag, key, origin, "is no field of a request", legal=legal, code="unknown-field")


_WHOLE = re.compile(r"0|[1-9][0-9]*")
"""What nearly every flag holds: a whole number, read without loading a reader of TOML."""


def value_of(text: str, field: str) -> Any:
    """`text` as a TOML value, or as it stands where it is none or `field` takes text.

    >>> value_of("[1, 2]", "choose.tensor_parallel"), value_of("1..8", "choose.tensor_parallel")
    ([1, 2], '1..8')
    """
    if field in TEXTS or len(text) > 500 or "\n" in text or "\r" in text:
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    import tomllib

    try:
        found = tomllib.loads(f"x = {text}")
    except (ValueError, RecursionError):
        return text
    return found["x"] if set(found) == {"x"} else text


_NEXT = re.compile(r",\s*(?=[A-Za-z_][\w.]*\s*=(?!=))")


def settings_in(text: str) -> list[str]:
    """The ``key=value`` pieces of one text; commas inside brackets or quotes part nothing.

    >>> settings_in("zero_stage=3, tensor_parallel=[1, 2],nodes=4")
    ['zero_stage=3', 'tensor_parallel=[1, 2]', 'nodes=4']
    """
    found, start = [], 0
    for match in _NEXT.finditer(text):
        piece = text[start : match.start()]
        if _balanced(piece):
            found.append(piece)
            start = match.end()
    return [*found, text[start:]]


def _balanced(text: str) -> bool:
    return text.count("[") <= text.count("]") and text.count('"') % 2 == 0 and text.count("'") % 2 == 0


def parsed(setting: str, flag: str = "--set") -> tuple[str, Any, str]:
    """(dotted field, value, origin) of one ``key=value``, of `flag`."""
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise InputError(flag, setting, flag, "must be written key=value", legal=["tensor_parallel=4"])
    origin = f"{flag} {setting if len(setting) <= 60 else setting[:57] + '...'}"
    field = field_of(key.strip(), origin)
    return field, value_of(text.strip(), field), origin
