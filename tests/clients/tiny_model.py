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


def batch(step: int, sequences: int) -> torch.Tensor:
    """Tokens of one optimizer step, one more than a sequence so that the next tokens are known."""
    made = torch.Generator().manual_seed(step)
    return torch.randint(0, VOCABULARY, (sequences, SEQUENCE + 1), generator=made)


def loss_of(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of the next tokens."""
    logits = model(input_ids=tokens[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


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
