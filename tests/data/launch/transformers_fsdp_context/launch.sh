#!/usr/bin/env bash
# tiny-llama on 1 x 8 H100-SXM-80GB. Run it on the machine.
# TRAIN_SCRIPT is your script, train.py by default; further arguments are handed to it.
# assumes: loss_kernel=eager software_stack=fsdp-hf-2023
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
script="$(realpath "${TRAIN_SCRIPT:-train.py}")"
cd "$here"
export ACCELERATE_USE_FSDP=true
export ACCELERATE_USE_PARALLELISM_CONFIG=true
export PARALLELISM_CONFIG_DP_REPLICATE_SIZE=1
export PARALLELISM_CONFIG_DP_SHARD_SIZE=4
export PARALLELISM_CONFIG_CP_SIZE=2
export PARALLELISM_CONFIG_CP_COMM_STRATEGY=alltoall
torchrun --nnodes=1 --nproc-per-node=8 \
  --standalone \
  "$script" training_arguments.json \
  "$@"
