#!/usr/bin/env bash
# tiny-llama on 2 x 8 H100-SXM-80GB. Run it on each of the 2 machines.
# TRAIN_SCRIPT is your script, train.py by default; further arguments are handed to it.
# assumes: loss_kernel=chunked software_stack=deepspeed-2024
set -euo pipefail
: "${MASTER_ADDR:?set MASTER_ADDR to the name of the first machine}"
here="$(cd "$(dirname "$0")" && pwd)"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-14}"
script="$(realpath "${TRAIN_SCRIPT:-train.py}")"
cd "$here"
torchrun --nnodes=2 --nproc-per-node=8 \
  --rdzv-backend="${RDZV_BACKEND:-c10d}" --node-rank="${NODE_RANK:-0}" \
  --rdzv-endpoint="$MASTER_ADDR:${MASTER_PORT:-29500}" \
  --rdzv-id="${RUN_ID:-shardwise-0123456789abcdef}" \
  "$script" training_arguments.json \
  "$@"
