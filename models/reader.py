"""Reads a Hugging Face config.json into a Transformer, or refuses it by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from ..inputs import Frozen, read_text
from ..inputs.files import parse_json
from ..inputs.kinds import path_of
from .config_file import ConfigFile, NotFinite
from .depth import blocks, runs
from .facts import Facts
from .families import families
from .family import Family, Part, Scalar, Spelling
from .formula import evaluate
from .parameters import count
from .read_constants import read_constants
from .recognition import family_of, family_of_part, refuse_strange_keys
from .scope import CLASS_DEFAULT
from .transformer import Predictor, Tower, Transformer

MAX_PARAMETERS = 2**50
"""Largest model read, parameters; keeps every later product of bytes inside 64 bits."""


class ReadReport(Frozen):
    """What the reader made of a config.json.

    `used` maps a dimension to the key that gave it ("default of the class", "fact of the family", or "="
    and the formula that made it) and its value; what only a kind of layer or a nested part has carries
    its name.
    `defaults` are the keys that the file leaves out, with what the class takes for them; `ignored` the keys
    of the file that changed nothing. What a person should know of the file stands in `transformer.notes`.
    """

    transformer: Transformer
    used: dict[str, tuple[str, Scalar]] = {}
    defaults: dict[str, Scalar] = {}
    ignored: tuple[str, ...] = ()


def read_config(path: str | os.PathLike[str]) -> Transformer:
    """The model of a config.json, or of the folder that holds one.

    Raises InputError whose field is the key at fault and whose origin is ``file:line``; code
    "unknown-family" where no table fits, so that no parameter count is ever a guess.
    """
    return explain_config(path).transformer


def explain_config(path: str | os.PathLike[str]) -> ReadReport:
    """As `read_config`, with the key behind each dimension and the keys that were ignored."""
    name = path_of(path, "model")
    if os.path.isdir(name):
        name = os.path.join(name, "config.json")
    text = read_text(name, "model")
    folder, stem = os.path.split(os.path.abspath(name))
    called = os.path.basename(folder) if stem == "config.json" else os.path.splitext(stem)[0]
    keys = parse_json(text, "model", name, not_finite=NotFinite)
    return _report(ConfigFile(keys, name, text), called or "model")


def parse_config(config: Mapping[str, object], origin: str, name: str = "model") -> Transformer:
    """The model that the keys of a config.json describe; `origin` and `name` say where they come from."""
    return explain_keys(config, origin, name).transformer


def explain_keys(config: Mapping[str, object], origin: str, name: str = "model") -> ReadReport:
    """As `parse_config`, with the key behind each dimension."""
    return _report(ConfigFile(config, origin), name)


def _report(file: ConfigFile, name: str) -> ReadReport:
    family = family_of(file)
    parts = _parts(file, family)
    flat = tuple(key for part in parts.values() if not part.file.path for key in _known(part.family))
    file = file.opened(family.sections)
    refuse_strange_keys(file, family, flat)
    facts = Facts(file, family, parts)
    transformer = _composite(facts, name) if parts else _transformer(facts, name)
    total = count(transformer).total
    if total > MAX_PARAMETERS:
        reason = f"makes a model of {float(total):.2e} parameters; at most {float(MAX_PARAMETERS):.2e}"
        raise parts.get("text", facts).error("hidden_size", reason)
    transformer = transformer.model_copy(update={"notes": _notes(facts)})
    return ReadReport(
        transformer=transformer, used=_used(facts), defaults=_defaults(facts), ignored=_ignored(facts)
    )


def _known(family: Family) -> tuple[str, ...]:
    """Every key that the table of a family speaks of."""
    return (*family.keys, *family.expected, *family.ignored)


def _parts(file: ConfigFile, family: Family) -> dict[str, Facts]:
    """The dimensions of each nested section that there is."""
    found = {}
    for name, part in family.parts.items():
        given = file.keys.get(part.key) is not None
        if given or not (part.optional or part.flat):
            inner = file.section(part.key)
            _refuse_unsized(file, inner, part, name)
        elif part.flat:
            inner = file.without([*_NAMES, *family.keys, *(other.key for other in family.parts.values())])
        else:
            continue
        found[name] = _part(inner, part, name, family)
    return found


_NAMES = ("model_type", "architectures")


def _refuse_unsized(file: ConfigFile, inner: ConfigFile, part: Part, name: str) -> None:
    """Refuses a language model of which nothing is told: its class would make one, but nobody's."""
    spellings = families().family(part.family).dimensions.values()
    if name == "text" and not any(inner.first(spelling.keys) for spelling in spellings):
        raise file.error(part.key, "tells no dimension of the language model", code="missing")


