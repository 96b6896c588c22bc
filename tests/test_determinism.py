"""Same request, same bytes: in fresh processes with other hash seeds, and with shapes in another order."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from shardwise.hardware import Cluster
from shardwise.models import Training
from shardwise.plans import Request
from shardwise.solver.search import Search
from shardwise.solver.space import Space
from shardwise.solver.tables import Tables

ASK = """
from shardwise import Cluster, Request, Training, plan
request = Request(model="{model}", cluster=Cluster.preset("dgx-h100", nodes=2),
                  training=Training(global_batch_size=128, sequence_length=8192))
print(plan(request).model_dump_json())
"""


def answer(model: str, seed: int) -> str:
    """The plan as a fresh process with this hash seed prints it."""
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(model=model)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_hash_seeds_do_not_show(model: str) -> None:
    """The answer is the same to the byte."""
    assert len({answer(model, seed) for seed in (0, 1, 77)}) == 1


class Shuffled(Tables):
    """Tables whose spaces list their shapes in another order."""

    def space(self, request: Request) -> Space:
        found = super().space(request)
        return found.take(np.random.default_rng(5).permutation(len(found.kind)))


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v2-lite"])
def test_the_order_of_shapes_does_not_show(model: str) -> None:
    """Plan and step are the same in whatever order the shapes lie."""
    training = Training(global_batch_size=128, sequence_length=4096)
    asked = Request(model=model, cluster=Cluster.preset("dgx-h100", nodes=4), training=training)
    plain, mixed = Search(asked).run().best, Search(asked, tables=Shuffled()).run().best

    assert plain is not None and plain == mixed
