"""A clash in sentences: because these limits hold so much is needed; because there is no more, none fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from ..costs import Ledger
from ..costs.law import law
from ..inputs.quantity import gib, gibs
from ..models import Strategy
from ..models.backend import backend
from ..models.strategy import Stage
from ..plans import Conflict, Request
from ..plans.report import price, seconds
from .alternatives import best
from .broken_rules import broken_rules
from .coefficients import Coefficients
from .least_host import least_host
from .members import CARD, CARDS, HOST, LIMIT, members, without
from .no_rows import no_rows
from .slots import chunk_sizes
from .software import refusals
from .space import rows
from .uniform import shortage, uniform_counts

Limits = dict[str, Conflict]
"""Members of a clash by name; rules by their text too."""

SHOWN = 4
"""Terms of memory and backends named in one sentence."""


def reasons(request: Request, conflict: tuple[Conflict, ...]) -> tuple[str, ...]:
    """Sentences that lead from the members of a clash to the conclusion."""
    limits = {
        (member.limit if member.limit != "choose.rules" else f"choose.rules: {member.value}"): member
        for member in conflict
    }
    if not conflict:
        told = dict.fromkeys(reason for _, reason in refusals(request))
        return tuple(told) or tuple(islice(dict.fromkeys(reason for _, reason in no_rows(request)), SHOWN))
    if CARD in limits or "limits.memory_margin" in limits:
        return tuple(_too_large(request, limits))
    if HOST in limits or LIMIT in limits:
        return tuple(_host_full(request, limits))
    if "limits.max_step_seconds" in limits:
        return tuple(_too_slow(request, limits))
    if limits.keys() & ON_STAGES:
        return tuple(_too_talkative(request, limits))
    return tuple(_no_layout(request, limits))


def because(parts: Iterable[Conflict], *told: str) -> str:
    """Because a, b and c: of the members not `told` elsewhere; empty where there is none."""
    words = [phrase(member) for member in parts if member.limit not in told]
    if not words:
        return ""
    listed = words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
    return f"Because {listed}, "


def phrase(member: Conflict) -> str:
    """A limit as the middle of a sentence, with its number and its origin."""
    name, value, origin = member.limit.rpartition(".")[2], member.value, f"({member.origin})"
    if member.limit == "limits.memory_margin":
        return f"{100 * float(value):.0f} % of the card stay free {origin}"
    if member.limit == CARD:
        return f"a card offers {gib(int(value))} {origin}"
    if member.limit == HOST and value == "0":
        return f"the memory of a host is not known {origin}"
    if member.limit == HOST:
        given = law("host_usable_share")
        return (
            f"a host has {gib(int(value))} {origin}, of which offloaded states may take {100 * given:.0f} %, "
            f"{gib(given * int(value))}"
        )
    number = f"{int(value):,}" if value.isdecimal() else value
    number = gib(int(value)) if member.limit == LIMIT else number
    if value == "1" and member.limit in _ONE:
        return f"{_ONE[member.limit]} {origin}"
    return f"{_WORDS.get(member.limit, name + ' is {}').format(number)} {origin}"


_ONE = {CARDS: "there is one card", "training.global_batch_size": "a step takes one sequence"}
_WORDS = {
    CARDS: "there are {} cards",
    "training.sequence_length": "a sequence has {} tokens",
    "training.global_batch_size": "a step takes {} sequences",
    "training.optimizer": "the optimizer is {}",
    "choose.rules": 'the rule "{}" holds',
    LIMIT: "offloaded states may take {} of a host",
    "limits.max_step_seconds": "a step may take {} s",
    "limits.max_usd_per_hour": "the cards may cost {} dollars an hour",
    "limits.max_comm_fraction": "communication may show for {} of a step",
    "limits.max_uplink_bytes_per_step": "a machine may send {} bytes a step",
    "limits.tensor_parallel_within": "tensor parallel stays within one {}",
}


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _too_large(request: Request, limits: Limits) -> Iterator[str]:
    """A card is too small: what the leanest layout needs, by term, against what the card offers."""
    host = HOST in limits or LIMIT in limits
    found = leanest(request.changed({"choose.offload_optimizer": "none"})) if host else None
    found = found or leanest(request)
    head = because(limits.values(), *_MEMORIES)
    if found is None:
        yield _upper(f"{head}no layout keeps within the memory of a card")
    else:
        strategy, ledger = found
        entry = ledger.stages[ledger.peak_stage]
        terms = sorted(entry.terms_kib.items(), key=lambda term: -term[1])[:SHOWN]
        parts = ", ".join(f"{name.replace('_', ' ')} {gibs(1024 * kib)}" for name, kib in terms)
        yield _upper(
            f"{head}the leanest layout ({_words(strategy)}) needs {gib(1024 * entry.total_kib)} a card: "
            f"{parts}"
        )
    unable = list(dict.fromkeys(reason for _, reason in refusals(request)))[:SHOWN]
    if unable:
        yield f"And no other backend is a way out: {'; '.join(unable)}"
    need = _host_need(request) if host else ""
    if need:
        yield _upper(f"and because {phrase(_host_member(limits))}, host memory is no way out: {need}")
    yield _upper(f"{_offered(request)}, no layout fits")


def _offered(request: Request) -> str:
    gpu = request.cluster.node.gpu
    origin = request.machine_origin(CARD)
    margin = request.limits.memory_margin
    told = f"and because one {gpu.name} offers {gib(gpu.memory_usable_bytes)} ({origin})"
    if not margin:
        return told
    kept = gib((1.0 - margin) * gpu.memory_usable_bytes)
    return (
        f"{told}, of which {100 * margin:.0f} % stay free ({request.origin('limits.memory_margin')}): {kept}"
    )


def _words(strategy: Strategy) -> str:
    """The knobs of a lean layout that matter for its memory."""
    degrees = {"tp": strategy.tensor_parallel, "pp": strategy.pipeline_parallel}
    degrees |= {"cp": strategy.context_parallel, "ep": strategy.expert_parallel}
    parts = [strategy.backend, f"zero {strategy.zero_stage}"]
    parts += [f"{name} {degree}" for name, degree in degrees.items() if degree > 1]
    parts += [f"micro-batch {strategy.micro_batch_size}", f"recompute {strategy.recompute}"]
    offloaded = strategy.offload_optimizer != "none"
    return ", ".join([*parts, "optimizer in host memory" if offloaded else "all states on the card"])


def leanest(request: Request) -> tuple[Strategy, Ledger] | None:
    """The even layout that needs least memory of a card, all recomputed and offloaded that may be."""
    coefficients = Coefficients(request, rows(request))
    if not len(coefficients.strategies):
        return None
    lack = shortage(coefficients)
    strategy = _leaned(request, coefficients, int(lack.argmin()))
    return strategy, price(request, [strategy])[0]


def _leaned(request: Request, coefficients: Coefficients, row: int) -> Strategy:
    """The strategy of a row with even stages, the strongest recompute allowed and everything offloaded."""
    knobs = coefficients.strategies.row(row)
    words = [w for w in request.choose.recompute or ("full", "selective", "none")]
    able = [
        w for w in ("full", "selective", "none") if w in words and w in backend(knobs["backend"]).recompute
    ]
    word, chunks = (able or ["none"])[0], knobs["virtual_pipeline"]
    offloaded = knobs["offload_optimizer"] != "none"
    counts = uniform_counts(int(coefficients.depth[row]), knobs["pipeline_parallel"])
    sizes = chunk_sizes(request.model, chunks, counts)
    stages = [
        Stage(
            layers=sum(each),
            recompute_full_layers=sum(each) if word == "full" else 0,
            recompute_selective_layers=sum(each) if word == "selective" else 0,
            offloaded_layers=sum(each) if offloaded else 0,
            chunk_layers=each,
        )
        for each in sizes
    ]
    return Strategy(**knobs, stages=tuple(stages))


def _host_full(request: Request, limits: Limits) -> Iterator[str]:
    """The host is too small: the least that a layout would keep there, against what a node offers."""
    head = because(limits.values(), *_MEMORIES)
    need = _host_need(request)
    yield _upper(f"{head}{need}" if need else f"{head}states offloaded to the host fit no layout")
    yield _upper(f"and because {phrase(_host_member(limits))}, no layout fits")


_MEMORIES = (HOST, LIMIT, CARD, "limits.memory_margin")


def _host_member(limits: Limits) -> Conflict:
    return limits[HOST] if HOST in limits else limits[LIMIT]


def _host_need(request: Request) -> str:
    """The least that a layout would keep in host memory if there were enough; empty where none fits."""
    hosts = [m for m in members(request) if m.limit in (HOST, LIMIT)]
    found = least_host(next(without(request, hosts)))
    if found is None:
        return ""
    strategy, need = found
    lean = f"the layout that offloads least ({_words(strategy)})"
    return f"at least {gib(need)} a node are needed there, by {lean}"


def _too_slow(request: Request, limits: Limits) -> Iterator[str]:
    """The deadline is too short: the fastest step without it."""
    deadline = limits["limits.max_step_seconds"]
    found = best(request, {"limits.max_step_seconds": None})
    head = because(limits.values(), "limits.max_step_seconds")
    if found is not None:
        yield _upper(f"{head}the fastest layout that fits takes {seconds(found.step_ns):.3f} s a step")
    yield _upper(f"and because {phrase(deadline)}, no layout is in time")


ON_STAGES = {"limits.max_comm_fraction", "limits.max_uplink_bytes_per_step"}


def _too_talkative(request: Request, limits: Limits) -> Iterator[str]:
    """Communication shows too much, or machines send too much: what the fastest layout does without these."""
    told = sorted(limits.keys() & ON_STAGES)
    free = request.changed(dict.fromkeys(told))
    found = best(free, {})
    head = because(limits.values(), *told)
    if found is not None:
        ledger = price(free, [found.strategy])[0]
        yield _upper(
            f"{head}in the fastest layout that fits communication shows for "
            f"{ledger.comm_ns / ledger.step_ns:.2%} of a step and a machine sends "
            f"{ledger.uplink_bytes / 1e9:,.3f} GB"
        )
    yield _upper(f"and because {' and '.join(phrase(limits[name]) for name in told)}, no layout is left")


def _no_layout(request: Request, limits: Limits) -> Iterator[str]:
    """Knobs, shape, cards and batch leave no row: the details that say why, then the members."""
    every = list(no_rows(request))
    details = [reason for field, reason in every if field in limits]
    details = details or list(broken_rules(request, limits))
    if not details and "choose.backend" in limits:
        details = [reason for _, reason in every]
    if "limits.max_usd_per_hour" in limits:
        origin = request.machine_origin("cluster.usd_per_hour")
        details = [*details, f"the cluster costs {request.cluster.usd_per_hour:g} dollars an hour ({origin})"]
    yield from islice(dict.fromkeys(details), SHOWN)
    yield _upper(f"{because(limits.values())}no layout is left")
