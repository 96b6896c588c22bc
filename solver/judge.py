"""The judge: a plan is priced again without the solver, and refused when anything differs."""

from __future__ import annotations

from ..costs import Ledger
from ..models import Strategy
from ..plans import Request
from ..plans.report import host_limit_bytes, limit_bytes, price
from .cuts import affordable
from .stage_limits import overstepped


class Misjudged(RuntimeError):
    """The solver's plan and the ledger disagree: a fault of this package, never of the user."""


def judge(request: Request, strategy: Strategy, step_ns: int) -> Ledger:
    """The ledger of `strategy`; raises `Misjudged` unless it is whole, fits and takes `step_ns`."""
    faults = []
    if strategy.world != request.cluster.gpus:
        faults.append(f"it uses {strategy.world} cards of {request.cluster.gpus}")
    batch = strategy.data_parallel * strategy.micro_batch_size * strategy.gradient_accumulation_steps
    if batch != request.training.global_batch_size:
        faults.append(f"its batch is {batch}, not {request.training.global_batch_size}")
    if strategy.layers != request.model.layers:
        faults.append(f"it holds {strategy.layers} layers of {request.model.layers}")
    if strategy.stages[-1].layers < request.model.mtp_layers:
        faults.append("its last stage lacks modules that predict further tokens")
    if faults:
        raise Misjudged("; ".join(faults))
    ledger = price(request, [strategy])[0]
    if ledger.step_ns != step_ns:
        faults.append(f"its step is {ledger.step_ns} ns, the search said {step_ns}")
    if ledger.peak_kib * 1024 > limit_bytes(request, ledger):
        faults.append(f"a card needs {ledger.peak_kib} KiB of {limit_bytes(request, ledger) // 1024}")
    if ledger.host_node_kib * 1024 > host_limit_bytes(request, ledger):
        faults.append(f"a node's host needs {ledger.host_node_kib} KiB")
    deadline = request.limits.max_step_seconds
    if deadline is not None and ledger.step_ns > int(deadline * 1e9):
        faults.append("it misses the deadline")
    faults += [reason for _, reason in overstepped(request, ledger)]
    if not affordable(request):
        faults.append("its cluster costs too much an hour")
    if faults:
        raise Misjudged("; ".join(faults))
    return ledger
