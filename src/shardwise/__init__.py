"""shardwise: decide how to train a transformer on the GPUs you have.

Reads the model, the cluster and the job; lets CP-SAT choose how to shard; proves that no other
choice is faster under its cost model; says why when nothing fits.
"""
