#!/usr/bin/env bash
# mistral-7b on 1 x 8 H100-SXM-80GB. Run it on the machine.
# TRAIN_SCRIPT is the path of Megatron-LM's pretrain_gpt.py; further arguments are handed to it.
# assumes: software_stack=megatron-bridge-2025
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
export CUDA_DEVICE_MAX_CONNECTIONS="${CUDA_DEVICE_MAX_CONNECTIONS:-1}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-14}"
source "$here/megatron_args.sh"
SAVING=()
if [ -n "${SAVE_DIR:-}" ]; then
  SAVING=(--save "$SAVE_DIR" --load "$SAVE_DIR" --save-interval "${SAVE_INTERVAL:-500}")
fi
torchrun --nnodes=1 --nproc-per-node=8 \
  --standalone \
  "${TRAIN_SCRIPT:-pretrain_gpt.py}" \
  "${MEGATRON_ARGS[@]}" "${SAVING[@]}" \
  "$@"
