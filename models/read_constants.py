"""Reading the numbers no price depends on from a config.json, by the table of their keys."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from ..inputs import InputError
from ..inputs.data import data
from .config_file import ConfigFile
from .constants import Constants, Rotary, Routing, Scaling
from .family import Scalar
from .scope import CLASS_DEFAULT

DEVIATION = {"initializer_range": 0.02}
"""The key of every class for the deviation of its first weights, and its default."""

SECTIONS = ("rope_scaling", "rope_parameters")
"""Objects that hold rotary scaling; transformers takes the first one that is there."""

POSITIVE = sys.float_info.min
"""The least number that is above 0."""

MOST = 1e30

_SCALING = {
    "factor": "factor",
    "original_length": "original_max_position_embeddings",
    "low_frequency": "low_freq_factor",
    "high_frequency": "high_freq_factor",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all_dim",
    "attention_factor": "attention_factor",
}


class Found(NamedTuple):
    """The constants of a file.

    `used` is, by name, the key that gave a number and the number; `defaults`, by key, what the class takes
    for keys that are not there.
    """

    constants: Constants | None
    used: dict[str, tuple[str, Scalar]]
    defaults: dict[str, Scalar]


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = data(__package__, "catalogue", "constants.json")["families"]
    return found


def read_constants(file: ConfigFile, family: str, longest: int | None, routed: bool) -> Found:
    """The constants of `file`, whose model reads at most `longest` tokens and has experts if `routed`.

    None for a family without a table. Raises `InputError` for a number that is none.
    """
    entry = _table().get(family)
    if entry is None:
        return Found(None, {}, {})
    keys = _Keys(file)
    made = Constants(
        norm_epsilon=keys.number("norm_epsilon", entry["norm_epsilon"]),
        activation=keys.word("activation", entry["activation"]),
        initial_deviation=keys.number("initial_deviation", DEVIATION),
        rotary=None if entry["rotary"] is None else _rotary(keys, entry["rotary"], longest),
        routing=_routing(keys, entry["routing"]) if routed and "routing" in entry else None,
    )
    return Found(made, keys.used, keys.defaults)


def usual_constants(family: str) -> Constants | None:
    """What the classes of `family` take where nothing is said; None for a family without a table."""
    return read_constants(ConfigFile({}, "class"), family, None, routed=True).constants


def _rotary(keys: _Keys, default: float, longest: int | None) -> Rotary:
    section, table = keys.section()
    base = keys.inner("rotary_base", section, table, "rope_theta", POSITIVE)
    if base is None:
        base = keys.number("rotary_base", {"rope_theta": default}, POSITIVE)
    share = keys.inner("rotary_share", section, table, "partial_rotary_factor", POSITIVE)
    if share is None and keys.file.keys.get("partial_rotary_factor") is not None:
        share = keys.number("rotary_share", {"partial_rotary_factor": 1.0}, POSITIVE)
    share = 1.0 if share is None else min(share, 1.0)
    return Rotary(base=base, share=share, scaling=_scaling(keys, section, table, longest))


def _scaling(keys: _Keys, section: str, table: Mapping[str, object], longest: int | None) -> Scaling | None:
    kind = table.get("rope_type", table.get("type", "default"))
    if not isinstance(kind, str):
        raise keys.wrong(f"{section}.rope_type", kind, "must be a word")
    if kind == "default":
        return None
    numbers = {
        name: keys.inner(f"rotary_{name}", section, table, key, POSITIVE if name in _ABOVE_0 else 0.0)
        for name, key in _SCALING.items()
    }
    found: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    if "original_length" in found:
        found["original_length"] = max(int(found["original_length"]), 1)
    elif kind in ("llama3", "yarn", "longrope"):
        found["original_length"] = longest
    keys.used["rotary_scaling"] = (section, kind[:64])
    return Scaling(kind=kind[:64], **found)


_ABOVE_0 = ("factor", "original_length", "low_frequency", "high_frequency", "beta_fast", "beta_slow")


def _routing(keys: _Keys, entry: Mapping[str, Any]) -> Routing:
    found: dict[str, Any] = {"score": entry["score"]}
    if "normalised" in entry:
        found["normalised"] = keys.switch("experts_normalised", entry["normalised"])
    for name in ("groups", "groups_per_token"):
        if name in entry:
            found[name] = max(int(keys.number(f"expert_{name}", entry[name])), 1)
    if "scale" in entry:
        found["scale"] = keys.number("expert_scale", entry["scale"], POSITIVE)
    return Routing(**found)


class _Keys:
    """The keys of one file, and which of them were used for what."""

    def __init__(self, file: ConfigFile) -> None:
        self.file = file
        self.used: dict[str, tuple[str, Scalar]] = {}
        self.defaults: dict[str, Scalar] = {}

    def number(self, name: str, spelled: Mapping[str, float], least: float = 0.0) -> float:
        """The number of a key, at least `least`; the default of the class without it."""
        ((key, default),) = spelled.items()
        value = self.file.keys.get(key)
        if value is None:
            self._default(name, key, default)
            return float(default)
        found = self._checked(key, value, least)
        self.used[name] = (key, found)
        return found

    def inner(
        self, name: str, section: str, table: Mapping[str, object], key: str, least: float
    ) -> float | None:
        """The number of a key inside a section; None without it."""
        if table.get(key) is None:
            return None
        found = self._checked(f"{section}.{key}", table[key], least)
        self.used[name] = (section, found)
        return found

    def word(self, name: str, spelled: Mapping[str, str]) -> str:
        """The word of a key, or the default of the class."""
        ((key, default),) = spelled.items()
        value = self.file.keys.get(key)
        if not isinstance(value, str):
            self._default(name, key, default)
            return default
        self.used[name] = (key, value[:64])
        return value[:64]

    def switch(self, name: str, spelled: Mapping[str, bool]) -> bool:
        """The switch of a key, or the default of the class."""
        ((key, default),) = spelled.items()
        value = self.file.keys.get(key)
        if not isinstance(value, bool):
            self._default(name, key, default)
            return default
        self.used[name] = (key, value)
        return value

    def section(self) -> tuple[str, dict[str, object]]:
        """Name and keys of the object on rotary scaling; layers that differ are of one kind, by_layer."""
        for name in SECTIONS:
            found = self.file.keys.get(name)
            if not found:
                continue
            if not isinstance(found, dict):
                raise self.wrong(name, found, "must be an object of keys")
            inner = [each for each in found.values() if isinstance(each, dict)]
            if not inner:
                return name, found
            same = all(each == inner[0] for each in inner)
            return name, inner[0] if same else {"rope_type": "by_layer"}
        return SECTIONS[0], {}

    def wrong(self, key: str, value: object, reason: str) -> InputError:
        """The error of a key."""
        origin = self.file.origin_of(key.partition(".")[0])
        return InputError(self.file.called(key), value, origin, reason)

    def _default(self, name: str, key: str, value: Scalar) -> None:
        self.used[name] = (CLASS_DEFAULT, value)
        self.defaults[self.file.called(key)] = value

    def _checked(self, key: str, value: object, least: float) -> float:
        """`value` as a finite number of at least `least`."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, value, "must be a number")
        if not math.isfinite(value) or not least <= value <= MOST:
            raise self.wrong(key, value, "must be a number above 0" if least else "must be at least 0")
        return float(value)
