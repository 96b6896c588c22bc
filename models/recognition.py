"""Which family reads a config.json, and whether that family's table knows all that matters in it."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from ..inputs import InputError, nearest
from ..inputs.error import shorten
from .config_file import ConfigFile
from .families import families
from .family import Family, Part

_NAMES = ("model_type", "architectures")


def family_of(file: ConfigFile) -> Family:
    """The family whose table reads `file`: by model_type, else by architectures; both must agree.

    Raises InputError, code "unknown-family", naming the keys met and the nearest known families.
    """
    table = families()
    model_type, classes = _model_type(file), _architectures(file)
    if model_type:
        name = table.of_model_type(model_type)
    else:
        name = next(filter(None, map(table.of_architecture, classes)), None)
    if not (model_type or classes):
        name = table.of_marks(file.keys)
    family = None if name is None else table.family(name)
    if family is None or family.role == "tower":
        raise _unknown(file, model_type, classes)
    _agree(file, family, classes)
    return family


def family_of_part(file: ConfigFile, part: Part, role: str, outer: Family) -> Family:
    """The family of a nested section: by its model_type, else the one that the composite expects."""
    table = families()
    model_type = _model_type(file)
    _architectures(file)  # refused where they are no words
    name = part.family if model_type in ("", *outer.model_types) else table.of_model_type(model_type)
    if name is None:
        raise _unknown(file, model_type, [])
    family = table.family(name)
    if family.role != role or family.parts or (part.families and name not in part.families):
        legal = part.families or (part.family,)
        raise file.error("model_type", f"{name} is not read in this place", legal, "unknown-family")
    return family


def _agree(file: ConfigFile, family: Family, classes: list[str]) -> None:
    known = tuple(family.architectures)
    for word in classes:
        if word not in known:
            other = families().of_architecture(word)
            what = f"is of the family {other}" if other else f"is not read, only {_some(known)}"
            reason = f"{shorten(word, 40)} {what}; the family is {family.name}"
            raise file.error("architectures", reason, known, "unknown-family")


def _some(words: tuple[str, ...]) -> str:
    return ", ".join(words[:3]) or "its language model"


def _model_type(file: ConfigFile) -> str:
    word = file.keys.get("model_type")
    if word is not None and not isinstance(word, str):
        raise file.error("model_type", "must be a word", nearest("llama", families().model_types))
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
    field, word = ("architectures", classes[0]) if classes and not model_type else ("model_type", model_type)
    reason = "neither model_type nor architectures names a family"
    if word:
        of = f" ({shorten(', '.join(classes), 60)})" if model_type and classes else ""
        reason = f"the family {shorten(word, 60)}{of} cannot be read yet"
    keys = sorted((key for key in file.keys if key not in _NAMES), key=lambda key: _rank(file, key))
    met = ", ".join(shorten(key, 40) for key in keys[:8])
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    reason += f"; the file holds {met}{more}" if keys else "; the file holds no other keys"
    inner = _readable(file)
    if inner:
        reason += f"; its {inner} can be read: saved as a config.json of its own it plans the language model"
    return file.error(field, reason, _near(word), "unknown-family")


def _readable(file: ConfigFile) -> str | None:
    """The nested object, if there is one, that is a language model of a family with a table."""
    for key, value in file.keys.items():
        kind = value.get("model_type") if isinstance(value, dict) else None
        name = families().of_model_type(kind) if isinstance(kind, str) else None
        if name is not None and families().family(name).role == "model":
            return key
    return None


def _near(word: str) -> list[str]:
    """Families of a like name, or a few that many models are of."""
    table = families()
    close = get_close_matches(word.lower()[:100], table.model_types, n=3, cutoff=0.5)
    return close or list(table.common.examples)


def _rank(file: ConfigFile, key: str) -> int:
    """How telling `key` is of an unknown family, most telling 0: nested, structural, any."""
    common = families().common
    if key in common.ignored:
        return 3
    if isinstance(file.keys[key], dict):
        return 0
    if not common.is_structural(key, None):
        return 3
    return 2 if key in families().family("llama").keys else 1


def refuse_strange_keys(file: ConfigFile, family: Family, others: Collection[str] = ()) -> None:
    """Refuses keys that may change the weights in a way the table of `family` does not know.

    `others` are keys that another table reads. Raises InputError, code "unknown-key". Absent, false,
    zero or empty values change nothing.
    """
    _refuse_broken(file)
    common = families().common
    expected = {**common.expected, **family.expected}
    own = {*family.keys, *family.ignored, *common.ignored, *others}
    own |= {part.key for part in family.parts.values()}
    own |= set(common.ignored_in_towers) if family.role == "tower" else set()
    strange = []
    for key, value in file.keys.items():
        if key in expected and key not in family.keys:
            if value is not None and value != expected[key]:
                only = str(expected[key]).lower()
                reason = f"{family.name} is read only with {only} here"
                raise file.error(key, reason, [only], "unknown-key")
        elif key == "auto_map":
            strange += [] if key in own or _own_class(value, family) else [key]
        elif not (key in own or key.rpartition(".")[2] in common.ignored or _idle(value)):
            strange += [key] if common.is_structural(key, value) else []
    if strange:
        others_ = f", so may {', '.join(shorten(key, 40) for key in strange[1:6])}," if strange[1:] else ""
        reason = f"may change the weights{others_} in a way not known of the family {family.name}; "
        reason += "take it out of the file if it does not"
        raise file.error(strange[0], reason, nearest(strange[0], family.keys), "unknown-key")


def _refuse_broken(file: ConfigFile) -> None:
    """Refuses nested objects that are none, though nothing of them is read."""
    for key, inside in families().common.objects.items():
        section = file.section(key)
        for name, kind in inside.items():
            if section.keys.get(name) is None:
                continue
            if kind == "word":
                section.word(name, ())
            else:
                section.integer(name, 1, 64)


def _own_class(auto_map: object, family: Family) -> bool:
    """Whether code that travels with the file builds no model, or a class that the family is."""
    if not isinstance(auto_map, dict):
        return False
    built = {key: str(value) for key, value in auto_map.items() if key.startswith("AutoModel")}
    named = built.get("AutoModelForCausalLM", "").rpartition(".")[2]
    return not built or named in family.architectures


def _idle(value: object) -> bool:
    """Whether a value switches nothing on."""
    return value in (None, False, "", [], {})
