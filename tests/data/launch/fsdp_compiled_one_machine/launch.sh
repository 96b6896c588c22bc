#!/usr/bin/env bash
# tiny-llama on 1 x 8 H100-SXM-80GB. Run it on the machine.
# TRAIN_SCRIPT is your script, train.py by default; further arguments are handed to it.
# assumes: software_stack=fsdp-compile-2024
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
torchrun --nnodes=1 --nproc-per-node=8 \
  --standalone \
  "${TRAIN_SCRIPT:-train.py}" \
  "$@"
