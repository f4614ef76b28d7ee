/* kinora.link/1: a strategy, precision, cache or meter in the chain behind a model's context.  since ABI 1.0
 *
 * Chain, from the model's end, by level; equal levels keep the order of the TOML. A null slot of `context` means: the next
 * link's. A link that needs a parameter's value asks `head`, so that every link above it is seen (open recursion).
 *
 * Rules of a link that splits tokens (sdk/include/kinora/token_split.hpp keeps them in the pinned tier, the template of
 * `kinora plugins new parallel` in the stable one):
 * - sequence() narrows tokens and spec.table alike, along dimension 1, and hands frames, rows, cols on as they are: they are the
 *   geometry of the whole sequence.
 * - Every rank holds as many tokens, a multiple of the size of mesh group "tp", since a tensor group below cuts them again.
 *   What is missing is padding at the end of the one-process order: tokens of zeros, rows with INDEX and SAMPLE -1 and 0 in the
 *   other columns. Nothing sees it, and the host takes it off what leave() returns.
 * - leave() gives all tokens in the one-process order, on every rank. All ranks compute the same loss of them: its backward
 *   hands each rank its own part of the gradient, without a sum.
 * - The host gives attention() q_table and k_table of the tokens that q and k hold (null: shared keys). A link that changes
 *   which tokens those are sets the table of each that it changed: both after an exchange of heads, k_table alone where keys
 *   are gathered. With joint attention, shared keys stand in k_shared, which no table tells of.
 * - Plans of who sees whom are kept by table: make a sequence's table once, not anew in each attention. */
#ifndef KINORA_ABI_LINK_H
#define KINORA_ABI_LINK_H
#include "kinora/abi/context.h"
KINORA_EXTERN_C_BEGIN

#define KINORA_LEVEL_METER 100u     /* counts logical FLOPs, names, ranges */
#define KINORA_LEVEL_ROOT 200u      /* the host's: makes the token table, restores the one-process order */
#define KINORA_LEVEL_CONTEXT 300u   /* Ulysses, ring, Balanced SP, ST-DiT's all-to-alls */
#define KINORA_LEVEL_TENSOR 400u    /* tensor + sequence parallelism */
#define KINORA_LEVEL_PIPELINE 500u
#define KINORA_LEVEL_RECOMPUTE 600u
#define KINORA_LEVEL_FSDP 700u
#define KINORA_LEVEL_CACHE 800u     /* KV caches: below context and tensor, so that they see local heads, all tokens */
#define KINORA_LEVEL_PRECISION 900u
#define KINORA_LEVEL_BASE 1000u     /* the host's */

/* One forward and its backward. A link that runs a block again puts the pass back first. */
typedef struct kinora_pass {
  uint32_t struct_size;
  uint32_t again;   /* 1: a block runs a second time, in the backward */
  uint32_t no_grad; /* 1: no backward follows */
  uint32_t branch;  /* of several passes over one input (guidance): 0 with the condition, then the others. Caches go by it */
  int64_t first_sample; /* global number of the batch's first sample; keys the noise */
  int64_t stage;        /* virtual pipeline stage */
  int64_t micro;        /* microbatch */
  uint64_t seed;        /* of the run */
} kinora_pass;

/* Host services of a link besides kinora.tensors/1. Collectives are on the group that the link's strategy was given. */
typedef struct kinora_chain {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  const struct kinora_context* next;
  const struct kinora_context* head;
  /* [owner-thread, autograd-thread] The pass in force. It is a variable of the chain, not of the thread. */
  int32_t (*get_pass)(void* self, kinora_pass* out);
  int32_t (*set_pass)(void* self, const kinora_pass*);
  /* [owner-thread, autograd-thread] What the run's visibility rule and `over` (KINORA_OVER_*) let each query see: bool
   * [1 or B, S, L] of two token tables. For links that attend piece by piece (ring). */
  int32_t (*visible)(void* self, kinora_tensor q_table, kinora_tensor k_table, uint32_t over, kinora_tensor* out);
  /* [owner-thread, autograd-thread] Number i of the leaves that take the gradients of the parameters that `block` reads, the
   * other links' pieces among them; KINORA_NOT_FOUND, without a message, past the last. A node that stands for a block has
   * them as inputs: without, a first block whose data need no gradient is cut off. After ready(). */
  int32_t (*leaf)(void* self, int64_t block, int64_t i, kinora_tensor* out);
  /* [owner-thread] Only inside declared(): no block of this number ever runs on this rank, and nothing of the parameters
   * that it reads is held here. For pipelines. */
  int32_t (*skip_block)(void* self, int64_t block);
  /* [any-thread] 0 for a block that was skipped, else 1. Blocks outside of which a parameter is read, -1, are always 1. */
  int32_t (*holds_block)(void* self, int64_t block);
} kinora_chain;

typedef struct kinora_link {
  uint32_t struct_size;
  uint32_t level; /* KINORA_LEVEL_* */
  kinora_context context;
  /* [owner-thread] Once, before create() of the model. The chain outlives the link. */
  int32_t (*bind)(void* self, const kinora_chain*);
  /* [owner-thread] create() of the model has returned: take over what is yours (FSDP). Links are called from the base's end
   * on; while they are, each value() is drawn anew and kept by nobody, so take a unit at a time. Null: nothing. */
  int32_t (*ready)(void* self);
  /* [owner-thread] A forward begins. Null: nothing. */
  int32_t (*begin)(void* self, const kinora_pass*);
  /* [owner-thread] The backward is over: complete the gradients of the leaves that this link owns. Null: it owns none. */
  int32_t (*reduce)(void* self);
  /* [owner-thread] Which flat range of which local parameter lies where in which leaf: number i of them, KINORA_NOT_FOUND
   * past the last. Optimizer and checkpoints work on leaves. A count of 0 says that the link owns the parameter and this
   * rank holds nothing of it. Asked once, after ready(). Null: parameters are their own leaves. */
  int32_t (*piece)(void* self, int64_t i, kinora_param* param, int64_t* first, int64_t* count, kinora_tensor* leaf,
                   int64_t* offset);
  /* [owner-thread] create() of the model has returned and every parameter is known; before any ready(), from the model's
   * end on. Null: nothing. */
  int32_t (*declared)(void* self);
} kinora_link;

KINORA_SLOT(kinora_pass, struct_size, 0);
KINORA_SLOT(kinora_pass, again, 4);
KINORA_SLOT(kinora_pass, no_grad, 8);
KINORA_SLOT(kinora_pass, branch, 12);
KINORA_SLOT(kinora_pass, first_sample, 16);
KINORA_SLOT(kinora_pass, stage, 24);
KINORA_SLOT(kinora_pass, micro, 32);
KINORA_SLOT(kinora_pass, seed, 40);
KINORA_SIZE(kinora_pass, 48);
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
KINORA_SIZE(kinora_chain, 80);
KINORA_SLOT(kinora_link, struct_size, 0);
KINORA_SLOT(kinora_link, level, 4);
KINORA_SLOT(kinora_link, context, 8);
KINORA_SLOT(kinora_link, bind, 112);
KINORA_SLOT(kinora_link, ready, 120);
KINORA_SLOT(kinora_link, begin, 128);
KINORA_SLOT(kinora_link, reduce, 136);
KINORA_SLOT(kinora_link, piece, 144);
KINORA_SLOT(kinora_link, declared, 152);
KINORA_SIZE(kinora_link, 160);
KINORA_EXTERN_C_END
#endif
