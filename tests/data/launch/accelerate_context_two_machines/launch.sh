#!/usr/bin/env bash
# tiny-llama on 2 x 8 H100-SXM-80GB. Run it on each of the 2 machines.
# TRAIN_SCRIPT is your script, train.py by default; further arguments are handed to it.
# assumes: micro_batch_size=1 gradient_accumulation_steps=1 loss_kernel=eager software_stack=fsdp-hf-2023
set -euo pipefail
: "${MASTER_ADDR:?set MASTER_ADDR to the name of the first machine}"
: "${NODE_RANK:?set NODE_RANK to the number of this machine, from 0}"
here="$(cd "$(dirname "$0")" && pwd)"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
accelerate launch --config_file "$here/accelerate_fsdp2.yaml" \
  --num_machines 2 --num_processes 16 \
  --machine_rank "$NODE_RANK" \
  --main_process_ip "$MASTER_ADDR" --main_process_port "${MASTER_PORT:-29500}" \
  "${TRAIN_SCRIPT:-train.py}" \
  "$@"
