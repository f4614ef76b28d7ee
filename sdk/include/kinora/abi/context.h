/* kinora.context/1-draft.4: the calls with which a model computes.                            draft
 *
 * A model declares parameters, then writes the mathematics of one process with these calls. Links (tensor,
 * context, pipeline and FSDP parallelism, recompute, precision, KV cache, meters) form a chain behind them;
 * each implements some calls and passes the rest to the next (link.h). `head` is the model's end of the
 * chain. The other end is the base: plain mathematics, and the owner of the storage.
 *
 * Gradients: every gradient of a value that ranks share (parameter, input) is a PARTIAL SUM, and no call
 * completes it. After the backward pass the trainer sums it over all ranks that do not hold another piece of
 * it. Losses divide by the global count; nothing is ever scaled by the size of a group. Tensors: inputs
 * borrowed for the call, outputs owned by the caller. Threads: all calls [owner-thread], and
 * [autograd-thread] when a block runs again in the backward pass. Status: KINORA_OK, KINORA_SIGNAL_STOP, or
 * an error after set_error.
 *
 * Draft: it becomes 1.0 when KV caches, packed low-precision weights and mixtures of experts have been
 * built on it. */
#ifndef KINORA_ABI_CONTEXT_H
#define KINORA_ABI_CONTEXT_H
#include "kinora/abi/cuda.h" /* KINORA_ROPE_HALVES, KINORA_ROPE_PAIRS */
#include "kinora/abi/tensor.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_CONTEXT "kinora.context/1-draft.4"

/* Roles of a parameter: how it may be split. */
#define KINORA_ROLE_WHOLE 0u /* not split: norms, head, convolutions, bias of a ROW linear */
#define KINORA_ROLE_COLUMN \
  1u /* split along outputs (dim 0): q, k, v, MLP up, their biases, norms over all heads */
#define KINORA_ROLE_ROW 2u /* split along inputs (dim 1): attention output, MLP down */
#define KINORA_ROLE_TABLE \
  3u /* not split; its rows are looked up or added, not multiplied: tokens, learnt positions, shifts \
   and scales. Weight decay skips it */
#define KINORA_ROLE_VOCAB \
  4u /* a TABLE of tokens that is read by lookup() alone, so that its rows (dim 0) may be split */

/* Where a tensor of tokens is. */
#define KINORA_PLACE_STREAM 0u /* the residual stream: what sequence() and a ROW linear return */
#define KINORA_PLACE_INNER \
  1u /* between a COLUMN and a ROW linear: all tokens of the tensor group, some of the heads */

/* The tokens that a token attends to, within the run's visibility rule. */
#define KINORA_OVER_ALL 0u
#define KINORA_OVER_SPACE 1u /* its own frame */
#define KINORA_OVER_TIME 2u  /* its own position in every frame */

/* Columns of a token table, int64 [1 or B, tokens, at least KINORA_TOKEN_COLUMNS]. A reader takes the number
 * of columns from the table: a newer host appends some. A column that a link does not know is copied with its
 * token; in padding it is 0. None says which tokens form a group that sees itself whole (an image in a text): no
 * visibility rule reads groups, and a rule that does will append its column. */
#define KINORA_TOKEN_INDEX 0 /* position in the one-process order; keys the noise. -1: padding */
#define KINORA_TOKEN_FRAME 1 /* row of per-frame conditioning */
#define KINORA_TOKEN_TIME \
  2 /* temporal position (start frame, shot offset and clean/noisy copy accounted for) */
#define KINORA_TOKEN_ROW 3
#define KINORA_TOKEN_COL 4
#define KINORA_TOKEN_NOISY 5  /* 0 clean, 1 noisy copy (teacher forcing) */
#define KINORA_TOKEN_CHUNK 6  /* causal chunk; 0 if the run's rule has none */
#define KINORA_TOKEN_SAMPLE 7 /* sample within a packed row */
#define KINORA_TOKEN_SHOT 8   /* number of the token's shot in its video */
#define KINORA_TOKEN_COLUMNS 9

typedef int64_t kinora_param; /* 0: none */
typedef int64_t
    kinora_seq; /* 0: not tokens, but data that is the same on every rank of the model (text, conditioning) */

/* Initial values of a parameter. Drawn by (seed, name, global index): the same numbers with every layout. */
#define KINORA_INIT_CONSTANT 0u /* init_scale */
#define KINORA_INIT_NORMAL 1u   /* mean 0, standard deviation init_scale */
#define KINORA_INIT_UNIFORM 2u  /* in [-init_scale, init_scale) */
#define KINORA_INIT_IDENTITY \
  3u /* init_scale where the first two indices are equal and each other index is the last of its dimension, \
        else 0: a causal convolution over time that initially returns the current frame */

