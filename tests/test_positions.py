"""Learned positions end where their table ends."""

from __future__ import annotations

import pytest

from shardwise import Cluster, Plan, Request, Training, plan


@pytest.mark.parametrize(("length", "told"), [(1024, False), (2048, True)])
def test_a_sequence_beyond_the_table_is_warned_of(length: int, told: bool) -> None:
    """GPT-2 has 1,024: its own code stops at the first step beyond them."""
    training = Training(global_batch_size=64, sequence_length=length)
    answer = plan(Request(model="gpt2", cluster=Cluster.preset("dgx-h100"), training=training))

    assert isinstance(answer, Plan)
    assert ("positions" in {notice.code for notice in answer.warnings}) is told
