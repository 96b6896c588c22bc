"""What a person must do beside starting the script, by target."""

from __future__ import annotations

from collections.abc import Iterator

from ..models.divisors import padded_vocabulary
from ..models.transformer import Transformer
from ..models.work import parameters
from ..plans import Request
from ..plans.plan import Plan
from . import shared_sequence, ways
from .deepspeed.write import LR_PLACEHOLDER
from .fsdp.decisions import decisions
from .fsdp.limits import replicas_of
from .megatron.bridge import FILE as BRIDGE_FILE
from .megatron.bridge import recipe
from .megatron.constants import edits
from .megatron.write import FILE as MEGATRON_FILE
from .releases import read_in, tested_with

MEANING = {
    "accelerate_fsdp2.yaml": "configuration of `accelerate launch`",
    ".deepspeed_env": "environment that the deepspeed launcher hands to the other machines",
    "baseline.md": "what this small run shows of the large one",
    "compare.sh": "reads a log of this run and compares its step with the plan",
    "ds_config.hf.json": "the same with `auto` for what the Hugging Face trainer fills in",
    "ds_config.json": "configuration of DeepSpeed",
    "fsdp_plan.py": "module for the training script: mesh, layout, step",
    "hostfile": "machines and their cards; replace the names",
    "job.sbatch": "the Slurm job, which runs launch.sh on each machine",
    "launch.sh": "starts the run",
    BRIDGE_FILE: "the same as overrides of a recipe of Megatron-Bridge",
    MEGATRON_FILE: "arguments of Megatron-LM, read by launch.sh",
    "plan.json": "the plan: strategy, memory, time, proof; `shardwise` reads it again",
    "torchtitan_0_2.toml": "the same for torchtitan 0.2, which reads a file",
    "torchtitan_args.sh": "arguments of torchtitan 0.3, read by launch.sh",
    "training_arguments.json": "fields of `TrainingArguments`, read by `HfArgumentParser`",
}

_ATTENTION = (
    'Load the model with `attn_implementation="sdpa"` or a flash kernel: the plan prices fused attention.'
)
_CACHE = (
    "Set `model.config.use_cache = False`: Hugging Face models whose layers are wrapped for recomputation "
    "from outside return keys and values of every layer, which the plan does not price."
)
_COMPACT = (
    "Make the optimizer with an 8-bit AdamW that shards (`torchao.optim.AdamW8bit`; not run in our tests)."
)


def notes(plan: Plan, target: str) -> list[str]:
    """Sentences for the README of `target`, in order."""
    if target == "slurm":
        return [*_slurm(plan), *notes(plan, plan.strategy.backend)]
    own = {
        "deepspeed": _deepspeed,
        "fsdp": _fsdp,
        "accelerate": _accelerate,
        "megatron": _megatron,
        "transformers": _transformers,
        "torchtitan": _torchtitan,
    }[target]
    told = [*own(plan), *shared_sequence.notes(plan, target), *ways.notes(plan, target)]
    if plan.strategy.backend == "fsdp" and plan.strategy.recompute != "none" and target != "torchtitan":
        told.append(_CACHE)
    return told if target in ("megatron", "torchtitan") else [*told, _ATTENTION]


def _several(plan: Plan) -> bool:
    return plan.strategy.world > plan.request.cluster.node.gpus


def _deepspeed(plan: Plan) -> Iterator[str]:
    strategy = plan.strategy
    if _several(plan):
        yield "Put the machines' names into `hostfile`; the folder and the script must be on all of them."
    yield "The script takes `--deepspeed FILE` (Hugging Face `Trainer` does), or hands it to DeepSpeed."
    yield "The learning rate and its companions are placeholders of your recipe, not decisions of the plan."
    yield f"The `Trainer` refuses arguments that differ from the file; these agree: `{trainer_flags(plan)}`."
    if strategy.recompute != "none":
        yield (
            "Call `model.gradient_checkpointing_enable()` (`--gradient_checkpointing` of the `Trainer`): "
            "Hugging Face models recompute by their own switch; the block `activation_checkpointing` "
            "serves `deepspeed.checkpointing.checkpoint` only."
        )
    if strategy.loss_kernel == "chunked":
        yield "Switch Liger kernels on (`--use_liger_kernel` of the `Trainer`): the loss is priced in chunks."
    if strategy.zero_stage == 3:
        yield "Checkpoints are sharded; the script `zero_to_fp32.py` inside makes one float32 file of them."


