"""Single changes that may cure a request: knobs left free, limits without their bite, a lighter job."""

from __future__ import annotations

from collections.abc import Iterator

from ..costs.host import host_share_bytes
from ..models.backend import backend
from ..models.divisors import divisors_of
from ..models.optimizer import moment_bytes
from ..models.recipe import losses
from ..models.strategy import BACKENDS
from ..plans import Request
from .answering import Asking
from .cured import Change, fits_with
from .eight_bits import kinds
from .members import LIMIT

SHORTEST = 512
"""Tokens a sequence is cut to, at the least."""

NEVER_FREE = ("precision", "gradient_dtype", "software_stack", "loss_kernel")
"""Knobs that take their default where nobody speaks of them: they change numerics or the installation."""


def changes(request: Request, limits: set[str], asking: Asking) -> Iterator[Change]:
    """Changes to `request` worth trying where the rules of `limits` clash, one field each."""
    yield from _freed(request)
    yield from _loosened(request)
    yield from _lighter(request)
    if limits & {"limits.max_step_seconds", "choose.precision"}:
        yield from _narrower(request)
    if "training.sequence_length" in limits:
        yield from _shorter(request, asking)
    if "limits.max_usd_per_hour" in limits:
        yield from _cheaper(request)
    if limits & {"training.global_batch_size", "cluster.gpus"}:
        yield from _other_batches(request, asking)


def _freed(request: Request) -> Iterator[Change]:
    """Each narrowed knob left free, each rule left out."""
    for name in type(request.choose).model_fields:
        if name != "rules" and getattr(request.choose, name):
            which = "its default" if name in NEVER_FREE else "the fastest value"
            yield f"choose.{name}", None, f"change {name} to {which}"
    rules = request.choose.rules
    for rule in rules:
        yield "choose.rules", [other for other in rules if other != rule], f'drop the rule "{rule}"'


def _loosened(request: Request) -> Iterator[Change]:
    """Each limit of the request without its bite."""
    limits, whole = request.limits, host_share_bytes(request.cluster.node)
    if limits.max_step_seconds is not None:
        yield "limits.max_step_seconds", None, "take as long as the fastest plan needs"
    if limits.tensor_parallel_within not in (None, "spine"):
        yield "limits.tensor_parallel_within", "spine", "let tensor parallel span more"
    if limits.host_memory_bytes is not None and whole >= 2**30:
        yield LIMIT, f"{whole // 2**30}GiB", "offload all that a node's host memory can take"
    if limits.max_usd_per_hour is not None:
        yield "limits.max_usd_per_hour", None, "pay for the machines"
    if limits.max_comm_fraction is not None:
        yield "limits.max_comm_fraction", None, "let communication show for as long as it does"
    if limits.max_uplink_bytes_per_step is not None:
        yield "limits.max_uplink_bytes_per_step", None, "let the machines send as much as the plan needs"
    if limits.memory_margin > 0:
        yield "limits.memory_margin", 0.0, "accept a risky fit: keep no memory free"


def _lighter(request: Request) -> Iterator[Change]:
    """Lighter states: gradients in bf16, optimizers that keep less, or one the backend runs at all."""
    if request.choose.gradient_dtype is None:
        yield "choose.gradient_dtype", "bf16", "keep gradients in bf16"
    allowed = [backend(name) for name in request.choose.backend or BACKENDS]
    if request.choose.loss_kernel is None:
        kernels = {kernel for known in allowed for kernel in known.loss_kernels}
        yield "choose.loss_kernel", min(kernels, key=_loss_bytes), "compute the loss in pieces"
    if moment_bytes("adamw-8bit") < moment_bytes(request.training.optimizer):
        yield "training.optimizer", "adamw-8bit", "keep the optimizer's moments in 8 bits"
    if not any(request.training.optimizer in known.optimizers for known in allowed):
        yield "training.optimizer", "adamw", "train with AdamW"


def _loss_bytes(kernel: str) -> tuple[float, str]:
    return losses()[kernel].bytes_per_entry, kernel


def _narrower(request: Request) -> Iterator[Change]:
    """8-bit arithmetic that the card has and the request does not allow."""
    for precision in kinds(request):
        if precision not in (request.choose.precision or ()):
            yield "choose.precision", precision, "multiply in 8 bits (prove convergence first)"


def _cheaper(request: Request) -> Iterator[Change]:
    """The most nodes that cost no more than allowed."""
    hourly, most = request.cluster.usd_per_hour, request.limits.max_usd_per_hour
    if hourly and most is not None and not request.cluster.others:
        nodes = int(most / hourly * request.cluster.nodes)
        if 0 < nodes < request.cluster.nodes:
            yield "cluster.nodes", nodes, "take fewer nodes"


def _shorter(request: Request, asking: Asking) -> Iterator[Change]:
    """The longest half, quarter, ... of the sequence for which a plan exists."""
    length = request.training.sequence_length // 2
    while length >= SHORTEST:
        if fits_with(request, {"training.sequence_length": length}, asking):
            yield "training.sequence_length", length, "train on shorter sequences"
            return
        length //= 2


def _other_batches(request: Request, asking: Asking) -> Iterator[Change]:
    """The nearest smaller and larger batch for which a plan exists."""
    batch, cards = request.training.global_batch_size, request.cluster.gpus
    steps = divisors_of(cards)
    below = sorted({batch // s * s for s in steps if 0 < batch // s * s < batch}, reverse=True)
    above = sorted({-(-batch // s) * s for s in steps if batch % s})
    for sizes in (below, above):
        for size in sizes:
            if fits_with(request, {"training.global_batch_size": size}, asking):
                yield "training.global_batch_size", size, "take the nearest batch that the cards divide"
                break
