#!/usr/bin/env bash
# deepseek-v3 on 16 x 8 H100-SXM-80GB. Run it on each of the 16 machines.
# TRAIN_SCRIPT is the path of Megatron-LM's pretrain_gpt.py; further arguments are handed to it.
# assumes: software_stack=megatron-bridge-2025
set -euo pipefail
: "${MASTER_ADDR:?set MASTER_ADDR to the name of the first machine}"
here="$(cd "$(dirname "$0")" && pwd)"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
export CUDA_DEVICE_MAX_CONNECTIONS="${CUDA_DEVICE_MAX_CONNECTIONS:-1}"
source "$here/megatron_args.sh"
SAVING=()
if [ -n "${SAVE_DIR:-}" ]; then
  SAVING=(--save "$SAVE_DIR" --load "$SAVE_DIR" --save-interval "${SAVE_INTERVAL:-500}")
fi
torchrun --nnodes=16 --nproc-per-node=8 \
  --rdzv-backend="${RDZV_BACKEND:-c10d}" --node-rank="${NODE_RANK:-0}" \
  --rdzv-endpoint="$MASTER_ADDR:${MASTER_PORT:-29500}" \
  --rdzv-id="${RUN_ID:-shardwise-0123456789abcdef}" \
  "${TRAIN_SCRIPT:-pretrain_gpt.py}" \
  "${MEGATRON_ARGS[@]}" "${SAVING[@]}" \
  "$@"
