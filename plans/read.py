"""Reading a request: file, settings and flags laid over one another, each value with its origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..inputs import InputError, nearest, shorten
from ..inputs.files import parse_json
from ..inputs.kinds import path_of, refuse_no_list, refuse_no_mapping
from ..inputs.origin import as_input_error, origin_of, placed
from ..inputs.record import dataclass
from ..models import Transformer
from .choose import Choose
from .cluster_table import cluster_of
from .limits import Limits, Objective
from .model_name import is_path, transformer_of
from .question import Question, question_of
from .raw import Raw, raw_of, read_source
from .request import RIVALS, Request
from .settings import FLAGS, INSIDE, parsed, settings_in, value_of
from .training_table import training_of

Part = TypeVar("Part", bound=BaseModel)

TABLES = ("cluster", "training", "choose", "limits", "objective")

WHOLE = ("cluster.preset", "cluster.file")
KEPT = ("cluster.nodes", "cluster.gpus", "cluster.oversubscription")
"""Fields that give a whole cluster: all else below them that describes one gives way, but for `KEPT`."""


def read_request(
    source: str | None, flags: Mapping[str, object] | None = None, sets: Sequence[str] = ()
) -> Request:
    """The request in `source` with `flags` and then `sets` (``key=value``, several joined by commas) over it.

    `source` is the path of a TOML or JSON request, "-" for standard input, a catalogue name, or the
    path of a config.json or its folder, when flags give the rest. `flags` maps dotted fields to
    values; None is a flag not given. Every value remembers its origin. Raises `InputError` only.
    """
    return read_asked(source, flags, sets).request()


def read_asked(
    source: str | None, flags: Mapping[str, object] | None = None, sets: Sequence[str] = ()
) -> Asked:
    """As `read_request`, kept so that it can be asked again; standard input is read once."""
    return Asked(*_file(source), flags or {}, sets)


@dataclass(frozen=True)
class Asked:
    """A request as somebody asks for it: what stands in its file, flags and settings over that."""

    raw: Raw
    folder: Path | None
    flags: Mapping[str, object]
    sets: Sequence[str]

    def request(self, *more: str) -> Request:
        """The request, with `more` settings as if each stood in a last ``--set``. Raises `InputError`."""
        raw = Raw(deepcopy(self.raw.tree), dict(self.raw.origins), self.raw.name)
        return _laid(raw, self.folder, self.flags, [*self.sets, *more] if more else self.sets)


def _laid(raw: Raw, folder: Path | None, flags: Mapping[str, object], sets: Sequence[str]) -> Request:
    """The request of `raw` with flags and settings over it; fields of the machine are set last."""
    refuse_no_mapping(flags, "flags")
    refuse_no_list(sets, str, "sets")
    _top(raw)
    given = [(field, value) for field, value in flags.items() if value is not None]
    over(raw, [(field, _flag(field, value), FLAGS.get(field, field)) for field, value in given])
    settings = [parsed(one) for setting in sets for one in settings_in(setting)]
    over(raw, [setting for setting in settings if not setting[0].startswith(INSIDE)])
    request = _built(raw, folder)
    for field, value, origin in settings:
        if field.startswith(INSIDE):
            request = request.changed({field: value}, origin)
    return request


def read_question(
    source: str | None, flags: Mapping[str, object] | None = None, sets: Sequence[str] = ()
) -> Question:
    """A request with the tables [cases] and [break_even] that `compare` takes beside it.

    As `read_request` for the rest. Raises `InputError` only.
    """
    raw, folder = _file(source)
    return question_of(raw, lambda rest: _laid(rest, folder, flags or {}, sets))


def _flag(field: str, value: object) -> object:
    return value_of(value, field) if isinstance(value, str) else value


def _file(source: str | None) -> tuple[Raw, Path | None]:
    """The tables of `source` and the folder its relative paths start from."""
    if source is None:
        return Raw(), None
    source = path_of(source, "request")
    if source != "-":
        if not source.strip():
            raise InputError("request", source, "argument", "is empty")
        if not is_path(source) or _is_folder(source):
            return Raw({"model": source}, {"model": FLAGS["model"]}), None
    text, name = read_source(source)
    if source.lower().endswith(".toml") or source == "-":
        return raw_of(text, name), Path(source).parent if source != "-" else None
    if _is_config(text, name):
        return Raw({"model": source}, {"model": FLAGS["model"]}), None
    return raw_of(text, name), Path(source).parent


def _is_config(text: str, name: str) -> bool:
    """Whether a JSON text is a config.json and no request; numbers that are not finite do not matter yet."""
    if not text.lstrip().startswith("{"):
        return False
    keys = parse_json(text, "request", name, not_finite=str)
    if {"strategy", "proof", "request"} <= set(keys):
        reason = (
            "is a saved plan, not a request: give it to `check REQUEST --plan`, `why PLAN key=value` or "
            "`emit PLAN --to TARGET`"
        )
        raise InputError("request", name, "argument", reason, code="contradiction")
    return "model" not in keys and not any(isinstance(keys.get(table), dict) for table in TABLES)


def _is_folder(source: str) -> bool:
    try:
        return Path(source).is_dir()
    except (OSError, ValueError):
        return False


def _top(raw: Raw) -> None:
    """Refuses unknown tables and tables that are none."""
    known = ("model", *TABLES)
    raw.tree.pop("origins", None)
    for key, value in raw.tree.items():
        origin = raw.origins.get(key, "request")
        if key not in known:
            legal = nearest(key, known)
            raise InputError(key, value, origin, "is not known", legal=legal, code="unknown-field")
        if key in TABLES and not isinstance(value, dict):
            raise InputError(key, value, origin, "must be a table of fields", legal=[f"[{key}]"])
        if isinstance(value, dict):
            raw.tree[key] = {name: inner for name, inner in value.items() if inner is not None}


def over(raw: Raw, values: Sequence[tuple[str, Any, str]]) -> None:
    """Lays (field, value, origin) over `raw`; rivals from below give way, later ones win."""
    fields = {field for field, _, _ in values}
    for field, value, origin in values:
        rivals = [rival for group in RIVALS if field in group for rival in group]
        if field in WHOLE:
            described = [f"cluster.{key}" for key in raw.tree.get("cluster", {})]
            rivals += [other for other in described if other not in KEPT]
        for rival in rivals:
            if rival not in fields:
                _drop(raw, rival)
        table, _, key = field.partition(".")
        if key:
            raw.tree.setdefault(table, {})[key] = value
        else:
            raw.tree[field] = value
        for inner in [name for name in raw.origins if name.startswith(f"{field}.")]:
            del raw.origins[inner]
        raw.origins[field] = origin


def _drop(raw: Raw, field: str) -> None:
    table, _, key = field.partition(".")
    raw.tree.get(table, {}).pop(key, None)
    raw.origins.pop(field, None)


def _built(raw: Raw, folder: Path | None) -> Request:
    tree, origins = raw.tree, raw.origins
    try:
        return Request(
            model=_model(tree.get("model"), folder),
            cluster=cluster_of(tree.get("cluster", {}), folder),
            training=training_of(tree.get("training", {})),
            choose=_part(Choose, tree.get("choose", {}), "choose"),
            limits=_part(Limits, tree.get("limits", {}), "limits"),
            objective=_part(Objective, tree.get("objective", {}), "objective"),
            origins=_kept(raw),
        )
    except ValidationError as error:
        raise _in_list(as_input_error(error, origins, of=Request), raw) from None
    except InputError as error:
        raise _in_list(placed(error, origins), raw) from None


def _in_list(error: InputError, raw: Raw) -> InputError:
    """`error` with the line of the one value of a list that is at fault, where the list has several lines.

    What stands nowhere is told with the request it is missing from.
    """
    held: Any = raw.tree
    for word in error.field.split("."):
        held = held.get(word) if isinstance(held, dict) else None
    values = held if isinstance(held, list) else []
    at = next((number for number, value in enumerate(values) if shorten(value) == error.value), None)
    nowhere = error.origin in (*TABLES, "request")
    origin = raw.origins.get(f"{error.field}.{at}", raw.name if nowhere else error.origin)
    return InputError(error.field, error.value, origin, error.reason, legal=error.legal, code=error.code)


def _kept(raw: Raw) -> dict[str, str]:
    """Origin of each field that was given, and of each rule; tables have none of their own."""
    given = [f"{table}.{key}" for table in TABLES for key in raw.tree.get(table, {})]
    given += [field for field in raw.origins if field.startswith("choose.rules.")]
    kept = {field: origin_of(raw.origins, field) for field in ["model", *sorted(given)]}
    if "cluster.name" in kept:
        kept["cluster.preset"] = kept["cluster.name"]
    return kept


def _part(kind: type[Part], table: Mapping[str, Any], root: str) -> Part:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise as_input_error(error, {}, root, kind) from None


def _model(value: Any, folder: Path | None) -> Transformer:
    """The model of a request: named, at a path, or spelled out as `Request` itself writes it."""
    if value is None:
        reason = 'is required: write model = "NAME", or give a catalogue name or a config.json'
        raise InputError("model", "nothing", "request", reason, legal=["llama-3.1-8b"], code="missing")
    if isinstance(value, str):
        return transformer_of(value, folder)
    try:
        return Transformer.model_validate(value)
    except ValidationError as error:
        raise as_input_error(error, {}, "model", Transformer) from None