typedef struct kinora_param_spec {
  uint32_t struct_size;
  uint32_t role;
  const char* name;     /* as in a checkpoint; borrowed */
  const int64_t* shape; /* in a run of one process; borrowed */
  uint32_t ndim;
  uint32_t n_parts; /* fused pieces along the split dimension, each split on its own (qkv: 3); 0 or 1: one */
  const int64_t* parts; /* their sizes; null: equal */
  int64_t quantum;      /* smallest unit of the split dimension: the head size, else 1 */
  int64_t block;        /* index of the block() that reads it; -1: read outside blocks, on every stage */
  uint32_t init;        /* KINORA_INIT_* */
  uint32_t
      frozen; /* 1: no gradient and no optimizer state, but saved in the checkpoint (statistics, codebooks) */
  double init_scale;
  int64_t shard; /* a model writes shard 0 of shards 1; links change them on the way down */
  int64_t shards;
  uint32_t needs; /* rule 11 */
  uint32_t reserved;
} kinora_param_spec;

typedef struct kinora_seq_spec {
  uint32_t struct_size;
  uint32_t needs; /* rule 11 */
  int64_t frames; /* tokens are in the order frames, rows, cols; cols fastest */
  int64_t rows;
  int64_t cols;
  kinora_tensor table; /* a model passes null; the first link makes it, links narrow it on the way down */
  /* A packed row: n_samples videos one after the other, of sizes[3 i + 0..2] frames, rows and cols. `frames`
   * is then the number of all tokens, rows and cols are 1. Positions (TIME, ROW, COL, CHUNK) restart in each
   * sample, FRAME and INDEX continue, and no token sees another sample's. Set by a model only; 0 and null:
   * one video, as above. */
  uint64_t n_samples;
  const int64_t* sizes; /* borrowed */
} kinora_seq_spec;

/* How the positions of tokens rotate the channels of q and k. The position of a token on axis a is
 *   max(table[column[a]] - first, 0) / divisor[a], and its remainder by modulus[a] unless that is 0,
 * in integers; on axis 0, time, multiplied by the rate of its sample. Pair i of a head's channels is rotated by
 * position * frequency[i]. The pairs of axis 0 come first, then those of axis 1 ...
 * By an angle w, the pair (a, b) becomes (a cos w - b sin w, b cos w + a sin w). So a key that was rotated to
 * position p of axis 0 is turned to p + n by w = n * rate * frequency[i] of the pairs of axis 0; n may be negative.
 * Positions come from the key's own row of the table, its rate from the forward that made it.
 *
 * q and k are rotated already: this says how. Since rotations add up, a link that wants other positions, or none,
 * turns k further or back, and one that does not read this computes the same as before. So no form of the call has
 * keys without their rotation, models keep their fused kernels, and nothing has to be agreed on. The price: keys that
 * are turned again are rounded to their dtype a second time. */
typedef struct kinora_rope {
  uint32_t struct_size;
  uint32_t needs;          /* rule 11 */
  uint32_t layout;         /* KINORA_ROPE_* */
  uint32_t n_axes;         /* 1 to 3 */
  const double* frequency; /* [d / 2], radians; lives as long as the model */
  int64_t pairs[3];        /* of each axis; d / 2 together */
  int64_t column[3];       /* KINORA_TOKEN_* */
  int64_t first;
  int64_t divisor[3]; /* at least 1 */
  int64_t modulus[3];
  kinora_tensor rate; /* float64 [1 or B]; null: 1 */
} kinora_rope;

/* Bits of kinora_attention.needs. */
#define KINORA_ATTENTION_CODES 1u /* k and v are codes: k_scales, v_scales */