def _part(file: ConfigFile, part: Part, name: str, outer: Family) -> Facts:
    family = family_of_part(file, part, "model" if name == "text" else "tower", outer)
    family = replace(family, dimensions={**family.dimensions, **part.dimensions})
    file = file.opened(family.sections)
    refuse_strange_keys(file, family, () if file.path else outer.ignored)
    return Facts(file, family)


def _composite(facts: Facts, name: str) -> Transformer:
    text = _transformer(facts.parts["text"], name)
    towers = [_tower(facts, part, inner) for part, inner in facts.parts.items() if part != "text"]
    return text.model_copy(
        update={
            "family": facts.family.name,
            "towers": tuple(towers),
            "tied_embeddings": facts.switch("tied_embeddings"),
            "other": text.other + facts.integer("other"),
            "source": facts.file.origin,
        }
    )


def _tower(facts: Facts, part: str, inner: Facts) -> Tower:
    connector = evaluate(facts.family.parts[part].connector, facts.value)
    return Tower(
        name=part,
        family=inner.family.name,
        hidden_size=inner.integer("hidden_size"),
        runs=runs(inner),
        tokens=inner.optional("tokens"),
        other=inner.integer("other"),
        connector=connector,
    )


def _transformer(facts: Facts, name: str) -> Transformer:
    offset, longest = facts.optional("learned_offset"), facts.optional("max_positions")
    width, hidden = facts.optional("embedding_width"), facts.integer("hidden_size")
    layers = runs(facts)
    routed = any(run.block.feed_forward.experts for run in layers)
    found = read_constants(facts.file, facts.family.name, longest, routed)
    facts.used |= found.used
    facts.class_defaults |= found.defaults
    return Transformer(
        name=name,
        family=facts.family.name,
        hidden_size=hidden,
        vocab_size=facts.integer("vocab_size"),
        runs=layers,
        tied_embeddings=facts.switch("tied_embeddings"),
        positions=0 if offset is None else (longest or 0) + offset,
        embedding_width=None if width == hidden else width,
        embedding_norm=facts.switch("embedding_norm"),
        final_norm=facts.switch("final_norm"),
        head=facts.switch("head"),
        head_bias=facts.switch("head_bias"),
        encoder_layers=facts.integer("encoder_layers"),
        predictor=_predictor(facts),
        other=facts.integer("other"),
        max_sequence_length=longest,
        constants=found.constants,
        source=facts.file.origin,
    )


def _predictor(facts: Facts) -> Predictor | None:
    """The further-token predictors that the file announces: each like the last layer of the stack."""
    depth = facts.optional("predictors")
    if not depth:
        return None
    return Predictor(block=blocks(facts)[-1], depth=depth, other=facts.integer("predictor_other"))


def _used(facts: Facts) -> dict[str, tuple[str, Scalar]]:
    order = [*facts.dimensions, *(f"{variant}.{name}" for variant, name, _ in facts.family.of_variants())]
    used = {name: facts.used[name] for name in dict.fromkeys([*order, *facts.used]) if name in facts.used}
    for part, inner in facts.parts.items():
        used |= {f"{part}.{name}": found for name, found in _used(inner).items()}
    return used


def _defaults(facts: Facts) -> dict[str, Scalar]:
    """Keys that are not in the file, each with the default of the class that was taken for it."""
    spellings = {name: spelling for variant, name, spelling in facts.family.of_variants()}
    spellings |= facts.dimensions
    found: dict[str, Scalar] = {}
    for called, (source, value) in facts.used.items():
        keys = spellings.get(called.rpartition(".")[2], Spelling()).keys
        if source == CLASS_DEFAULT and keys and value is not None:
            found[facts.file.called(keys[0])] = value
    found |= facts.class_defaults
    for inner in facts.parts.values():
        found |= _defaults(inner)
    return found


def _ignored(facts: Facts) -> tuple[str, ...]:
    """Keys that gave nothing, nested ones with their section."""
    flat = [inner for inner in facts.parts.values() if not inner.file.path]
    spoken = {source for source, _ in (found for one in (facts, *flat) for found in one.used.values())}
    spoken |= {"model_type", "architectures", *(part.key for part in facts.family.parts.values())}
    own = [facts.file.called(key) for key in facts.file.keys if facts.file.called(key) not in spoken]
    for inner in facts.parts.values():
        own += [key for key in _ignored(inner) if inner.file.path]
    return tuple(key for key in own if key.rpartition(".")[2] not in ("model_type", "architectures"))


def _notes(facts: Facts) -> tuple[str, ...]:
    """Sentences of the tables on keys that the file holds, nested ones too."""
    known = {**families().common.notes, **facts.family.notes}
    own = [f"{facts.file.called(key)} {note}" for key, note in known.items() if facts.file.keys.get(key)]
    return (*own, *(note for inner in facts.parts.values() if inner.file.path for note in _notes(inner)))
