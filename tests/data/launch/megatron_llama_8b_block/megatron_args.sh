# Arguments of Megatron-LM for llama-3.1-8b; launch.sh reads them.
# Written by shardwise; names as in Megatron-LM core_v0.16.1 to core_v0.19.0.
# shellcheck shell=bash disable=SC2034

# The model.
MODEL_ARGS=(
  --num-layers 32
  --hidden-size 4096
  --ffn-hidden-size 14336
  --swiglu
  --seq-length 8192
  --max-position-embeddings 131072
  --position-embedding-type rope
  --normalization RMSNorm
  --norm-epsilon 1e-05
  --init-method-std 0.02
  --rotary-base 500000
  --use-rope-scaling
  --rope-scaling-factor 8.0
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
  --num-attention-heads 32
  --kv-channels 128
  --group-query-attention
  --num-query-groups 8
)

# How it lies on the cards.
PARALLEL_ARGS=(
  --tensor-model-parallel-size 2
  --sequence-parallel
  --pipeline-model-parallel-size 4
  --context-parallel-size 1
  --use-tp-pp-dp-mapping
  --use-distributed-optimizer
  --overlap-grad-reduce
  --overlap-param-gather
  --tp-comm-overlap
)

# One optimizer step.
STEP_ARGS=(
  --micro-batch-size 1
  --global-batch-size 32
  --optimizer adam
  --clip-grad 1.0
)

# What is recomputed or offloaded.
MEMORY_ARGS=(
  --recompute-granularity full
  --recompute-method block
  --recompute-num-layers 3
)

# Types of weights, products and gradients.
PRECISION_ARGS=(
  --bf16
  --fp8-format hybrid
  --fp8-recipe tensorwise
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
  --vocab-size 128255
)

# All of them.
MEGATRON_ARGS=(
  "${MODEL_ARGS[@]}"
  "${ATTENTION_ARGS[@]}"
  "${PARALLEL_ARGS[@]}"
  "${STEP_ARGS[@]}"
  "${MEMORY_ARGS[@]}"
  "${PRECISION_ARGS[@]}"
  "${RECIPE_ARGS[@]}"
  "${DATA_ARGS[@]}"
)