typedef struct kinora_attention {
  uint32_t struct_size;
  uint32_t over;          /* KINORA_OVER_* */
  const char* name;       /* unique in the model: key of a cache, name in a profile; borrowed */
  int64_t block;          /* index of the block that contains it */
  kinora_seq q_seq;       /* 0: queries that all ranks share too (a text encoder) */
  kinora_seq kv_seq;      /* 0: keys shared by all ranks (text) */
  double scale;           /* factor of q k^T */
  kinora_tensor kv_valid; /* bool [B, L] for shared keys; true: may be seen. Null: all */
  kinora_tensor k_shared; /* joint attention: shared keys in addition to those of kv_seq; null: none */
  kinora_tensor v_shared;
  kinora_tensor q_table; /* a model passes null; the tables of q and k as they are, rewritten by links */
  /* A model passes null, or, for shared keys of several samples of a packed row (kv_seq 0, q_seq not), their
   * table: SAMPLE is the sample of a key, INDEX -1 hides a key (kv_valid is null then), the other columns are
   * not read. */
  kinora_tensor k_table;
  /* [1 or B, 1 or heads, S, L], added to scale q k^T; -inf hides a key. For shared queries and keys only:
   * relative positions and the causal order of a text encoder. Null: none. A link that cannot apply it
   * returns KINORA_ERROR_UNSUPPORTED. */
  kinora_tensor bias;
  uint32_t needs; /* KINORA_ATTENTION_*; rule 11 */
  uint32_t reserved;
  /* Null from a model. From a precision, float32 [B, 1, heads, 1]: q, k and v times these are numbers of E4M3
   * (those of k_shared and v_shared have other factors). The base may multiply them in FP8. */
  kinora_tensor q_factor;
  kinora_tensor k_factor;
  kinora_tensor v_factor;
  /* The rotation that q and k have; borrowed for the call. Null: they have none, or the model does not say. Keys in
   * k_shared have none. */
  const kinora_rope* rope;
  /* With KINORA_ATTENTION_CODES, which a cache sets and no model: k and v are int8 or float8_e4m3fn, and times these,
   * float32 [B, L, heads, 1], they are the keys and values. Else null. */
  kinora_tensor k_scales;
  kinora_tensor v_scales;
} kinora_attention;

typedef struct kinora_block {
  uint32_t struct_size;
  uint32_t n_carry;  /* in[0, n_carry): the outputs of the previous block. A pipeline sends only these */
  uint32_t n_shared; /* in[n_carry, ...): from outside blocks (conditioning, text), computed on every stage */
  uint32_t n_out;    /* the next block's n_carry */
  int64_t index;     /* 0 the embedding, 1..N, N + 1 the head; every rank calls all of them, in order */
  void* user;        /* holds NO TENSORS: a tensor that is not in in[] loses its gradient under recompute */
  /* May run zero, one or two times, the second time inside the backward pass, with the random numbers of the
   * first. */
  int32_t (*fn)(void* user, const kinora_tensor* in, kinora_tensor* out);
  void (*retain)(void* user);  /* [any-thread] called by a link that keeps the block for the backward pass */
  void (*release)(void* user); /* [any-thread] called by that link when the graph is destroyed */
  uint32_t needs;              /* rule 11 */
  uint32_t reserved;
} kinora_block;

