# Arguments of Megatron-LM for gpt3-175b; launch.sh reads them.
# Written by shardwise; names as in Megatron-LM core_v0.16.1 to core_v0.19.0.
# shellcheck shell=bash disable=SC2034

# The model.
MODEL_ARGS=(
  --num-layers 96
  --hidden-size 12288
  --ffn-hidden-size 49152
  --seq-length 2048
  --max-position-embeddings 2048
  --position-embedding-type learned_absolute
  --normalization LayerNorm
  --norm-epsilon 1e-05
  --init-method-std 0.02
  --make-vocab-size-divisible-by 128
  --hidden-dropout 0.0
  --attention-dropout 0.0
  --transformer-impl transformer_engine
  --no-create-attention-mask-in-dataloader
)

# Its attention.
ATTENTION_ARGS=(
  --num-attention-heads 96
  --kv-channels 128
)

# How it lies on the cards.
PARALLEL_ARGS=(
  --tensor-model-parallel-size 8
  --sequence-parallel
  --pipeline-model-parallel-size 8
  --num-virtual-stages-per-pipeline-rank 6
  --context-parallel-size 1
  --use-distributed-optimizer
  --overlap-grad-reduce
  --overlap-param-gather
  --tp-comm-overlap
)

# One optimizer step.
STEP_ARGS=(
  --micro-batch-size 1
  --global-batch-size 192
  --optimizer adam
  --clip-grad 1.0
)

# Types of weights, products and gradients.
PRECISION_ARGS=(
  --bf16
  --accumulate-allreduce-grads-in-fp32
)

# YOURS: placeholders of the training recipe, no decisions of the plan.
RECIPE_ARGS=(
  --train-iters 50
  --lr 0.0001
  --lr-decay-style cosine
  --lr-warmup-fraction 0.01
  --weight-decay 0.1
  --adam-beta1 0.9
  --adam-beta2 0.95
  --adam-eps 1e-08
  --eval-iters 0
  --log-interval 1
  --log-throughput
)

# YOURS: made-up tokens for the first minutes; put --data-path and your tokenizer here.
DATA_ARGS=(
  --mock-data
  --tokenizer-type NullTokenizer
  --vocab-size 51199
)

# All of them.
MEGATRON_ARGS=(
  "${MODEL_ARGS[@]}"
  "${ATTENTION_ARGS[@]}"
  "${PARALLEL_ARGS[@]}"
  "${STEP_ARGS[@]}"
  "${PRECISION_ARGS[@]}"
  "${RECIPE_ARGS[@]}"
  "${DATA_ARGS[@]}"
)
