#!/usr/bin/env bash
# tiny-llama on 1 x 8 H100-SXM-80GB. Run it on the machine.
# TRAIN_SCRIPT is your script, train.py by default; further arguments are handed to it.
# assumes: micro_batch_size=1 gradient_accumulation_steps=4 loss_kernel=eager software_stack=fsdp-compile-2024
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
accelerate launch --config_file "$here/accelerate_fsdp2.yaml" \
  --num_machines 1 --num_processes 8 \
  "${TRAIN_SCRIPT:-train.py}" \
  "$@"
