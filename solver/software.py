"""The software of a row: backend, stack, precision, gradients, loss; what the request leaves free."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..inputs.record import dataclass
from ..models import Transformer
from ..models.backend import Backend, backend
from ..models.stack import stack
from ..models.strategy import BACKENDS, GradientDtype, Precision
from ..plans import Request


@dataclass(frozen=True)
class Software:
    """The words of a row that do not depend on degrees."""

    backend: Backend
    precision: Precision
    gradient_dtype: GradientDtype
    software_stack: str
    loss_kernel: str


def default_precision(request: Request) -> Precision:
    """bf16, or fp16 on a card without bf16."""
    return "fp16" if request.cluster.node.gpu.peak_flops_per_s("bf16") is None else "bf16"


def softwares(request: Request) -> Iterator[Software]:
    """Backends, precisions, gradient types, stacks and loss kernels the request allows.

    What the request leaves free takes the backend's default: these change numerics or the installation,
    and are never picked for speed behind the user's back.
    """
    choose, gpu = request.choose, request.cluster.node.gpu
    for name in choose.backend or BACKENDS:
        known = backend(name)
        if request.training.optimizer not in known.optimizers or not known.knows(request.model):
            continue
        if known.unable(request.training):
            continue
        for precision in choose.precision or (default_precision(request),):
            recipes = known.recipes.get(precision, {})
            if precision not in known.precisions or gpu.peak_flops_per_s(precision) is None:
                continue
            dtypes = [d for d in choose.gradient_dtype or tuple(recipes)[:1] if d in recipes]
            stacks = choose.software_stack or _default_stacks(known)
            kernels = [
                k for k in choose.loss_kernel or (known.default_loss_kernel,) if k in known.loss_kernels
            ]
            for dtype, framework, kernel in product(dtypes, stacks, kernels):
                if stack(framework).backend == name:
                    yield Software(known, precision, dtype, framework, kernel)


def _default_stacks(known: Backend) -> tuple[str, ...]:
    """The backend's stack, and the one it takes with tensor parallel where that is another."""
    tensor = known.tensor_parallel
    return (known.default_stack,) if tensor is None else (known.default_stack, tensor.stack)


def runs_together(request: Request, software: Software, tensor: int) -> bool:
    """Whether stack and loss kernel run with this tensor_parallel, by the backend's own rules.

    A stack that exists for tensor parallel alone is not a default without it.
    """
    rule = software.backend.tensor_parallel
    if rule is None:
        return True
    if tensor > 1:
        return software.software_stack == rule.stack and software.loss_kernel in rule.loss_kernels
    return software.software_stack != rule.stack or bool(request.choose.software_stack)


def untold(known: Backend, model: Transformer) -> str:
    """Why a backend cannot be told of the layers of `model`."""
    why = known.because.get("model", "its arguments know other families")
    return f"{known.name} cannot be told of {model.family} layers: {why}"


def refusals(request: Request) -> Iterator[tuple[str, str]]:
    """(field of the request, reason) of each backend that is allowed and cannot run it at all."""
    gpu, choose, optimizer = request.cluster.node.gpu, request.choose, request.training.optimizer
    for name in choose.backend or BACKENDS:
        known = backend(name)
        if optimizer not in known.optimizers:
            why = known.because.get("optimizer", "it has another list of optimizers")
            yield "training.optimizer", f"{name} has no {optimizer}: {why}"
        for field, value in known.unable(request.training).items():
            yield f"training.{field}", f"{name} does not run {field} {value}: {known.because[field]}"
        if not known.knows(request.model):
            yield "model", untold(known, request.model)
        for precision in choose.precision or (default_precision(request),):
            if precision not in known.precisions:
                words = f"launch files are written for {', '.join(known.precisions)}"
                why = known.because.get("precision", words)
                yield "choose.precision", f"{name} plans have no {precision}: {why}"
            elif gpu.peak_flops_per_s(precision) is None:
                yield "choose.precision", f"{gpu.name} has no {precision} arithmetic"
