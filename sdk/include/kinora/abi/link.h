/* kinora.link/1-draft.3: a strategy, precision, cache or meter in the chain behind a context.  draft
 *
 * The chain is ordered by level, from the model's end; links of equal level keep the order of the TOML. A null slot
 * of `context` means that the next link is called. A link that needs a parameter's value calls `head`, so that every
 * link above it takes part (open recursion).
 *
 * Rules for a link that splits tokens (sdk/include/kinora/token_split.hpp implements them for the pinned tier, the
 * template of `kinora plugins new parallel` for the stable one):
 * - sequence() narrows tokens and spec.table alike, along dimension 1, and passes frames, rows, cols unchanged: they
 *   are the geometry of the whole sequence.
 * - Every rank holds the same number of tokens, a multiple of the size of mesh group "tp", since a tensor group below
 *   splits them again. Missing tokens are padding at the end of the one-process order: tokens of zeros, table rows
 *   with INDEX and SAMPLE -1 and 0 in the other columns. No token sees the padding, and the host removes it from the
 *   result of gather().
 * - gather() returns all tokens in the one-process order, on every rank. All ranks compute the same loss from them:
 *   its backward gives each rank its own part of the gradient, without a sum.
 * - The host passes attention() q_table and k_table of the tokens in q and k (null: shared keys). A link that changes
 *   which tokens these are sets each table that changed: both after an exchange of heads, k_table alone where keys
 *   are gathered. In joint attention the shared keys are in k_shared, which has no table.
 * - Plans of which token sees which are cached by table: make a sequence's table once, not in each attention.
 *
 * The host calls the links, so a struct that a link receives has the size of the host's headers, whoever wrote it:
 * the chain copies the structs of models and links that know fewer members, with 0 in the rest.
 *
 * Draft: it becomes 1.0 together with kinora.context. */
#ifndef KINORA_ABI_LINK_H
#define KINORA_ABI_LINK_H
#include "kinora/abi/context.h"
KINORA_EXTERN_C_BEGIN

#define KINORA_LEVEL_METER 100u /* counts logical FLOPs, names, ranges */
#define KINORA_LEVEL_ROOT \
  200u /* belongs to the host: makes the token table, restores the one-process order */
#define KINORA_LEVEL_CONTEXT 300u /* Ulysses, ring, Balanced SP, ST-DiT's all-to-alls */
#define KINORA_LEVEL_TENSOR 400u  /* tensor + sequence parallelism */
#define KINORA_LEVEL_PIPELINE 500u
#define KINORA_LEVEL_RECOMPUTE 600u
#define KINORA_LEVEL_FSDP 700u
#define KINORA_LEVEL_CACHE \
  800u /* KV caches: below context and tensor, so that they see local heads, all tokens */
#define KINORA_LEVEL_PRECISION 900u
#define KINORA_LEVEL_BASE 1000u /* belongs to the host */

/* One forward and its backward. A link that runs a block again restores the pass first. */
typedef struct kinora_pass {
  uint32_t struct_size;
  uint32_t recompute; /* 1: a block runs a second time, in the backward */
  uint32_t no_grad;   /* 1: no backward follows */
  uint32_t branch; /* number of the pass among several over one input (guidance): 0 with the condition. Part
                      of a cache's key */
  int64_t first_sample; /* global number of the batch's first sample; keys the noise */
  int64_t stage;        /* virtual pipeline stage */
  int64_t microbatch;
  uint64_t seed; /* the run's seed */
  int64_t step;  /* optimizer steps done before this forward */
  int64_t steps; /* of the whole training; 0: the forward belongs to none */
  /* One of the videos that a chain makes in turn, by the host's number; 0 if there is one. Part of a cache's key */
  uint64_t session;
  uint32_t read_only; /* 1: a cache stores nothing of this forward (cache.h) */
  uint32_t needs;     /* rule 11 */
} kinora_pass;

/* Host services for a link, in addition to kinora.tensors/1. Collectives run on the group that the link's
 * strategy received. */
typedef struct kinora_chain {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  const struct kinora_context* next;
  const struct kinora_context* head;
  /* [owner-thread, autograd-thread] The current pass. It is a variable of the chain, not of the thread.
   * get_pass fills *out in (KINORA_FILL): set its struct_size first. */
  int32_t (*get_pass)(void* self, kinora_pass* out);
  int32_t (*set_pass)(void* self, const kinora_pass*);
  /* [owner-thread, autograd-thread] The keys that each query sees under the run's visibility rule and `over`
   * (KINORA_OVER_*): bool [1 or B, S, L] for two token tables. For links that attend piece by piece (ring).
   */
  int32_t (*visible)(void* self, kinora_tensor q_table, kinora_tensor k_table, uint32_t over,
                     kinora_tensor* out);
  /* [owner-thread, autograd-thread] Leaf number i of those that receive the gradients of the parameters that
   * `block` reads, the other links' pieces included; KINORA_ERROR_NOT_FOUND, without a message, past the
   * last. An autograd node that represents a block takes them as inputs: otherwise a first block whose data
   * needs no gradient is cut off from the graph. After ready(). */
  int32_t (*leaf)(void* self, int64_t block, int64_t i, kinora_tensor* out);
  /* [owner-thread] Only inside declared(): the block of this number never runs on this rank, and the
   * parameters that it reads are not stored here. For pipelines. */
  int32_t (*skip_block)(void* self, int64_t block);
  /* [any-thread] 0 for a block that was skipped, else 1. Always 1 for -1, the index of parameters that are
   * read outside blocks. */
  int32_t (*holds_block)(void* self, int64_t block);
  /* [any-thread] A service of the host for links, by id; null with an error if the host does not have it.
   * Services of other links are at next->get_interface and head->get_interface. */
  const void* (*get_interface)(void* self, const char* id, uint32_t minor);
  /* The run's ranks, which outlive the chain; null: there is one. For links that no strategy made: a
   * precision takes the largest magnitude of a tensor over the ranks that share it. Request groups in
   * declared(), on every rank. */
  const struct kinora_mesh* mesh;
} kinora_chain;

