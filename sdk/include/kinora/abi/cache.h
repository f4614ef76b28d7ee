/* kinora.cache/1-draft.0: keys and values of earlier forwards, while a video is generated.   draft
 *
 * A cache is a link on attention(). It stores the keys and values of every forward, after RoPE, by the
 * attention's name and the pass's branch, and gives the next link the stored ones and the new ones with their
 * k_table: the queries of this forward then see all of them, within the run's visibility rule. Keys without a
 * table (kv_seq 0: text) pass unchanged, padding is not stored. It is for passes without gradients and
 * returns KINORA_ERROR_INVALID where a gradient would flow.
 *
 * Tokens are named by their KINORA_TOKEN_INDEX. A forward replaces everything from its own first INDEX on, so
 * a second pass over a chunk overwrites the first, and a forward from INDEX 0 starts over.
 *
 * A component may evict tokens, by options of its own, but never a pinned one. It evicts when a forward
 * begins, so all queries of the forward see the same earlier tokens.
 *
 * Draft: it becomes 1.0 when quantised keys, pins that end with a shot and relative positions have been built
 * on it. */
#ifndef KINORA_ABI_CACHE_H
#define KINORA_ABI_CACHE_H
#include "kinora/abi/host.h"
#include "kinora/abi/link.h"
#include "kinora/abi/options.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_CACHE "kinora.cache/1-draft.0"

#define KINORA_BRANCH_ALL 0xffffffffu /* every kinora_pass.branch */

/* All calls but the link's: between two forwards. */
typedef struct kinora_cache {
  uint32_t struct_size;
  uint32_t reserved;
  /* [owner-thread] tokens: how many the caller expects to store in each branch if none is evicted, so that
   * storage can be allocated once; 0: unknown. More are not an error. */
  void* (*create)(const kinora_host*, const kinora_options*, int64_t tokens);
  void (*destroy)(void* self);
  /* [owner-thread] The link, of level KINORA_LEVEL_CACHE, for one chain. Owned by the cache; never null. */
  int32_t (*link)(void* self, const kinora_link** out);
  /* [owner-thread] Number of tokens that the branch has stored, pinned ones included; 0 for a branch that
   * never ran. */
  int32_t (*tokens)(void* self, uint32_t branch, int64_t* out);
  /* [owner-thread] Size of the storage of all branches, unused room included. */
  int32_t (*bytes)(void* self, int64_t* out);
  /* [owner-thread] Drops all tokens of the branch and frees their storage. KINORA_BRANCH_ALL: also drops what
   * was pinned. */
  int32_t (*reset)(void* self, uint32_t branch);
  /* [owner-thread] Drops the tokens of the branch whose INDEX is `tokens` or more; their storage stays for
   * new ones. KINORA_BRANCH_ALL: these tokens are no longer pinned either. */
  int32_t (*trim)(void* self, uint32_t branch, int64_t tokens);
  /* [owner-thread] The tokens of INDEX first to first + count - 1, of every branch, are never evicted; in
   * addition to what was pinned before. They may be stored later; a token that is evicted does not return. */
  int32_t (*pin)(void* self, int64_t first, int64_t count);
} kinora_cache;

KINORA_SLOT(kinora_cache, struct_size, 0);
KINORA_SLOT(kinora_cache, reserved, 4);
KINORA_SLOT(kinora_cache, create, 8);
KINORA_SLOT(kinora_cache, destroy, 16);
KINORA_SLOT(kinora_cache, link, 24);
KINORA_SLOT(kinora_cache, tokens, 32);
KINORA_SLOT(kinora_cache, bytes, 40);
KINORA_SLOT(kinora_cache, reset, 48);
KINORA_SLOT(kinora_cache, trim, 56);
KINORA_SLOT(kinora_cache, pin, 64);
KINORA_SIZE(kinora_cache, 72);
KINORA_EXTERN_C_END
#endif
