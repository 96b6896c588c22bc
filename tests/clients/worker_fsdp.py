"""One rank: imports each emitted `fsdp_plan.py` of the job, trains with it, tells what the rank holds."""

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
from clients import ring_on_cpu, tiny_model  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

STEPS, RATE, FIRST = 3, 1e-3, "zero 3"
RANK = int(os.environ["RANK"])


def module_of(name: str, text: str) -> Any:
    """The emitted file, imported as a user would."""
    path = folder / f"{name.replace(' ', '_')}_{RANK}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def micro_batches(plan: Any, tokens: torch.Tensor, rank: int, count: int) -> list[Any]:
    """This rank's micro-batches of one step's `tokens`."""
    size = plan.MICRO_BATCH_SIZE
    starts = [(part * count + rank) * size for part in range(plan.GRADIENT_ACCUMULATION_STEPS)]
    return [(tokens[s : s + size, :-1], tokens[s : s + size, 1:]) for s in starts]


def train(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """Losses (mean over ranks), gradient norms and FLOPs of steps by the emitted `step`; what is held."""
    plan = module_of(name, case["module"])
    mesh = plan.make_mesh()
    model = laid_out(plan, mesh, case)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    norms: list[float] = []
    clip = plan.clip_gradients

    def clipped(*given: Any) -> torch.Tensor:
        norm: torch.Tensor = clip(*given)
        norms.append(norm.item())
        return norm

    plan.clip_gradients = clipped
    losses, counter = [], FlopCounterMode(display=False)
    passes = count_passes(plan.decoder_layers(model, plan.LAYERS))
    tokens = tiny_model.batch(0, plan.GLOBAL_BATCH_SIZE)
    with counter:
        for _ in range(STEPS):
            batches = micro_batches(plan, tokens, *plan.data_rank(mesh))
            loss = plan.step(model, optimizer, batches, max_norm=1.0)
            dist.all_reduce(loss)
            losses.append(loss.item() / dist.get_world_size())
    work = {"flops": counter.get_total_flops() // STEPS, "passes": [count // STEPS for count in passes]}
    return {"losses": losses, "norms": norms, **work, **held(plan, model)}


def laid_out(plan: Any, mesh: Any, case: dict[str, Any]) -> Any:
    """The model by `load` where the file has it, with weights that rank 0 alone holds; else by `apply`."""

    def build() -> Any:
        return tiny_model.build(case["family"], tied=case["tied"], layers=case["layers"])

    if hasattr(plan, "load"):
        return plan.load(build, mesh, build().state_dict() if RANK == 0 else {})
    built = build()
    tiny_model.hold(built, case["job"])
    return plan.apply(built, mesh)


def first_weights(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """What `load` gives without weights: how far they spread, and whether any is left unset."""
    plan = module_of(f"{name} first", case["module"])
    model = plan.load(
        lambda: tiny_model.build(case["family"], tied=case["tied"], layers=case["layers"]), plan.make_mesh()
    )
    whole = {key: value.full_tensor() for key, value in model.state_dict().items()}
    return {
        "deviation": whole["model.layers.0.self_attn.q_proj.weight"].std().item(),
        "norms": sorted({value for key, each in whole.items() if "norm" in key for value in each.tolist()}),
        "rotary": [buffer.tolist() for key, buffer in model.named_buffers() if "inv_freq" in key][0],
    }


def count_passes(layers: Any) -> list[int]:
    """Forward passes of each layer from now on, counted at its first norm."""
    passes = [0] * len(layers)

    def count(index: int) -> Any:
        def hook(*_: Any) -> None:
            passes[index] += 1

        return hook

    for index, layer in enumerate(layers):
        layer.input_layernorm.register_forward_hook(count(index))
    return passes


def held(plan: Any, model: Any) -> dict[str, Any]:
    """The mesh, and elements of the weights on this rank."""
    local = [w.to_local() if isinstance(w, DTensor) else w for w in model.parameters()]
    layers = plan.decoder_layers(model, plan.LAYERS)
    return {
        "data_rank": plan.data_rank(plan.make_mesh()),
        "elements": sum(weight.numel() for weight in local),
        "dtypes": sorted({str(weight.dtype).removeprefix("torch.") for weight in local}),
        "units": sum(type(part).__name__.startswith("FSDP") for part in model.modules()),
        "reshard": [
            layer._get_fsdp_state()._fsdp_param_group.post_forward_mesh_info is not None for layer in layers
        ],
    }


def attempt(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """What `case` gives; a case that must be refused tells how."""
    if not case["refused"]:
        return train(name, case)
    try:
        train(name, case)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": None}


def plain(case: dict[str, Any]) -> dict[str, list[float]]:
    """Ordinary training on one process over whole batches."""
    model = tiny_model.build(case["family"], tied=case["tied"])
    tiny_model.hold(model, case["job"])
    model.float()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    return tiny_model.plain_training(model, optimizer, [tiny_model.batch(0, case["sequences"])] * STEPS)


if __name__ == "__main__":
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    ring_on_cpu.install()
    found = {}
    for name, case in job.items():
        found[name] = attempt(name, case)
        if name == FIRST:
            found[name]["first"] = first_weights(name, case)
        if RANK == 0 and not case["refused"]:
            found[name]["plain"] = plain(case)
    (folder / f"out{RANK}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()
