#!/usr/bin/env bash
# tiny-llama on 1 x 4 H100-SXM-80GB. Run it on the machine.
# TRAIN_SCRIPT is your script, train.py by default; further arguments are handed to it.
# assumes: loss_kernel=eager software_stack=deepspeed-2024
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
deepspeed --num_gpus 4 \
  "${TRAIN_SCRIPT:-train.py}" \
  --deepspeed "$here/ds_config.json" \
  "$@"
