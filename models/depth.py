"""What changes with depth: which layers attend through a sliding window, which route to experts."""

from __future__ import annotations

from .facts import Facts


def windows(facts: Facts, layers: int) -> list[int | None]:
    """The sliding window of each layer, tokens; None for full attention.

    The list `layer_types` of the file decides, else the pattern of the family: every layer, layers
    from max_window_layers on (Qwen2), even ones (Gemma 2), even ones below it (Qwen2-MoE).
    """
    types = facts.words("layer_types")
    enabled = facts.switch("window_enabled")
    if types is not None:
        slides = _listed(facts, types, layers)
    elif enabled:
        slides = _pattern(facts, layers)
    else:
        return [None] * layers
    if not any(slides):
        return [None] * layers
    window = facts.optional("window") if enabled else None
    if types is not None and window is None:
        reason = f"asks for sliding_attention, but {facts.key('window')} gives no window"
        raise facts.error("layer_types", reason if enabled else f"{reason} in use")
    if window == 0:
        raise facts.error("window", "must be at least 1", [1])
    return [window if slide else None for slide in slides]


def _listed(facts: Facts, types: tuple[str, ...], layers: int) -> list[bool]:
    if len(types) != layers:
        raise facts.error("layer_types", f"names {len(types)} layers, {facts.key('layers')} is {layers}")
    return [word == "sliding_attention" for word in types]


def _pattern(facts: Facts, layers: int) -> list[bool]:
    pattern = facts.word("window_pattern")
    if pattern == "none":
        return [False] * layers
    if facts.optional("window") is None:
        return [False] * layers
    if pattern == "every":
        return [True] * layers
    if pattern == "even":
        return [depth % 2 == 0 for depth in range(layers)]
    border = facts.integer("window_layers")
    if pattern == "from":
        return [depth >= border for depth in range(layers)]
    return [depth % 2 == 0 and depth < border for depth in range(layers)]


def routed(facts: Facts, layers: int) -> list[bool]:
    """Whether each layer routes to experts: every `sparse_step`-th one that is not listed as dense."""
    if not facts.integer("experts"):
        return [False] * layers
    dense = facts.integers("dense_layers")
    for depth in dense:
        if depth >= layers:
            last = layers - 1
            raise facts.error("dense_layers", f"names layer {depth}; the {layers} layers are 0 to {last}")
    step = facts.integer("sparse_step")
    return [depth not in dense and (depth + 1) % step == 0 for depth in range(layers)]