typedef struct kinora_link {
  uint32_t struct_size;
  uint32_t level; /* KINORA_LEVEL_* */
  const kinora_context*
      context; /* lives as long as the link; its `self` is the argument of the functions below */
  /* [owner-thread] Once, before create() of the model. The chain outlives the link. */
  int32_t (*bind)(void* self, const kinora_chain*);
  /* [owner-thread] create() of the model has returned: take ownership of this link's parameters (FSDP).
   * Called for all links, starting at the base's end. During these calls each value() is computed again and
   * not stored, so take one unit at a time. Null: nothing to do. */
  int32_t (*ready)(void* self);
  /* [owner-thread] A forward begins. Null: nothing to do. */
  int32_t (*begin)(void* self, const kinora_pass*);
  /* [owner-thread] The backward is over: complete the gradients of the leaves that this link owns (those that
   * piece() names), in their .grad, so that each leaf has the gradient of its own elements summed over all
   * ranks of the groups that the link splits. The trainer sums afterwards over the remaining ranks that share
   * the leaf, never over these again. Null: it owns none. */
  int32_t (*reduce)(void* self);
  /* [owner-thread] Piece number i: [first, first + count) of the flattened local parameter `param` is stored
   * in `leaf` from `offset` on. KINORA_ERROR_NOT_FOUND past the last. Optimizer and checkpoints work on
   * leaves. A count of 0 says that the link owns the parameter and this rank holds nothing of it. Called once
   * per i, after ready(). Null: parameters are their own leaves. */
  int32_t (*piece)(void* self, int64_t i, kinora_param* param, int64_t* first, int64_t* count,
                   kinora_tensor* leaf, int64_t* offset);
  /* [owner-thread] create() of the model has returned and every parameter is known. Called before any
   * ready(), starting at the model's end. Null: nothing to do. */
  int32_t (*declared)(void* self);
} kinora_link;

KINORA_SLOT(kinora_pass, struct_size, 0);
KINORA_SLOT(kinora_pass, recompute, 4);
KINORA_SLOT(kinora_pass, no_grad, 8);
KINORA_SLOT(kinora_pass, branch, 12);
KINORA_SLOT(kinora_pass, first_sample, 16);
KINORA_SLOT(kinora_pass, stage, 24);
KINORA_SLOT(kinora_pass, microbatch, 32);
KINORA_SLOT(kinora_pass, seed, 40);
KINORA_SLOT(kinora_pass, step, 48);
KINORA_SLOT(kinora_pass, steps, 56);
KINORA_SLOT(kinora_pass, session, 64);
KINORA_SLOT(kinora_pass, read_only, 72);
KINORA_SLOT(kinora_pass, needs, 76);
KINORA_SIZE(kinora_pass, 80);
KINORA_SLOT(kinora_chain, struct_size, 0);
KINORA_SLOT(kinora_chain, reserved, 4);
KINORA_SLOT(kinora_chain, self, 8);
KINORA_SLOT(kinora_chain, next, 16);
KINORA_SLOT(kinora_chain, head, 24);
KINORA_SLOT(kinora_chain, get_pass, 32);
KINORA_SLOT(kinora_chain, set_pass, 40);
KINORA_SLOT(kinora_chain, visible, 48);
KINORA_SLOT(kinora_chain, leaf, 56);
KINORA_SLOT(kinora_chain, skip_block, 64);
KINORA_SLOT(kinora_chain, holds_block, 72);
KINORA_SLOT(kinora_chain, get_interface, 80);
KINORA_SLOT(kinora_chain, mesh, 88);
KINORA_SIZE(kinora_chain, 96);
KINORA_SLOT(kinora_link, struct_size, 0);
KINORA_SLOT(kinora_link, level, 4);
KINORA_SLOT(kinora_link, context, 8);
KINORA_SLOT(kinora_link, bind, 16);
KINORA_SLOT(kinora_link, ready, 24);
KINORA_SLOT(kinora_link, begin, 32);
KINORA_SLOT(kinora_link, reduce, 40);
KINORA_SLOT(kinora_link, piece, 48);
KINORA_SLOT(kinora_link, declared, 56);
KINORA_SIZE(kinora_link, 64);
KINORA_EXTERN_C_END
#endif
