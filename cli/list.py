"""`list`: the names of the catalogues, with the facts that tell them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .errors import OK
from .voice import Voice

if TYPE_CHECKING:
    from .cards import Listing

HEADERS = {
    "network_gb_per_s": "net GB/s",
    "hbm_gb_per_s": "HBM GB/s",
    "link_gb_per_s": "link GB/s",
    "host_gib": "host GiB",
    "usable_gib": "GiB",
    "usd_per_hour": "$/h",
    "bf16_tflops": "bf16 TFLOP/s",
    "fp8_tflops": "fp8 TFLOP/s",
}
"""Column heads where the key itself reads badly."""

DETAILS = ("link", "host_gib", "hidden_size", "family", "files")
"""Facts told with -v only: the table then needs more than 80 columns."""

LEGENDS = {
    "models": "parameters: tied copies once; active: those a token passes",
    "clusters": "net GB/s: all network cards of a machine, one direction",
    "gpus": "GiB: what torch can use; TFLOP/s: dense, by the data sheet; link GB/s: NVLink or xGMI, one way",
    "stacks": "gemm factor: time of matrix products over that of the card's measured curve; grade M: fitted "
    "on runs of several sources, P: of one, D: derived from another stack",
    "optimizers": "bytes: moments of a parameter; backends: whose plans and files take it; none: priced by "
    "`ledger` and `check` alone; -v tells which files name it",
}

KINDS = ("models", "clusters", "gpus", "stacks", "optimizers")


def list_(
    kind: Annotated[str, typer.Argument(metavar="models|clusters|gpus|stacks|optimizers")],
    *,
    voice: Voice,
) -> int:
    """List what is known by name."""
    from ..inputs import InputError, nearest
    from ..plans import as_json as json_text
    from .listing import listing
    from .tables import paragraph, table

    if kind not in KINDS:
        raise InputError("kind", kind, "argument", "is not known", legal=nearest(kind, KINDS, 4))
    found: Listing = listing(kind)
    if voice.as_json:
        voice.data(json_text(found))
        return OK
    keys = [key for key in found.entries[0].facts if voice.verbose or key not in DETAILS]
    header = ["name", *(HEADERS.get(key, key.replace("_", " ")) for key in keys)]
    rows = [[entry.name, *(_cell(entry.facts[key]) for key in keys)] for entry in found.entries]
    voice.data(table(header, rows))
    voice.note(paragraph(LEGENDS[kind], "  ", "  "))
    return OK


def _cell(value: object) -> str:
    """A fact as text: a dash where there is none, separators in large numbers."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)
