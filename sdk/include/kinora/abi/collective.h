/* kinora.collective/1-draft.1: communication between ranks (gloo, nccl).                      draft
 *
 * A transfer is started and finished by separate calls, for overlap. Ranks of a group start the same
 * transfers in the same order. Collectives sum, they never average. If a peer does not answer in time, the
 * status is KINORA_ERROR_TIMEOUT, and the message names the operation, its sequence number and, where known,
 * the rank.
 *
 * Draft: it becomes 1.0 when it has run on several nodes and on GPUs. */
#ifndef KINORA_ABI_COLLECTIVE_H
#define KINORA_ABI_COLLECTIVE_H
#include "kinora/abi/host.h"
#include "kinora/abi/options.h"
#include "kinora/abi/run.h"
#include "kinora/abi/tensor.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_COLLECTIVE "kinora.collective/1-draft.1"

#define KINORA_OP_ALL_REDUCE 0u     /* every rank gets the sum */
#define KINORA_OP_ALL_REDUCE_MAX 1u /* every rank gets the elementwise maximum */
#define KINORA_OP_ALL_GATHER 2u     /* equal pieces joined along dim, in rank order, on every rank */
#define KINORA_OP_REDUCE_SCATTER 3u /* the sum, of which rank r gets piece r along dim; dim must divide */
#define KINORA_OP_ALL_TO_ALL 4u     /* split along dim, joined along dim2 */
#define KINORA_OP_BROADCAST 5u      /* peer's tensor, on every rank */
#define KINORA_OP_SEND 6u           /* to peer, with tag */
#define KINORA_OP_RECV 7u           /* from peer, with tag; `in` gives shape and dtype */
#define KINORA_OP_BARRIER 8u

typedef struct kinora_transfer {
  uint32_t struct_size;
  uint32_t op;  /* KINORA_OP_* */
  int64_t dim;  /* ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL: counted from the last if negative; else unread */
  int64_t dim2; /* ALL_TO_ALL */
  int64_t peer; /* BROADCAST, SEND, RECV: rank within the group */
  int64_t tag;  /* SEND, RECV: in [0, 2^31), distinguishes transfers of one pair of ranks */
  kinora_tensor in; /* any strides; null for BARRIER. Borrowed for start(), which keeps its storage until
                       finish(): do not write to it before. Shape and dtype are the same on every rank; the
                       result has them too, except for the sizes that the operation changes */
  uint32_t needs;   /* rule 11 */
  uint32_t reserved;
} kinora_transfer;

typedef struct kinora_world {
  uint32_t struct_size;
  int32_t timeout_ms; /* for each transfer */
  int64_t rank;
  int64_t size;
  const char* rendezvous; /* "file:///shared/folder/name", "tcp://host:port", or "store://host:port/part"
                             where a launcher serves the store; the same on every rank */
  const char* interface_address; /* address to listen on; null: loopback with file://, else the address of the
                                    host's name */
  const kinora_run* run; /* borrowed for join(), which polls its cancelled() while it waits; null: join()
                            cannot be cancelled */
} kinora_world;

typedef struct kinora_collective {
  uint32_t struct_size;
  uint32_t reserved;
  /* [owner-thread] */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [owner-thread] Joins the world; blocks until all ranks have joined or the time is over. Once per
   * instance. The world's strings are borrowed for the call. KINORA_ERROR_TIMEOUT: the message names the
   * missing ranks, where known; KINORA_ERROR_CANCELLED: the run was asked to stop. */
  int32_t (*join)(void* self, const kinora_world*);
  /* [owner-thread] Makes a group of ranks. Every member calls with the same name and members; other ranks
   * need not call. Other ranks may make a group of the same name at the same time ("tp" of ranks 0, 1 and of
   * 2, 3): name and members together identify a group. members: world ranks, borrowed; a rank's position in
   * it is its rank in the group. *group: owned, ended by release(). */
  int32_t (*group)(void* self, const char* name, const int64_t* members, uint64_t n_members, void** group);
  /* [owner-thread, autograd-thread] Starts a transfer and returns before it is complete. The struct is
   * borrowed for the call. On an error there is no work to finish. */
  int32_t (*start)(void* group, const kinora_transfer*, void** work);
  /* [owner-thread, autograd-thread] Completes the transfer; releases `work`, whatever it returns. *out: the
   * result, owned; null for SEND and BARRIER. On the CPU the result is there when this returns; on a GPU work
   * that the calling thread enqueues on the device's current stream from now on sees it, and this does not
   * wait for the device. */
  int32_t (*finish)(void* work, kinora_tensor* out);
  /* [owner-thread] Releases a group that has no unfinished work. */
  void (*release)(void* group);
} kinora_collective;

KINORA_SLOT(kinora_transfer, struct_size, 0);
KINORA_SLOT(kinora_transfer, op, 4);
KINORA_SLOT(kinora_transfer, dim, 8);
KINORA_SLOT(kinora_transfer, dim2, 16);
KINORA_SLOT(kinora_transfer, peer, 24);
KINORA_SLOT(kinora_transfer, tag, 32);
KINORA_SLOT(kinora_transfer, in, 40);
KINORA_SLOT(kinora_transfer, needs, 48);
KINORA_SLOT(kinora_transfer, reserved, 52);
KINORA_SIZE(kinora_transfer, 56);
KINORA_SLOT(kinora_world, struct_size, 0);
KINORA_SLOT(kinora_world, timeout_ms, 4);
KINORA_SLOT(kinora_world, rank, 8);
KINORA_SLOT(kinora_world, size, 16);
KINORA_SLOT(kinora_world, rendezvous, 24);
KINORA_SLOT(kinora_world, interface_address, 32);
KINORA_SLOT(kinora_world, run, 40);
KINORA_SIZE(kinora_world, 48);
KINORA_SLOT(kinora_collective, struct_size, 0);
KINORA_SLOT(kinora_collective, reserved, 4);
KINORA_SLOT(kinora_collective, create, 8);
KINORA_SLOT(kinora_collective, destroy, 16);
KINORA_SLOT(kinora_collective, join, 24);
KINORA_SLOT(kinora_collective, group, 32);
KINORA_SLOT(kinora_collective, start, 40);
KINORA_SLOT(kinora_collective, finish, 48);
KINORA_SLOT(kinora_collective, release, 56);
KINORA_SIZE(kinora_collective, 64);
KINORA_EXTERN_C_END
#endif
