/* kinora.parallel/1-draft.1: distributes a model's work over ranks, or over time (recompute).  draft
 *
 * A strategy provides a link in the chain behind the context, a schedule of the step, both, or neither. ddp
 * provides neither, only an axis: the trainer's rule (sum every gradient over the ranks that do not hold
 * another piece of it) does its work.
 *
 * The host reads one option by its name: `size`, an int, the number of ranks along the strategy's axis; 0, or
 * no such option: the ranks that the other strategies leave. The host does not detect a strategy whose result
 * differs from that of one process: `kinora plugins check-parallel ID` compares.
 *
 * Draft: it becomes 1.0 when collectives over several nodes and expert parallelism have been built on it. */
#ifndef KINORA_ABI_PARALLEL_H
#define KINORA_ABI_PARALLEL_H
#include "kinora/abi/collective.h"
#include "kinora/abi/link.h"
#include "kinora/abi/run.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_PARALLEL "kinora.parallel/1-draft.1"

/* The ranks along some axes of the mesh, and transfers among them. */
typedef struct kinora_group {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t rank; /* this process's rank within the group */
  int64_t size;
  const int64_t* members; /* world ranks, in group order */
  void* self;
  /* [owner-thread, autograd-thread] As kinora_collective.start and finish; with size 1 they copy nothing. */
  int32_t (*start)(void* self, const kinora_transfer*, void** work);
  int32_t (*finish)(void* work, kinora_tensor* out);
} kinora_group;

typedef struct kinora_mesh {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t rank; /* in the world */
  int64_t size;
  void* self;
  /* [owner-thread] axes: "tp", or several joined by '+' ("cp+tp"), or "world", or one axis split in two:
   * "cp/4" is the block of four neighbours along cp that contains this rank, "cp%4" the ranks at the same
   * position in each block. Lives as long as the mesh. An axis that the run does not have is a group of one.
   * The first call blocks until all members call: call in create(). */
  int32_t (*group)(void* self, const char* axes, const kinora_group** out);
} kinora_mesh;

/* A training step, for a strategy with its own schedule (pipelines). */
typedef struct kinora_step {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t n_microbatches;
  void* self;
  /* [owner-thread] One call of the model for microbatch pass.microbatch, 0 to n_microbatches - 1, under
   * `pass`. KINORA_SIGNAL_STOP: the chain kept the output for another stage. KINORA_OK: the loss was computed
   * and kept for backward. */
  int32_t (*forward)(void* self, const kinora_pass*);
  /* [owner-thread] Backward of that microbatch's loss, or of the output that the chain kept. Once, after its
   * forward. */
  int32_t (*backward)(void* self, const kinora_pass*);
} kinora_step;

typedef struct kinora_parallel {
  uint32_t struct_size;
  uint32_t reserved;
  /* [owner-thread] The mesh outlives the instance. If ranks share work, it is called twice: first with a mesh
   * of one rank, only to call axis() and destroy the instance, then with the run's mesh. Therefore keep no
   * state outside the instance, and do no work for a group of one. Every rank requests the same groups from
   * the mesh in the same order. */
  void* (*create)(const kinora_host*, const kinora_options*, const kinora_mesh*);
  void (*destroy)(void* self);
  /* [any-thread] The axis that it adds to the mesh, one of [pp, dp, fsdp, cfg, cp, tp] (innermost last); ""
   * if none. Other axes do not exist, since the host's rules depend on these: along dp and fsdp ranks hold
   * different samples, along the others they share them; gradients are summed along dp, cp and fsdp, along tp
   * where no `shard` was written, along pp outside blocks. An axis has one strategy in a run. */
  const char* (*axis)(void* self);
  /* [owner-thread] The link that it puts in the chain; *out = null: none. Owned by the strategy; one link per
   * instance. */
  int32_t (*link)(void* self, const kinora_link** out);
  /* [owner-thread] Runs the forwards and backwards of a step in its own order: forward() of each microbatch
   * exactly once for each virtual stage of this rank, and backward() once after it. It returns when no
   * transfer of the link is in flight. After an error, KINORA_ERROR_CANCELLED included, it calls neither
   * again, drops what is in flight and returns the error; the trainer then abandons the step and its
   * gradients. Null: each forward, then its backward. */
  int32_t (*step)(void* self, const kinora_step*, const kinora_run*);
} kinora_parallel;

KINORA_SLOT(kinora_group, struct_size, 0);
KINORA_SLOT(kinora_group, reserved, 4);
KINORA_SLOT(kinora_group, rank, 8);
KINORA_SLOT(kinora_group, size, 16);
KINORA_SLOT(kinora_group, members, 24);
KINORA_SLOT(kinora_group, self, 32);
KINORA_SLOT(kinora_group, start, 40);
KINORA_SLOT(kinora_group, finish, 48);
KINORA_SIZE(kinora_group, 56);
KINORA_SLOT(kinora_mesh, struct_size, 0);
KINORA_SLOT(kinora_mesh, reserved, 4);
KINORA_SLOT(kinora_mesh, rank, 8);
KINORA_SLOT(kinora_mesh, size, 16);
KINORA_SLOT(kinora_mesh, self, 24);
KINORA_SLOT(kinora_mesh, group, 32);
KINORA_SIZE(kinora_mesh, 40);
KINORA_SLOT(kinora_step, struct_size, 0);
KINORA_SLOT(kinora_step, reserved, 4);
KINORA_SLOT(kinora_step, n_microbatches, 8);
KINORA_SLOT(kinora_step, self, 16);
KINORA_SLOT(kinora_step, forward, 24);
KINORA_SLOT(kinora_step, backward, 32);
KINORA_SIZE(kinora_step, 40);
KINORA_SLOT(kinora_parallel, struct_size, 0);
KINORA_SLOT(kinora_parallel, reserved, 4);
KINORA_SLOT(kinora_parallel, create, 8);
KINORA_SLOT(kinora_parallel, destroy, 16);
KINORA_SLOT(kinora_parallel, axis, 24);
KINORA_SLOT(kinora_parallel, link, 32);
KINORA_SLOT(kinora_parallel, step, 40);
KINORA_SIZE(kinora_parallel, 48);
KINORA_EXTERN_C_END
#endif
