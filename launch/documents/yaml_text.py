"""YAML as plain tables with lines: no tags, no anchors, so nothing is run and nothing grows."""

from __future__ import annotations

from typing import Any

from ...inputs import InputError

DEEPEST = 24
_PLAIN = {f"tag:yaml.org,2002:{word}" for word in ("null", "bool", "int", "float", "str")}


def yaml_tables(text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The mapping in `text`, and the line of each key by its dotted path.

    Raises `InputError` for tags, anchors, several documents, keys that stand twice or are no text,
    and what is no mapping.
    """
    import yaml

    try:
        reader = _Reader(yaml.SafeLoader(text), name)
        tree = reader.document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        reason = f"is not YAML: {getattr(error, 'problem', None) or 'unreadable'}"
        raise InputError("file", name, where, reason, code="bad-file") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("file", name, name, "holds a value that cannot be read", code="bad-file") from None
    if not isinstance(tree, dict):
        raise InputError("file", name, name, "must hold a YAML mapping", code="bad-file")
    return tree, reader.lines


class _Reader:
    """Walks the events of one document; `lines` fills on the way."""

    def __init__(self, loader: Any, name: str) -> None:
        self.loader = loader
        self.name = name
        self.lines: dict[str, int] = {}

    def document(self) -> Any:
        self._expect("StreamStartEvent")
        self._expect("DocumentStartEvent")
        tree = self._value(self.loader.get_event(), "", 0)
        self._expect("DocumentEndEvent")
        self._expect("StreamEndEvent")
        return tree

    def _expect(self, kind: str) -> None:
        event = self.loader.get_event()
        if type(event).__name__ != kind:
            raise self._refused(event, "must hold one document")

    def _refused(self, event: Any, reason: str) -> InputError:
        where = f"{self.name}:{event.start_mark.line + 1}"
        return InputError("file", self.name, where, reason, code="bad-file")

    def _value(self, event: Any, path: str, depth: int) -> Any:
        kind = type(event).__name__
        if kind == "AliasEvent" or getattr(event, "anchor", None):
            raise self._refused(event, "holds an anchor or alias, which is not read")
        if getattr(event, "tag", None) is not None:
            raise self._refused(event, "holds a tag, which is not read")
        if depth > DEEPEST:
            raise self._refused(event, "is nested too deeply")
        if kind == "ScalarEvent":
            return self._scalar(event)
        return self._mapping(path, depth) if kind == "MappingStartEvent" else self._sequence(path, depth)

    def _scalar(self, event: Any) -> Any:
        import yaml

        tag = self.loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag not in _PLAIN:
            return event.value
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        return self.loader.construct_object(node)

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while type(event := self.loader.get_event()).__name__ != "MappingEndEvent":
            key = self._value(event, path, depth + 1)
            if not isinstance(key, str | int | float | bool) or str(key) in found:
                raise self._refused(event, "holds a key twice, or one that is no word")
            inner = f"{path}.{key}" if path else str(key)
            self.lines[inner] = event.start_mark.line + 1
            found[str(key)] = self._value(self.loader.get_event(), inner, depth + 1)
        return found

    def _sequence(self, path: str, depth: int) -> list[Any]:
        found: list[Any] = []
        while type(event := self.loader.get_event()).__name__ != "SequenceEndEvent":
            found.append(self._value(event, path, depth + 1))
        return found
