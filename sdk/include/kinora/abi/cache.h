/* kinora.cache/1-draft.2: keys and values of earlier forwards, while videos are generated.      draft
 *
 * A cache is a link on attention(). It stores the keys and values of every forward, after RoPE, by the pass's
 * session and branch and the attention's name, and gives the next link the stored ones and the new ones with
 * their k_table: the queries of this forward then see all of them, within the run's visibility rule. Keys
 * without a table (kv_seq 0: text) pass unchanged, padding is not stored. It is for passes without gradients
 * and returns KINORA_ERROR_INVALID where a gradient would flow.
 *
 * A session is one video: one chain, with one set of weights, serves any number of them in turn, and what one
 * does changes no other. The host chooses the numbers. A session that no call has named yet is empty, and
 * nothing is pinned in it: naming it is not an error.
 *
 * Tokens are named by their KINORA_TOKEN_INDEX. Let `first` be the lowest INDEX of a forward. The forward sees
 * the stored tokens below `first` and its own; afterwards the branch holds exactly these. So a second pass
 * over a chunk overwrites the first, and a forward from INDEX 0 starts over. Gaps fill nothing and protect
 * nothing: after tokens 0-2, a forward of 40-47 leaves 0-2 and 40-47; after tokens 0-39, a forward of 0-2 and
 * 40-47 also leaves these 11, since the keys of 3-39 were computed from the tokens that it replaces.
 *
 * A forward whose pass is read_only sees the same tokens as if it were not, and leaves the session as it was:
 * it stores and evicts nothing. The steps that denoise a chunk are such passes; the one over the clean chunk
 * stores. Any forward may leave what linear layers make of a text, which serves later ones with the same text.
 *
 * A component may evict tokens, by options of its own, but never a pinned one. It evicts when a forward
 * begins, so all queries of the forward see the same earlier tokens.
 *
 * Options of a component's own may change what the queries compute with, never which tokens they see. It may
 * give codes with scales (KINORA_ATTENTION_CODES). And it may turn keys by kinora_attention.rope: keys arrive
 * rotated to their positions in the video, and turned to consecutive positions they are as near as if what was
 * evicted between had not been. It refuses a model that does not describe its rotation then, with
 * KINORA_ERROR_UNSUPPORTED.
 *
 * Draft: it becomes 1.0 when pins that end with a shot have been built on it. */
#ifndef KINORA_ABI_CACHE_H
#define KINORA_ABI_CACHE_H
#include "kinora/abi/host.h"
#include "kinora/abi/link.h"
#include "kinora/abi/options.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_CACHE "kinora.cache/1-draft.2"

#define KINORA_BRANCH_ALL 0xffffffffu /* every kinora_pass.branch */

/* All calls but the link's: between two forwards, of any session. */
typedef struct kinora_cache {
  uint32_t struct_size;
  uint32_t reserved;
  /* [owner-thread] tokens: the capacity that each branch of a session is to have from its first forward on,
   * in tokens, so that storage is allocated once; 0: unknown. More are not an error. */
  void* (*create)(const kinora_host*, const kinora_options*, int64_t tokens);
  void (*destroy)(void* self);
  /* [owner-thread] The link, of level KINORA_LEVEL_CACHE, for one chain. Owned by the cache; never null. */
  int32_t (*link)(void* self, const kinora_link** out);
  /* [owner-thread] Number of tokens that the branch has stored, pinned ones included; 0 for a branch that
   * never ran. */
  int32_t (*tokens)(void* self, uint64_t session, uint32_t branch, int64_t* out);
  /* [owner-thread] Size of the storage of the session's tokens in all branches, unused room included, and of what
   * linear layers made of texts. */
  int32_t (*bytes)(void* self, uint64_t session, int64_t* out);
  /* [owner-thread] Drops all tokens of the branch and frees their storage. KINORA_BRANCH_ALL: also drops what
   * was pinned; nothing is left of the session. */
  int32_t (*reset)(void* self, uint64_t session, uint32_t branch);
  /* [owner-thread] Drops the tokens of the branch whose INDEX is `tokens` or more; their storage stays for
   * new ones, and is freed if no token is left. KINORA_BRANCH_ALL: these tokens are no longer pinned either. */
  int32_t (*trim)(void* self, uint64_t session, uint32_t branch, int64_t tokens);
  /* [owner-thread] The tokens of INDEX first to first + count - 1, of every branch, are never evicted; in
   * addition to what was pinned before. They may be stored later; a token that is evicted does not return. */
  int32_t (*pin)(void* self, uint64_t session, int64_t first, int64_t count);
  /* [owner-thread] These tokens are no longer pinned, whatever pinned them: the next forward may evict them. */
  int32_t (*unpin)(void* self, uint64_t session, int64_t first, int64_t count);
  /* [owner-thread] Session `to` becomes equal to `from`, in all branches and pins; each then goes its own
   * way. The earlier content of `to` is dropped. KINORA_ERROR_UNSUPPORTED, here and from save and restore: the
   * component's sessions stay where they are. */
  int32_t (*copy)(void* self, uint64_t from, uint64_t to);
  /* [owner-thread] Calls take(to, tensor) with each tensor of the session: all that restore() needs, in names
   * and a form of the component's own. Both are borrowed for the call, and the tensor may be the storage
   * itself, so a taker copies what it keeps. An error of take() ends the call and is returned. The session
   * stays. */
  int32_t (*save)(void* self, uint64_t session, void* to, int32_t (*take)(void* to, const kinora_named*));
  /* [owner-thread] The session becomes what was saved, here or by another instance of the component: give all
   * tensors, in any order, on the device of the model. They are copied. KINORA_ERROR_INVALID, and the
   * session stays as it is, for tensors that are not of the component's form. */
  int32_t (*restore)(void* self, uint64_t session, const kinora_named* in, uint64_t n_in);
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
KINORA_SLOT(kinora_cache, unpin, 72);
KINORA_SLOT(kinora_cache, copy, 80);
KINORA_SLOT(kinora_cache, save, 88);
KINORA_SLOT(kinora_cache, restore, 96);
KINORA_SIZE(kinora_cache, 104);
KINORA_EXTERN_C_END
#endif
