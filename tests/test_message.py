"""Out-of-memory messages: the wordings of torch, of the allocator and of the kernel; the term that broke."""

from __future__ import annotations

import pytest

from shardwise import Request
from shardwise.inputs import InputError
from shardwise.models import Strategy
from shardwise.plans import read_strategy
from shardwise.plans.message import OutOfMemory, read_message
from shardwise.plans.report import host_verdict, price, verdict
from shardwise.solver import diagnose

GIB = 2**30
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB (GPU 3; 39.59 GiB total capacity; "
    "34.02 GiB already allocated; 1.25 GiB free; 36.50 GiB reserved in total by PyTorch) If reserved "
    "memory is >> allocated"
)
MIDDLE = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a "
    "total capacty of 79.15 GiB of which 130.31 MiB is free. Including non-PyTorch memory, this "
    "process has 79.01 GiB memory in use. Of the allocated memory 75.50 GiB is allocated by PyTorch, "
    "and 1.75 GiB is reserved by PyTorch but unallocated."
)
NEW = MIDDLE.replace("torch.cuda.OutOfMemoryError", "[rank5]: torch.OutOfMemoryError").replace(
    "capacty", "capacity"
)
ALLOCATOR = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate "
    "memory: you tried to allocate 48318382080 bytes. Error code 12 (Cannot allocate memory)"
)
KILLED = "torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 4711)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OLD, {"tried_bytes": int(2.5 * GIB), "capacity_bytes": int(39.59 * GIB),
               "allocated_bytes": int(34.02 * GIB), "free_bytes": int(1.25 * GIB),
               "reserved_bytes": int(36.5 * GIB)}),
        (MIDDLE, {"tried_bytes": 224 * 2**20, "capacity_bytes": int(79.15 * GIB),
                  "process_bytes": int(79.01 * GIB), "unallocated_bytes": int(1.75 * GIB)}),
        (NEW, {"tried_bytes": 224 * 2**20, "capacity_bytes": int(79.15 * GIB),
               "allocated_bytes": int(75.5 * GIB)}),
        (OLD.replace("CUDA", "HIP"), {"tried_bytes": int(2.5 * GIB)}),
    ],
)  # fmt: skip
def test_the_wordings_of_a_card(text: str, expected: dict[str, int]) -> None:
    """Sizes are read from each wording, also behind a rank's prefix and inside a log."""
    found = read_message(f"step 1\n{text}\nTraceback ends", "log")

    assert found.where == "card"
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize("text", [ALLOCATOR, KILLED, "kernel: Out of memory: Killed process 4711 (python)"])
def test_the_wordings_of_a_host(text: str) -> None:
    """The CPU allocator, a SIGKILL and the kernel's log mean the host."""
    assert read_message(text, "log").where == "host"


def test_the_last_message_of_a_log_counts() -> None:
    """A log with several messages tells the last one."""
    assert read_message(f"{OLD}\n{NEW}", "log").tried_bytes == 224 * 2**20


def test_text_without_a_message_is_refused() -> None:
    """Anything else is bad input, told with the origin."""
    with pytest.raises(InputError, match="no out-of-memory message"):
        read_message("loss 2.31", "log.txt")


def request_() -> Request:
    """Llama-3.1 8B on eight H100."""
    return Request.model_validate(
        {
            "model": "llama-3.1-8b",
            "cluster": {"preset": "dgx-h100"},
            "training": {"global_batch_size": 64, "sequence_length": 8192},
        }
    )


def strategy(request: Request, **knobs: object) -> Strategy:
    """A DeepSpeed strategy for it."""
    data = {"backend": "deepspeed", "data_parallel": 8, **knobs}
    return read_strategy(data, request.model, "test", request.training)


@pytest.mark.parametrize(
    ("tried", "knobs", "term"),
    [
        (4 * 8192 * 128256 * 4, {"zero_stage": 2, "micro_batch_size": 4}, "logits"),
        (2 * 8192 * 14336 * 2, {"zero_stage": 2, "micro_batch_size": 2}, "activations"),
        (123_456, {"zero_stage": 0, "recompute": "full"}, "optimizer"),
        (123_456, {"zero_stage": 3, "micro_batch_size": 8}, "activations"),
    ],
)
def test_the_term_that_broke(tried: int, knobs: dict[str, object], term: str) -> None:
    """By the size of a single buffer, by states that exceed the card, or by what is largest at the peak."""
    request = request_()
    given = strategy(request, **knobs)
    found = diagnose(request, given, OutOfMemory(where="card", tried_bytes=tried))

    assert found.term == term
    assert sum(found.terms_bytes.values()) == found.memory_bytes
    ledger = price(request, [given])[0]
    assert verdict(ledger) == "does_not_fit"


def test_what_relieves_it_fits() -> None:
    """Every change that is told, laid over the strategy, is legal, fits, and takes the step it says."""
    request = request_()
    given = strategy(request, zero_stage=2, micro_batch_size=2)
    found = diagnose(request, given, OutOfMemory(where="card"))

    assert found.reliefs
    for relief in found.reliefs:
        knobs: dict[str, object] = {"zero_stage": 2, "micro_batch_size": 2}
        for setting in relief.set.split(","):
            key, _, value = setting.partition("=")
            knobs[key] = int(value) if value.isdigit() else value
        mended = price(request, [strategy(request, **knobs)])[0]
        assert (verdict(mended), host_verdict(request, mended)) == ("fits", "fits")
        assert round(mended.step_ns / 1e9, 9) == relief.step_seconds


def test_a_host_without_offload_was_loading() -> None:
    """Where nothing is offloaded the host ran out while loading: ranks of a node times the weights."""
    request = request_()
    found = diagnose(request, strategy(request, zero_stage=2), OutOfMemory(where="host"))

    assert found.term == "loading"
    assert found.term_bytes == pytest.approx(8 * 8.03e9 * 2, rel=0.01)
    assert "meta device" in found.notes[0]