typedef struct kinora_context {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  /* Only inside create(). Declares a parameter; storage is allocated after create(), so a model of any size
   * is described without memory. KINORA_ERROR_INVALID if the name was declared before, or a link cannot split
   * it (the message says which and why). */
  int32_t (*parameter)(void* self, const kinora_param_spec*, kinora_param* out);
  /* The local piece, complete along dimensions that are not split. Valid inside its own block only (FSDP
   * frees it after). */
  int32_t (*value)(void* self, kinora_param, kinora_tensor* out);
  /* x w^T + b; b may be 0. seq: x's sequence, 0 when x is shared. COLUMN maps STREAM to INNER, ROW maps INNER
   * to STREAM. The result has x's dtype. The partial sum of a split ROW weight may have a wider one; the link
   * that sums it converts. */
  int32_t (*linear)(void* self, kinora_tensor x, kinora_param w, kinora_param b, kinora_seq,
                    kinora_tensor* out);
  /* q [B, S, heads, d], k, v [B, L, heads, d], INNER, after norms and RoPE; S, L and heads are the local
   * sizes. The heads of k and v may be a divisor of q's: each then serves the same number of consecutive
   * heads of q (GQA). out: q's shape. softmax(scale q k^T) v over the visible keys. */
  int32_t (*attention)(void* self, kinora_tensor q, kinora_tensor k, kinora_tensor v, const kinora_attention*,
                       kinora_tensor* out);
  /* Sums x elementwise over the ranks that hold the other channels or heads of an INNER tensor; identity
   * where none are split. x: a statistic that the model has summed over its local channels or heads, such as
   * the sum of squares [B, S, 1] of an RMSNorm over all heads (Wan). out: x's shape and dtype, the same on
   * all those ranks. Backward: the gradients of all those ranks are summed too, since each of them uses the
   * result for its own channels. */
  int32_t (*all_reduce)(void* self, kinora_tensor x, kinora_tensor* out);
  /* Runs fn; a link may skip it, or run it again later. A skipped block returns empty tensors: only pass them
   * to the next block. KINORA_ERROR_CANCELLED if the run was asked to stop and may: return it. */
  int32_t (*block)(void* self, const kinora_block*, const kinora_tensor* in, kinora_tensor* out);
  /* x [B, frames * rows * cols, D], the same on every rank -> the local tokens. Outside blocks, before the
   * first. */
  int32_t (*sequence)(void* self, kinora_tensor x, const kinora_seq_spec*, kinora_seq* seq,
                      kinora_tensor* out);
  /* Local tokens -> all tokens, in the one-process order, on every rank. */
  int32_t (*gather)(void* self, kinora_tensor x, kinora_seq, kinora_tensor* out);
  /* The table of the tokens of a tensor at `place` (STREAM or INNER): int64 [1 or B, tokens, columns]. */
  int32_t (*table)(void* self, kinora_seq, uint32_t place, kinora_tensor* out);
  /* STREAM tokens, redistributed so that OVER_SPACE / OVER_TIME / OVER_ALL attention is cheapest; identity if
   * nothing is split. */
  int32_t (*reshard)(void* self, kinora_tensor x, kinora_seq, uint32_t over, kinora_seq* seq,
                     kinora_tensor* out);
  /* Standard normal numbers of like's shape [B, tokens, D] and dtype: a function of (run seed, sample, token
   * index, channel, key) only. */
  int32_t (*noise)(void* self, kinora_tensor like, kinora_seq, const char* key, kinora_tensor* out);
  /* [any-thread] A table of functions by which the links below offer a service of their own (id
   * "vendor.name/1"); null, with set_error(KINORA_ERROR_NOT_FOUND), if none does. A link that does not know
   * the id passes the call to the next. */
  const void* (*get_interface)(void* self, const char* id, uint32_t minor);
  /* The rows of a TABLE or VOCAB parameter, or of another that is not split, in the parameter's dtype: ids
   * int64 [B, tokens] (STREAM tokens of the sequence) or, with seq 0, of any shape [...] and the same on every
   * rank -> [..., D]. Called where value() of the parameter may be. The parameter's gradient is a partial sum.
   * An id outside the rows gives zeros where rows are split. Elsewhere it is an error on the CPU, and on a GPU it is
   * not checked: the behaviour is undefined. */
  int32_t (*lookup)(void* self, kinora_tensor ids, kinora_param, kinora_seq, kinora_tensor* out);
  /* Which of n items (frames of an encoder in front of the sequence) this rank computes, int64 [mine] on the CPU,
   * ascending: every item has one rank of those that share the sequence. costs: in any unit, the same on all these
   * ranks, which all call it in every forward. */
  int32_t (*share)(void* self, const double* costs, uint64_t n, kinora_tensor* mine);
  /* made [rows of this rank's items of the forward's last share() of n items, D], item after item -> [1, tokens, D]
   * at the STREAM tokens of this rank, zeros elsewhere: row j of item i is at INDEX index[i] + j. index and rows:
   * int64 [n], of all items, the same on every rank; items do not overlap. The sequence has one table for its
   * batch, of 1. Every rank calls it, and made needs a gradient on every rank or on none, also where it has no
   * rows: its gradient is that of the rows that this rank made, complete if the tokens' are. */
  int32_t (*place)(void* self, kinora_tensor made, const int64_t* index, const int64_t* rows, uint64_t n,
                   kinora_seq, kinora_tensor* out);
} kinora_context;

