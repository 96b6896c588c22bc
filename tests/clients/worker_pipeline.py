"""One rank: a stage of the tiny model with the layers that the emitted layout gives it, trained by 1F1B."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import Any

folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
faulthandler.dump_traceback_later(seconds, exit=True)
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from clients import tiny_model  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.pipelining import PipelineStage, Schedule1F1B  # noqa: E402

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STEPS, RATE = 3, 1e-3


class Part(nn.Module):  # type: ignore[misc]
    """The layers of one stage; embedding before the first, norm and head after the last."""

    def __init__(self, model: Any, first: int, number: int) -> None:
        super().__init__()
        inner = model.model
        self.layers = inner.layers[first : first + number]
        self.embedding = inner.embed_tokens if RANK == 0 else None
        self.norm = inner.norm if RANK == WORLD - 1 else None
        self.head = model.lm_head if RANK == WORLD - 1 else None
        self.rotary = inner.rotary_emb

    def forward(self, found: torch.Tensor) -> torch.Tensor:
        """Hidden states of the stage, logits of the last."""
        if self.embedding is not None:
            found = self.embedding(found)
        places = torch.arange(found.shape[1]).unsqueeze(0)
        angles = self.rotary(found, places)
        for layer in self.layers:
            out = layer(found, position_embeddings=angles)
            found = out[0] if isinstance(out, tuple) else out
        if self.norm is None or self.head is None:
            return found
        logits: torch.Tensor = self.head(self.norm(found))
        return logits


def loss_of(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of a micro-batch."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())


def train(job: dict[str, Any]) -> dict[str, Any]:
    """Losses of the last stage, and what this rank holds."""
    model = tiny_model.build(layers=sum(job["layers"]))
    part = Part(model, sum(job["layers"][:RANK]), job["layers"][RANK])
    stage = PipelineStage(part, RANK, WORLD, torch.device("cpu"))
    schedule = Schedule1F1B(stage, job["micro_batches"], loss_fn=loss_of)
    optimizer = torch.optim.SGD(part.parameters(), lr=RATE)
    tokens = tiny_model.batch(0, job["micro_batches"] * job["micro_batch_size"])
    losses = []
    for _ in range(STEPS):
        parts: list[torch.Tensor] = []
        if RANK == 0:
            schedule.step(tokens[:, :-1])
        elif RANK == WORLD - 1:
            schedule.step(target=tokens[:, 1:], losses=parts)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(loss.item() for loss in parts) / max(len(parts), 1))
    return {
        "losses": losses,
        "layers": len(part.layers),
        "elements": sum(weight.numel() for weight in part.parameters()),
    }


def plain(job: dict[str, Any]) -> list[float]:
    """The same steps on one process."""
    model = tiny_model.build(layers=sum(job["layers"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    tokens = tiny_model.batch(0, job["micro_batches"] * job["micro_batch_size"])
    losses = []
    for _ in range(STEPS):
        loss = tiny_model.loss_of(model, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    dist.init_process_group("gloo")
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    found = {name: train(case) for name, case in job.items()}
    if RANK == 0:
        for name, case in job.items():
            found[name]["plain"] = plain(case)
    (folder / f"out{RANK}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()
