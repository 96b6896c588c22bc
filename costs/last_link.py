"""Work of modules that predict further tokens: on the last link of the chain, as the head is."""

from __future__ import annotations

import numpy as np

from ..models.transformer import Transformer
from .terms import Term


def on_last_link(term: Term, transformer: Transformer) -> Term:
    """A chunk term whose modules stand beside the head instead of among the layers.

    They are the last layers of the stack and never parted, so of the chunks of a stage one alone has them:
    pipelines wait for it in one round of v, as they do for the head (`schedule.Rounds`). What their recompute
    in part takes stays among the layers.
    """
    modules = np.array([block.joins for block in transformer.kinds])
    if not modules.any() or "layer" not in term.coefficients:
        return term
    layer = term.coefficients["layer"]
    each = np.broadcast_to(layer if layer.ndim > 1 else layer[:, None], (len(layer), len(modules)))
    counts = np.bincount(transformer.kind_of_layer, minlength=len(modules)) * modules
    last = term.coefficients.get("last", np.zeros(len(layer), dtype=np.int64)) + each @ counts
    pieces = term.coefficients | {"layer": np.where(modules, 0, each), "last": last}
    return Term(term.name, term.per, term.note, pieces)