KINORA_SLOT(kinora_param_spec, struct_size, 0);
KINORA_SLOT(kinora_param_spec, role, 4);
KINORA_SLOT(kinora_param_spec, name, 8);
KINORA_SLOT(kinora_param_spec, shape, 16);
KINORA_SLOT(kinora_param_spec, ndim, 24);
KINORA_SLOT(kinora_param_spec, n_parts, 28);
KINORA_SLOT(kinora_param_spec, parts, 32);
KINORA_SLOT(kinora_param_spec, quantum, 40);
KINORA_SLOT(kinora_param_spec, block, 48);
KINORA_SLOT(kinora_param_spec, init, 56);
KINORA_SLOT(kinora_param_spec, frozen, 60);
KINORA_SLOT(kinora_param_spec, init_scale, 64);
KINORA_SLOT(kinora_param_spec, shard, 72);
KINORA_SLOT(kinora_param_spec, shards, 80);
KINORA_SLOT(kinora_param_spec, needs, 88);
KINORA_SLOT(kinora_param_spec, reserved, 92);
KINORA_SIZE(kinora_param_spec, 96);
KINORA_SLOT(kinora_seq_spec, struct_size, 0);
KINORA_SLOT(kinora_seq_spec, needs, 4);
KINORA_SLOT(kinora_seq_spec, frames, 8);
KINORA_SLOT(kinora_seq_spec, rows, 16);
KINORA_SLOT(kinora_seq_spec, cols, 24);
KINORA_SLOT(kinora_seq_spec, table, 32);
KINORA_SLOT(kinora_seq_spec, n_samples, 40);
KINORA_SLOT(kinora_seq_spec, sizes, 48);
KINORA_SIZE(kinora_seq_spec, 56);
KINORA_SLOT(kinora_rope, struct_size, 0);
KINORA_SLOT(kinora_rope, needs, 4);
KINORA_SLOT(kinora_rope, layout, 8);
KINORA_SLOT(kinora_rope, n_axes, 12);
KINORA_SLOT(kinora_rope, frequency, 16);
KINORA_SLOT(kinora_rope, pairs, 24);
KINORA_SLOT(kinora_rope, column, 48);
KINORA_SLOT(kinora_rope, first, 72);
KINORA_SLOT(kinora_rope, divisor, 80);
KINORA_SLOT(kinora_rope, modulus, 104);
KINORA_SLOT(kinora_rope, rate, 128);
KINORA_SIZE(kinora_rope, 136);
KINORA_SLOT(kinora_attention, struct_size, 0);
KINORA_SLOT(kinora_attention, over, 4);
KINORA_SLOT(kinora_attention, name, 8);
KINORA_SLOT(kinora_attention, block, 16);
KINORA_SLOT(kinora_attention, q_seq, 24);
KINORA_SLOT(kinora_attention, kv_seq, 32);
KINORA_SLOT(kinora_attention, scale, 40);
KINORA_SLOT(kinora_attention, kv_valid, 48);
KINORA_SLOT(kinora_attention, k_shared, 56);
KINORA_SLOT(kinora_attention, v_shared, 64);
KINORA_SLOT(kinora_attention, q_table, 72);
KINORA_SLOT(kinora_attention, k_table, 80);
KINORA_SLOT(kinora_attention, bias, 88);
KINORA_SLOT(kinora_attention, needs, 96);
KINORA_SLOT(kinora_attention, reserved, 100);
KINORA_SLOT(kinora_attention, q_factor, 104);
KINORA_SLOT(kinora_attention, k_factor, 112);
KINORA_SLOT(kinora_attention, v_factor, 120);
KINORA_SLOT(kinora_attention, rope, 128);
KINORA_SLOT(kinora_attention, k_scales, 136);
KINORA_SLOT(kinora_attention, v_scales, 144);
KINORA_SIZE(kinora_attention, 152);
KINORA_SLOT(kinora_block, struct_size, 0);
KINORA_SLOT(kinora_block, n_carry, 4);
KINORA_SLOT(kinora_block, n_shared, 8);
KINORA_SLOT(kinora_block, n_out, 12);
KINORA_SLOT(kinora_block, index, 16);
KINORA_SLOT(kinora_block, user, 24);
KINORA_SLOT(kinora_block, fn, 32);
KINORA_SLOT(kinora_block, retain, 40);
KINORA_SLOT(kinora_block, release, 48);
KINORA_SLOT(kinora_block, needs, 56);
KINORA_SLOT(kinora_block, reserved, 60);
KINORA_SIZE(kinora_block, 64);
KINORA_SLOT(kinora_context, struct_size, 0);
KINORA_SLOT(kinora_context, reserved, 4);
KINORA_SLOT(kinora_context, self, 8);
KINORA_SLOT(kinora_context, parameter, 16);
KINORA_SLOT(kinora_context, value, 24);
KINORA_SLOT(kinora_context, linear, 32);
KINORA_SLOT(kinora_context, attention, 40);
KINORA_SLOT(kinora_context, all_reduce, 48);
KINORA_SLOT(kinora_context, block, 56);
KINORA_SLOT(kinora_context, sequence, 64);
KINORA_SLOT(kinora_context, gather, 72);
KINORA_SLOT(kinora_context, table, 80);
KINORA_SLOT(kinora_context, reshard, 88);
KINORA_SLOT(kinora_context, noise, 96);
KINORA_SLOT(kinora_context, get_interface, 104);
KINORA_SLOT(kinora_context, lookup, 112);
KINORA_SLOT(kinora_context, share, 120);
KINORA_SLOT(kinora_context, place, 128);
KINORA_SIZE(kinora_context, 136);
KINORA_EXTERN_C_END
#endif
