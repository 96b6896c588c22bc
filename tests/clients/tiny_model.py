"""The model of `plans_by_hand.tiny` as transformers builds it, its data, training without any client."""

from __future__ import annotations

from typing import Any

import torch
import transformers

SEQUENCE, VOCABULARY = 32, 256


def build(family: str = "llama", *, tied: bool = False, layers: int = 4) -> Any:
    """The same weights in every process."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        family,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        use_cache=False,
    )
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def hold(model: Any, job: dict[str, Any]) -> None:
    """Freezes in bfloat16 what the fields of a `job` freeze, all but the adapters where it has some.

    Without a master copy everything is in bfloat16.
    """
    frozen = []
    if str(job.get("trainable", "all")).startswith("lora"):
        frozen = list(model.parameters())
    for part in job.get("frozen", ()):
        where = {"embedding": ("model.embed_tokens",), "head": ("lm_head", "model.norm")}[part]
        frozen += [weight for name in where for weight in model.get_submodule(name).parameters()]
    for weight in frozen:
        weight.requires_grad_(False)
        weight.data = weight.data.to(torch.bfloat16)
    if job.get("lora_targets"):
        for layer in model.model.layers:
            for name in job["lora_targets"]:
                setattr(layer.self_attn, name, Adapted(layer.self_attn.get_submodule(name), 4))
    if not job.get("master_weights", True):
        model.to(torch.bfloat16)


class Adapted(torch.nn.Module):  # type: ignore[misc]  # torch is no part of the checks
    """A linear with low-rank adapters in float32 beside it, as peft's own Linear has them."""

    def __init__(self, base: torch.nn.Linear, rank: int) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(base.in_features * 1000 + base.out_features)
        self.base = base
        self.down = torch.nn.Parameter(torch.randn(rank, base.in_features, generator=made) / 8)
        self.up = torch.nn.Parameter(torch.randn(base.out_features, rank, generator=made) / 8)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Base and adapters together."""
        thin = torch.nn.functional.linear(hidden, self.down.to(hidden.dtype))
        return self.base(hidden) + torch.nn.functional.linear(thin, self.up.to(hidden.dtype))


def batch(step: int, sequences: int) -> torch.Tensor:
    """Tokens of one optimizer step, one more than a sequence so that the next tokens are known."""
    made = torch.Generator().manual_seed(step)
    return torch.randint(0, VOCABULARY, (sequences, SEQUENCE + 1), generator=made)


def loss_of(model: Any, tokens: torch.Tensor, rank: int = 0, ranks: int = 1) -> torch.Tensor:
    """Mean cross entropy of the next tokens, of the part of each sequence that one of `ranks` has."""
    part = slice(rank * SEQUENCE // ranks, (rank + 1) * SEQUENCE // ranks)
    told = {"position_ids": torch.arange(SEQUENCE)[None, part].repeat(len(tokens), 1)} if ranks > 1 else {}
    logits = model(input_ids=tokens[:, :-1][:, part], **told).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:][:, part].flatten())


def plain_training(model: Any, optimizer: Any, batches: list[torch.Tensor]) -> dict[str, list[float]]:
    """Losses and gradient norms of ordinary training on one process, gradients clipped at norm 1."""
    losses, norms = [], []
    for tokens in batches:
        loss = loss_of(model, tokens)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return {"losses": losses, "norms": norms}
