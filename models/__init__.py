"""Nouns of the model side: what is trained, how it is laid out, and what a backend makes of it."""

from .catalogue import model_names
from .counts import LayerCount, ModelCount, count, layer_count, training_flops_per_token
from .divisors import Divisor, divisors, legal_degrees
from .reader import ReadReport, explain_config, parse_config, read_config
from .strategy import Stage, Strategy
from .training import Training
from .transformer import Attention, Block, FeedForward, Run, Transformer

__all__ = [
    "Attention",
    "Block",
    "Divisor",
    "FeedForward",
    "LayerCount",
    "ModelCount",
    "ReadReport",
    "Run",
    "Stage",
    "Strategy",
    "Training",
    "Transformer",
    "count",
    "divisors",
    "explain_config",
    "layer_count",
    "legal_degrees",
    "model_names",
    "parse_config",
    "read_config",
    "training_flops_per_token",
]