def trainer_flags(plan: Plan) -> str:
    """Arguments of the Hugging Face `Trainer` that agree with `ds_config.json`."""
    strategy, flags = plan.strategy, []
    flags.append(f"--per_device_train_batch_size {strategy.micro_batch_size}")
    flags.append(f"--gradient_accumulation_steps {strategy.gradient_accumulation_steps}")
    flags += [f"--{strategy.precision}"] if strategy.precision in ("bf16", "fp16") else []
    flags.append(f"--max_grad_norm 1.0 --learning_rate {LR_PLACEHOLDER}")
    if plan.request.training.optimizer == "adamw":
        flags.append("--adam_beta1 0.9 --adam_beta2 0.95 --adam_epsilon 1e-8 --weight_decay 0.1")
    return " ".join(flags)


def _transformers(plan: Plan) -> Iterator[str]:
    if _several(plan):
        yield "Set `MASTER_ADDR` to the first machine; ranks are numbered machine by machine."
    yield (
        "The script reads one JSON file with `HfArgumentParser`, as the examples of transformers do: add "
        "its own arguments (model, data) to `training_arguments.json`."
    )
    yield "The learning rate and its companions are placeholders of your recipe, not decisions of the plan."
    yield from _trainer_fsdp(plan) if plan.strategy.backend == "fsdp" else _trainer_deepspeed()


def _trainer_deepspeed() -> Iterator[str]:
    yield "Bucket sizes stay numbers in the DeepSpeed file: `auto` would take them from the hidden width."
    yield (
        "Make the `TrainingArguments` before the model: then ZeRO stage 3 loads it in pieces, and no rank "
        "holds all of it."
    )


def _trainer_fsdp(plan: Plan) -> Iterator[str]:
    yield (
        "Make the `TrainingArguments` before the model: then one rank of a machine loads it, and the others "
        f"wait for their shards; load it in {_loaded(plan.request)}."
    )
    if plan.strategy.loss_kernel == "hf-eager":
        yield (
            "The plan prices the loss as Transformers until 4.48 had it, which copied logits to shift them: "
            "newer ones shift the labels and take less (`--set loss_kernel=eager`)."
        )
    if replicas_of(plan.strategy) > 1:
        yield "The mesh of replicas stands in `launch.sh`, as variables of Accelerate: no JSON can hold it."
    if plan.request.training.optimizer == "adamw-8bit":
        yield "`adamw_torch_8bit` needs torchao (not run in our tests)."


def _torchtitan(plan: Plan) -> Iterator[str]:
    if _several(plan):
        yield "Set `MASTER_ADDR` to the first machine; ranks are numbered machine by machine."
    yield (
        "Steps and the clipping norm are placeholders; data, tokenizer and learning rate are those of the "
        "named configuration: arguments behind `bash launch.sh` win over it, not over the file's."
    )
    yield (
        "The named configuration computes the loss in chunks, which needs less memory than the plan prices."
    )


def _slurm(plan: Plan) -> Iterator[str]:
    yield "Submit the job from this folder with `sbatch job.sbatch`; set `TRAIN_SCRIPT` before."
    yield "Partition, account and quality of service are your site's: add them to the head of `job.sbatch`."
    if plan.request.training.total_tokens is None:
        yield "The request names no number of tokens: the time is that of the first steps."


def _fsdp(plan: Plan) -> Iterator[str]:
    strategy = plan.strategy
    yield f"The docstring of `fsdp_plan.py` shows the script; load the model in {_loaded(plan.request)}."
    if decisions(plan).loads:
        yield "Its `load` makes the model on the meta device: no host holds it whole for each of its ranks."
    if _several(plan):
        yield "Set `MASTER_ADDR` to the first machine; ranks are numbered machine by machine."
    if strategy.tensor_parallel > 1:
        yield "Ranks of one tensor-parallel group must read the same data: use `fsdp_plan.data_rank(mesh)`."
    if strategy.stages[0].recompute_selective_layers:
        yield "Partial recomputation keeps attention and every second matrix product of a layer, as priced."
    if strategy.gradient_accumulation_steps > 1 and plan.request.training.sync_each_batch:
        yield "Gradients are reduced after each micro-batch, as priced; do not switch synchronisation off."
    yield from _optimizer(plan)


def _optimizer(plan: Plan) -> Iterator[str]:
    """Which optimizer the script makes, where it is not AdamW."""
    made = {
        "adamw-8bit": _COMPACT,
        "lion": "Make a Lion optimizer (one momentum in the type of the weights); torch has none of its own.",
        "sgd": "Make `torch.optim.SGD` with a momentum.",
        "sgd-no-momentum": "Make `torch.optim.SGD` without momentum.",
    }
    if sentence := made.get(plan.request.training.optimizer):
        yield sentence


