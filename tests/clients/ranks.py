"""Running one worker script on several gloo ranks of this machine, with a hard time limit."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

WORKERS = Path(__file__).parent


def environment(folder: Path) -> dict[str, str]:
    """Few threads, no network, op builds in a cache of our own (a killed build leaves its lock behind)."""
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    own = {"TORCH_EXTENSIONS_DIR": str(folder / "ops"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, **quiet, **own, "PATH": path, "CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu"}


def run_ranks(worker: str, job: Any, world: int, folder: Path, seconds: float) -> list[Any]:
    """What each rank of `worker` wrote for `job`, by rank; fails with the tail of the first bad rank."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    common = {**environment(folder), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = []
    for rank in range(world):
        with (folder / f"log{rank}").open("w", encoding="utf-8") as log:
            started.append(
                subprocess.Popen(
                    [sys.executable, str(WORKERS / worker), str(folder), str(seconds)],
                    env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
    try:
        codes = [process.wait(timeout=seconds + 30) for process in started]
    finally:
        for process in started:
            process.kill()
    for rank, code in enumerate(codes):
        tail = (folder / f"log{rank}").read_text(encoding="utf-8", errors="replace")[-4000:]
        assert code == 0, f"rank {rank} of {worker} ended {code}:\n{tail}"
    return [json.loads((folder / f"out{rank}.json").read_text(encoding="utf-8")) for rank in range(world)]


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
