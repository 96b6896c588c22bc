"""Rules on Megatron-LM's pipeline layout: its chunks, layers and modules against the other arguments."""

from __future__ import annotations

from collections.abc import Iterator

from ..bundle import Bundle
from ..documents import Document
from ..documents.script import spoken
from ..megatron.layout import layers_of, modules_of
from .finding import Finding, at

ARGUMENT = "pipeline_model_parallel_layout"
BESIDE = (
    "num_virtual_stages_per_pipeline_rank", "num_layers_per_virtual_pipeline_stage",
    "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
    "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split",
)  # fmt: skip
"""Other ways to cut layers, with which Megatron-LM stops beside a layout."""


def layout_findings(
    bundle: Bundle, document: Document, stages: int, layers: int | None, modules: int
) -> Iterator[Finding]:
    """Slips of a layout that stands in `document`; `layers` and `modules` as the other arguments tell."""
    given = bundle.argument(ARGUMENT)
    if given is None or ARGUMENT not in document.values["arguments"]:
        return
    path = f"arguments.{ARGUMENT}"
    for name in BESIDE:
        if bundle.argument(name) is not None:
            message = f"a layout states its chunks itself, beside --{name.replace('_', '-')} it is refused"
            yield at(document, path, "refused-together", message, f"without --{name.replace('_', '-')}")
    words = spoken(given.value)
    if not words:
        return
    try:
        sizes, found = layers_of(words[0]), modules_of(words[0])
    except ValueError as error:
        yield at(document, path, "bad-value", str(error), "E, t, m and L; chunks split by |")
        return
    if len(sizes) % stages:
        message = f"{len(sizes)} chunks of the layout are no multiple of {stages} stages"
        yield at(document, path, "does-not-divide", message, f"chunks by {stages}")
    if layers is not None and sum(sizes) - found != layers:
        message = f"the layout has {sum(sizes) - found} layers (t), --num-layers {layers}"
        yield at(document, path, "bad-value", message, f"{layers} layers")
    if modules and not found:
        message = f"the layout places none of the {modules} modules of --mtp-num-layers"
        yield at(document, path, "modules-without-place", message, f"{'m' * modules}L at its end")
    elif found != modules:
        message = f"the layout has {found} modules (m), --mtp-num-layers {modules}"
        yield at(document, path, "bad-value", message, f"--mtp-num-layers {found}")
