# Arguments of Megatron-LM for tiny-llama; launch.sh reads them.
# Written by shardwise; names as in Megatron-LM core_v0.16.1 to core_v0.19.0.
# shellcheck shell=bash disable=SC2034

# The model.
MODEL_ARGS=(
  --num-layers 4
  --hidden-size 64
  --ffn-hidden-size 128
  --swiglu
  --seq-length 32
  --max-position-embeddings 32
  --position-embedding-type rope
  --normalization RMSNorm
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --make-vocab-size-divisible-by 128
  --hidden-dropout 0.0
  --attention-dropout 0.0
  --transformer-impl transformer_engine
  --no-create-attention-mask-in-dataloader
)

# Its attention.
ATTENTION_ARGS=(
  --num-attention-heads 4
  --kv-channels 16
  --group-query-attention
  --num-query-groups 2
)

# How it lies on the cards.
PARALLEL_ARGS=(
  --tensor-model-parallel-size 2
  --sequence-parallel
  --pipeline-model-parallel-size 2
  --pipeline-model-parallel-layout 'Et|t*3L'
  --context-parallel-size 1
  --use-distributed-optimizer
  --overlap-grad-reduce
  --overlap-param-gather
  --tp-comm-overlap
)

# One optimizer step.
STEP_ARGS=(
  --micro-batch-size 1
  --global-batch-size 8
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
  --vocab-size 255
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
