#!/usr/bin/env bash
# tiny-llama on 2 x 8 H100-SXM-80GB. Run it on the first machine, which reaches the others by ssh; put their names into hostfile.
# TRAIN_SCRIPT is your script, train.py by default; further arguments are handed to it.
# assumes: loss_kernel=eager software_stack=deepspeed-2024
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-14}"
export DS_ENV_FILE="$here/.deepspeed_env"
CORES=()
command -v numactl >/dev/null && CORES=(--bind_cores_to_rank)
deepspeed --hostfile "${HOSTFILE:-$here/hostfile}" \
  --num_nodes 2 --num_gpus 8 \
  --master_port "${MASTER_PORT:-29500}" \
  "${CORES[@]}" \
  "${TRAIN_SCRIPT:-train.py}" \
  --deepspeed "$here/ds_config.json" \
  "$@"
