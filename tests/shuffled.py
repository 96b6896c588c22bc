"""Whole answers with rows in another order, a line each: ``python tests/shuffled.py SEED``"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from shardwise.hardware import Cluster
from shardwise.models import Training
from shardwise.plans import Request
from shardwise.solver import plan
from shardwise.solver.space import Space
from shardwise.solver.tables import Tables

MODELS = ("llama-3.1-8b", "mixtral-8x7b")


class Shuffled(Tables):
    """Tables whose spaces list their shapes, and the variants of each, in another order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def space(self, request: Request) -> Space:
        found, dice = super().space(request), np.random.default_rng(self.seed)
        variants = tuple(table[dice.permutation(len(table))] for table in found.variants)
        return replace(found, variants=variants).take(dice.permutation(len(found.kind)))


def asked(model: str, nodes: int) -> Request:
    """A job on some nodes."""
    training = Training(global_batch_size=128, sequence_length=4096)
    return Request(model=model, cluster=Cluster.preset("dgx-h100", nodes=nodes), training=training)


if __name__ == "__main__":
    for each in MODELS:
        print(plan(asked(each, 2), tables=Shuffled(int(sys.argv[1]))).model_dump_json())
