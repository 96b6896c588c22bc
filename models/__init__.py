"""Nouns of the model side: what is trained, how it is laid out, and what a backend makes of it."""

from .catalogue import explain_preset, model_names
from .counts import (
    LayerCount,
    ModelCount,
    count,
    layer_count,
    predictor_flops_per_token,
    tower_flops_per_token,
    training_flops_per_token,
)
from .divisors import Divisor, divisors, legal_degrees
from .mixers import Attention, Mixer
from .reader import ReadReport, explain_config, parse_config, read_config
from .strategy import Stage, Strategy
from .training import Training
from .transformer import Block, FeedForward, Predictor, Run, Tower, Transformer

__all__ = [
    "Attention",
    "Block",
    "Divisor",
    "FeedForward",
    "LayerCount",
    "Mixer",
    "ModelCount",
    "Predictor",
    "ReadReport",
    "Run",
    "Stage",
    "Strategy",
    "Tower",
    "Training",
    "Transformer",
    "count",
    "divisors",
    "explain_config",
    "explain_preset",
    "layer_count",
    "legal_degrees",
    "model_names",
    "parse_config",
    "predictor_flops_per_token",
    "read_config",
    "tower_flops_per_token",
    "training_flops_per_token",
]
