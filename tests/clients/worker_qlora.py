"""One rank: loads a 4-bit base with adapters as the README of a folder says, trains by the emitted module."""

from __future__ import annotations

import faulthandler
import importlib.util
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
from peft import LoraConfig, get_peft_model  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from transformers import AutoModelForCausalLM, BitsAndBytesConfig  # noqa: E402

STEPS, RATE = 3, 1e-2
RANK = int(os.environ["RANK"])


def base() -> Path:
    """The base in 16 bits, on disk for both ranks."""
    place = folder / "base"
    if RANK == 0:
        tiny_model.build().to(torch.bfloat16).save_pretrained(place)
    dist.barrier()
    return place


def build(place: Path, job: dict[str, Any]) -> Any:
    """The 4-bit base with adapters; the arguments are those of the README."""
    quantised = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_quant_storage=torch.bfloat16,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    model = AutoModelForCausalLM.from_pretrained(
        place, quantization_config=quantised, dtype=torch.bfloat16, device_map={"": "cpu"}
    )
    torch.manual_seed(0)
    made = get_peft_model(model, LoraConfig(r=job["rank"], target_modules=job["targets"]))
    for weight in made.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
    return made


def stepper(model: Any) -> torch.optim.Optimizer:
    """AdamW over the adapters."""
    return torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=RATE)


def train(name: str, text: str, model: Any) -> dict[str, Any]:
    """Losses of steps by the emitted module, and what the rank holds."""
    path = folder / f"{name.replace(' ', '_')}_{RANK}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    plan = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plan)
    mesh = plan.make_mesh()
    model = plan.apply(model, mesh)
    optimizer, losses = stepper(model), []
    rank, count = plan.data_rank(mesh)
    tokens, size = tiny_model.batch(0, plan.GLOBAL_BATCH_SIZE), plan.MICRO_BATCH_SIZE
    for _ in range(STEPS):
        starts = [(part * count + rank) * size for part in range(plan.GRADIENT_ACCUMULATION_STEPS)]
        batches = [(tokens[s : s + size, :-1], tokens[s : s + size, 1:]) for s in starts]
        loss = plan.step(model, optimizer, batches, max_norm=1.0)
        dist.all_reduce(loss)
        losses.append(loss.item() / dist.get_world_size())
    local = [(weight, weight.to_local()) for weight in model.parameters() if isinstance(weight, DTensor)]
    return {
        "losses": losses,
        "packed": sum(part.numel() for weight, part in local if weight.shape[-1] == 1),
        "adapters": sum(part.numel() for weight, part in local if weight.requires_grad),
    }


def plain(model: Any, sequences: int) -> list[float]:
    """The same on one process without the module, adapters in bfloat16 where they multiply."""
    model.train()
    optimizer, losses = stepper(model), []
    tokens = tiny_model.batch(0, sequences)
    for _ in range(STEPS):
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=tokens[:, :-1]).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    dist.init_process_group("gloo")
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    place = base()
    found: dict[str, Any] = {}
    for name, case in job.items():
        found[name] = train(name, case["module"], build(place, case))
        found[name]["plain"] = plain(build(place, case), case["sequences"])
    (folder / f"out{RANK}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()
