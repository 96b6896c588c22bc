"""What a job trains of a model and what that costs in FLOPs: parameters by fate, FLOPs a token."""

from __future__ import annotations

from typing import NamedTuple

from .adapters import adapted, adapter_parameters
from .counts import training_flops_per_token
from .parameters import ModelCount, count
from .shares import Shares, trained_shares
from .training import Training
from .transformer import Block, Transformer


class Parameters(NamedTuple):
    """Parameters of a job: trained ones (adapters included), frozen ones, frozen ones in 4 bits."""

    trained: int
    frozen: int
    quantised: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.trained + self.frozen + self.quantised


def parameters(training: Training, model: Transformer) -> Parameters:
    """Parameters of the whole model by what becomes of them.

    >>> job = Training(global_batch_size=1, sequence_length=1, trainable="lora(16)")
    >>> parameters(job, Transformer.preset("llama-3.1-8b")).trained
    41943040
    """
    counted, shares = count(model), trained_shares(training, model)
    if not training.way.adapts:
        trained = round(_shared(counted, shares, model))
        return Parameters(trained, counted.total - trained, 0)
    trained = _adapters(training, model)
    if training.way.kind == "lora":
        return Parameters(trained, counted.total, 0)
    depth = (counted.layers[kind] for kind in model.kind_of_layer)
    quantised = sum(layer.attention + layer.dense + layer.experts for layer in depth)
    return Parameters(trained, counted.total - quantised, quantised)


def _shared(counted: ModelCount, shares: Shares, model: Transformer) -> float:
    towers = sum(size * share for size, share in zip(counted.towers, shares.towers, strict=True))
    ends = (counted.embedding - sum(counted.towers) + counted.positions) * shares.embedding
    ends += (counted.head + counted.final_norm) * shares.head
    layers = sum(
        layer.attention * shares.attention
        + layer.dense * shares.dense
        + layer.experts * shares.experts
        + layer.replicated * shares.replicated
        for layer in (counted.layers[kind] for kind in model.kind_of_layer)
    )
    return towers + ends + layers


def _adapters(training: Training, model: Transformer) -> int:
    rank, targets = training.way.rank, training.lora_targets
    each = [
        sum(adapter_parameters(matrix, rank) for matrix in adapted(block, model.hidden_size, targets))
        for block in model.kinds
    ]
    return sum(each[kind] for kind in model.kind_of_layer)


def flops_per_token(training: Training, model: Transformer) -> float:
    """FLOPs of forward and backward of one token, with the reference model's forward, no recompute.

    A trained matrix costs three products (6 a parameter), a frozen one two (4): its input still has a
    gradient. Tokens attend within their document.
    """
    found = _own_flops(training, model)
    reference = training.reference_model
    if reference is None:
        return found
    other = model if reference == "self" else reference
    return found + training_flops_per_token(other, training.attended_length) / 3.0


def _own_flops(training: Training, model: Transformer) -> float:
    whole = training_flops_per_token(model, training.attended_length)
    shares = trained_shares(training, model)
    if shares.whole:
        return whole
    counted = count(model)
    saved = 0.0
    for kind in model.kind_of_layer:
        layer = counted.layers[kind]
        routed = layer.active - layer.attention - layer.dense - layer.replicated
        saved += layer.attention * (1 - shares.attention) + layer.dense * (1 - shares.dense)
        saved += routed * (1 - shares.experts) + layer.replicated * (1 - shares.replicated)
    head = model.vocab_size * (model.embedding_width or model.hidden_size) if model.head else 0
    saved += head * (1 - shares.head)
    met = [adapters_met(training, block, model.hidden_size) for block in model.kinds]
    return whole - 2.0 * saved + 6.0 * sum(met[kind] for kind in model.kind_of_layer)


def adapters_met(training: Training, block: Block, hidden: int) -> int:
    """Adapter parameters of a layer that one token meets."""
    if not training.way.adapts:
        return 0
    matrices = adapted(block, hidden, training.lora_targets)
    return sum(training.way.rank * (m.inputs + m.outputs) * m.met for m in matrices)


def forward_ratio(training: Training, model: Transformer) -> float:
    """Forward FLOPs of the reference model over those of the trained one, at the job's length."""
    reference = training.reference_model
    if reference is None or reference == "self":
        return 0.0 if reference is None else 1.0
    length = training.attended_length
    return training_flops_per_token(reference, length) / training_flops_per_token(model, length)