def _loaded(request: Request) -> str:
    """The types of trained and frozen weights, in words."""
    kind = "float32" if request.training.master_weights else "bfloat16"
    held = parameters(request.training, request.model)
    return kind if held.trained == held.total else f"bfloat16, what is trained of it in {kind}"


def _accelerate(plan: Plan) -> Iterator[str]:
    if _several(plan):
        yield "Set `MASTER_ADDR` to the first machine and `NODE_RANK` on each."
    yield "Micro-batch and accumulation are no keys of the YAML: set them in the script, as under Decided."
    if plan.strategy.gradient_accumulation_steps > 1 and plan.request.training.sync_each_batch:
        yield (
            "Pass `GradientAccumulationPlugin(num_steps=..., sync_each_batch=True)`: without it Accelerate "
            "keeps whole gradients between micro-batches, which the plan did not price."
        )
    yield (
        "The plan prices the loss as `cross_entropy(logits, next_tokens)` on labels you shift; "
        "`model(labels=...)` of Hugging Face keeps more copies of the logits."
    )
    yield "Sharding can be seen on cards only: on CPU Accelerate ignores the FSDP section."
    if parameters(plan.request.training, plan.request.model).frozen:
        yield (
            f"Take {tested_with('accelerate')} or later: earlier releases made frozen weights float32 under "
            "FSDP2, twice what the plan prices."
        )
    yield from _optimizer(plan)


def _megatron(plan: Plan) -> Iterator[str]:
    model, strategy = plan.request.model, plan.strategy
    yield (
        f"Take {read_in('Megatron-LM')} with Transformer Engine and Apex (NVIDIA's PyTorch container has "
        "both), on every machine, and set `TRAIN_SCRIPT` to its `pretrain_gpt.py`."
    )
    if _several(plan):
        yield "Set `MASTER_ADDR` to the first machine; ranks are numbered machine by machine."
    yield (
        f"`RECIPE_ARGS` and `DATA_ARGS` of `{MEGATRON_FILE}` are placeholders: made-up tokens and a usual "
        "recipe, enough to see memory and speed. Arguments behind `bash launch.sh` win over the file's."
    )
    padded = padded_vocabulary(model.vocab_size, strategy.tensor_parallel)
    yield (
        f"The plan prices a vocabulary of {model.vocab_size}, which Megatron-LM pads to {padded}; "
        "a tokenizer of another size is another model."
    )
    yield from _constants(model)
    if function := recipe(plan):
        yield (
            f"With {read_in('Megatron-Bridge')} instead, hand `{BRIDGE_FILE}` to its `run_recipe.py --recipe "
            f"{function}`, as its head says: the model then comes from the Hugging Face hub (names of fields "
            "were checked, nothing was run)."
        )
    yield from _further(model)
    if any(kind.feed_forward.experts for kind in model.kinds):
        yield "Experts are priced in balance: watch the load-balancing loss before you trust the peak."
    if strategy.precision in ("fp8", "mxfp8"):
        yield "Weights stay in bfloat16 beside their 8-bit copies, as priced; norms, router and head too."


def _further(model: Transformer) -> Iterator[str]:
    """Modules that predict further tokens: trained, or left out."""
    if model.mtp_layers:
        yield (
            f"`--mtp-num-layers {model.mtp_layers}` trains what predicts further tokens, on the last stage "
            "beside the head; `--mtp-loss-scaling-factor` is a placeholder, and TFLOP/s in the log "
            "count it. Full recomputation leaves it kept (by blocks), as priced."
        )
    elif model.predictor is not None:
        yield "The modules that predict further tokens are left out, as they are in the price."


def _constants(model: Transformer) -> Iterator[str]:
    """What of the model's numbers is written, and what Megatron-LM makes of the rest."""
    if model.constants is None:
        yield (
            "The model came without the numbers that change neither memory nor speed: rotary base and "
            "scaling, the epsilon of norms and first weights are Megatron's defaults until you set them."
        )
    for edit in edits(model):
        yield f"`{edit.file}` of Megatron-LM must hold `{edit.line}`: {edit.why}; launch.sh checks that."
    routing = model.constants.routing if model.constants else None
    if routing and routing.score == "softmax" and routing.groups_per_token < routing.groups:
        yield "Megatron-LM scores a group of experts by the sum of its best ones, the model by its best one."
    yield "Dropout is off, as priced."
