"""Which family reads a config.json, and whether that family's table knows all that matters in it."""

from __future__ import annotations

from ..inputs import InputError, nearest
from ..inputs.error import shorten
from .config_file import ConfigFile
from .families import families

_NAMES = ("model_type", "architectures")


def family_of(file: ConfigFile) -> str:
    """The family whose table reads `file`: by model_type, else by architectures; both must agree.

    Raises InputError, code "unknown-family", naming the keys met and the nearest known families.
    """
    table = families()
    model_type, classes = _model_type(file), _architectures(file)
    if model_type:
        family = table.of_model_type(model_type)
    else:
        family = next(filter(None, map(table.of_architecture, classes)), None)
    if family is None:
        raise _unknown(file, model_type, classes)
    known = table.families[family].architectures
    for word in classes:
        if word not in known:
            other = table.of_architecture(word)
            what = f"is of the family {other}" if other else "is not read, only the causal language model is"
            reason = f"{shorten(word, 40)} {what}; the family is {family}"
            raise file.error("architectures", reason, known, "unknown-family")
    return family


def _model_type(file: ConfigFile) -> str:
    word = file.keys.get("model_type")
    if word is not None and not isinstance(word, str):
        raise file.error("model_type", "must be a word", nearest("llama", families().families))
    return word or ""


def _architectures(file: ConfigFile) -> list[str]:
    words = file.keys.get("architectures")
    if words is None:
        return []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise file.error("architectures", "must be a list of class names", ['["LlamaForCausalLM"]'])
    return words


def _unknown(file: ConfigFile, model_type: str, classes: list[str]) -> InputError:
    """The refusal of a family without a table; of the keys met, the telling ones come first."""
    table = families()
    field, word = ("architectures", classes[0]) if classes and not model_type else ("model_type", model_type)
    reason = "neither model_type nor architectures names a family"
    if word:
        of = f" ({shorten(', '.join(classes), 60)})" if model_type and classes else ""
        reason = f"the family {shorten(word, 60)}{of} cannot be read yet"
    keys = sorted((key for key in file.keys if key not in _NAMES), key=lambda key: _rank(file, key))
    met = ", ".join(shorten(key, 40) for key in keys[:8])
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    reason += f"; the file holds {met}{more}" if keys else "; the file holds no other keys"
    names = [name for family in table.families.values() for name in family.model_types]
    legal = nearest(word, names, most=len(names))
    return file.error(field, reason, legal, "unknown-family")


def _rank(file: ConfigFile, key: str) -> int:
    """How telling `key` is of an unknown family, most telling 0: nested, strange, structural, any."""
    table = families()
    if key in table.common.ignored:
        return 3
    if isinstance(file.keys[key], dict):
        return 0
    if not table.common.is_structural(key, None):
        return 3
    return 2 if any(key in family.keys for family in table.families.values()) else 1


def refuse_strange_keys(file: ConfigFile, family: str) -> None:
    """Refuses keys that may change the weights in a way the table of `family` does not know.

    Raises InputError, code "unknown-key". Absent, false, zero or empty values change nothing.
    """
    table = families()
    own = table.families[family]
    expected = {**table.common.expected, **own.expected}
    strange = []
    for key, value in file.keys.items():
        if key in expected:
            if value is not None and value != expected[key]:
                only = str(expected[key]).lower()
                raise file.error(key, f"{family} is read only with {only} here", [only], "unknown-key")
        elif not (key in own.keys or table.ignores(family, key) or value in (None, False, "", [], {})):
            strange += [key] if table.common.is_structural(key, value) else []
    if strange:
        others = f", so may {', '.join(shorten(key, 40) for key in strange[1:6])}," if strange[1:] else ""
        reason = f"may change the weights{others} in a way not known of the family {family}; "
        reason += "take it out of the file if it does not"
        raise file.error(strange[0], reason, nearest(strange[0], own.keys), "unknown-key")
