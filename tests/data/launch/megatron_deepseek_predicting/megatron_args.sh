# Arguments of Megatron-LM for deepseek-v3; launch.sh reads them.
# Written by shardwise; names as in Megatron-LM core_v0.16.1 to core_v0.19.0.
# shellcheck shell=bash disable=SC2034

# The model.
MODEL_ARGS=(
  --num-layers 61
  --mtp-num-layers 1
  --hidden-size 7168
  --ffn-hidden-size 18432
  --swiglu
  --seq-length 4096
  --max-position-embeddings 163840
  --position-embedding-type rope
  --normalization RMSNorm
  --norm-epsilon 1e-06
  --init-method-std 0.02
  --rotary-base 10000
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
  --num-attention-heads 128
  --kv-channels 128
  --qk-layernorm
  --multi-latent-attention
  --q-lora-rank 1536
  --kv-lora-rank 512
  --qk-head-dim 128
  --qk-pos-emb-head-dim 64
  --v-head-dim 128
  --rope-type yarn
  --rotary-scaling-factor 40.0
  --mscale 1.0
  --mscale-all-dim 1.0
)

# Its experts.
EXPERTS_ARGS=(
  --num-experts 256
  --moe-router-topk 8
  --moe-ffn-hidden-size 2048
  --moe-shared-expert-intermediate-size 2048
  --moe-layer-freq '[0]*3+[1]*58'
  --moe-token-dispatcher-type alltoall
  --moe-grouped-gemm
  --moe-router-score-function sigmoid
  --moe-router-num-groups 8
  --moe-router-group-topk 4
  --moe-router-topk-scaling-factor 2.5
)

# How it lies on the cards.
PARALLEL_ARGS=(
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 8
  --pipeline-model-parallel-layout 'Et*8|(t*8|)*6t*5mL'
  --context-parallel-size 1
  --expert-model-parallel-size 16
  --expert-tensor-parallel-size 1
  --use-distributed-optimizer
  --overlap-grad-reduce
  --overlap-param-gather
)

# One optimizer step.
STEP_ARGS=(
  --micro-batch-size 1
  --global-batch-size 128
  --optimizer adam
  --clip-grad 1.0
)

# What is recomputed or offloaded.
MEMORY_ARGS=(
  --recompute-granularity full
  --recompute-method block
  --recompute-num-layers 8
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
  --mtp-loss-scaling-factor 0.1
  --moe-router-load-balancing-type seq_aux_loss
  --moe-aux-loss-coeff 0.0001
  --moe-router-enable-expert-bias
  --eval-iters 0
  --log-interval 1
  --log-throughput
)

# YOURS: made-up tokens for the first minutes; put --data-path and your tokenizer here.
DATA_ARGS=(
  --mock-data
  --tokenizer-type NullTokenizer
  --vocab-size 129279
)

# All of them.
MEGATRON_ARGS=(
  "${MODEL_ARGS[@]}"
  "${ATTENTION_ARGS[@]}"
  "${EXPERTS_ARGS[@]}"
  "${PARALLEL_ARGS[@]}"
  "${STEP_ARGS[@]}"
  "${MEMORY_ARGS[@]}"
  "${PRECISION_ARGS[@]}"
  "${RECIPE_ARGS[@]}"
  "${DATA_ARGS[@]}"
)
