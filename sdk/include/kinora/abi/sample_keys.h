/* kinora.sample-keys/1-draft.1: which samples a forward computes.                            draft
 *
 * The host offers it to links through get_interface of their context. Random numbers and scales of a link are
 * functions of the sample, never of the row in which it is computed: a step's samples may be divided into
 * microbatches and ranks by their sizes, in any order, and several of them may share a packed row.
 *
 * Draft: it becomes 1.0 together with kinora.link. */
#ifndef KINORA_ABI_SAMPLE_KEYS_H
#define KINORA_ABI_SAMPLE_KEYS_H
#include "kinora/abi/link.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_SAMPLE_KEYS "kinora.sample-keys/1-draft.1"

typedef struct kinora_sample_keys {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  /* [owner-thread, autograd-thread] Global number of sample i of this pass: of row i, or of the i-th video of a packed
   * row (KINORA_TOKEN_SAMPLE). The pass is the chain's, also in a backward. */
  int64_t (*number)(void* self, const kinora_pass*, int64_t i);
  /* [owner-thread, autograd-thread] The packed row of this pass: *n videos, and the KINORA_TOKEN_INDEX of the first
   * token of each, then the number of all tokens, (*first)[0..*n]. Borrowed until the pass' backward is over. *n 0:
   * rows hold one sample each. After sequence(). */
  int32_t (*row)(void* self, const kinora_pass*, const int64_t** first, uint64_t* n);
} kinora_sample_keys;

KINORA_SLOT(kinora_sample_keys, struct_size, 0);
KINORA_SLOT(kinora_sample_keys, reserved, 4);
KINORA_SLOT(kinora_sample_keys, self, 8);
KINORA_SLOT(kinora_sample_keys, number, 16);
KINORA_SLOT(kinora_sample_keys, row, 24);
KINORA_SIZE(kinora_sample_keys, 32);
KINORA_EXTERN_C_END
#endif
