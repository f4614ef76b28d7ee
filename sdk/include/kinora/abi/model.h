/* kinora.model/1-draft.1: a network over named tensors, written once against the context.     draft
 *
 * It contains no rank, no precision and no cache; see context.h. Its manifest lists inputs and outputs with
 * shapes and dtypes. A denoiser has `latent` [B, C, T, H, W], `timestep` [B] or [B, T], `text` [B, L, D], any
 * number of other signals by name, and `output`. A text encoder has `input_ids`, `attention_mask` int64 [B,
 * L], and `output`. forward() may run while a CUDA graph is recorded: read no number of a tensor on the host
 * and do not wait for the device, or say needs = ["eager"] in the manifest.
 *
 * Draft: it becomes 1.0 together with kinora.context. */
#ifndef KINORA_ABI_MODEL_H
#define KINORA_ABI_MODEL_H
#include "kinora/abi/context.h"
#include "kinora/abi/host.h"
#include "kinora/abi/layout.h"
#include "kinora/abi/options.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_MODEL "kinora.model/1-draft.1"

/* The tokens that a token may see in attention, unless the run's own rule is stricter. */
#define KINORA_SEES_ALL 0u
#define KINORA_SEES_CAUSAL \
  1u /* itself and the tokens before it, by KINORA_TOKEN_INDEX: next-token models \
      */

typedef struct kinora_model {
  uint32_t struct_size;
  uint32_t sees; /* KINORA_SEES_* */
  /* [owner-thread] Declares its parameters in the context and keeps no tensor. Null and set_error on failure.
   */
  void* (*create)(const kinora_host*, const kinora_options*, const kinora_context*);
  void (*destroy)(void* self);
  /* [owner-thread] in: in any order; KINORA_ERROR_INVALID if a required one is missing. out: the manifest's
   * outputs in its order, filled in. If block() returns KINORA_SIGNAL_STOP, return it. */
  int32_t (*forward)(void* self, const kinora_context*, const kinora_named* in, uint64_t n_in,
                     kinora_tensor* out, uint64_t n_out);
  /* [any-thread] Number of block() calls, embedding and head included; a pipeline distributes these. A
   * negative error after set_error if the options describe no model. */
  int64_t (*blocks)(void* self);
  /* [any-thread] Naming scheme number i of published weights; returns null past the last. Lives as long as
   * the library. Null: none. */
  const kinora_layout* (*layout)(uint64_t i);
} kinora_model;

KINORA_SLOT(kinora_model, struct_size, 0);
KINORA_SLOT(kinora_model, sees, 4);
KINORA_SLOT(kinora_model, create, 8);
KINORA_SLOT(kinora_model, destroy, 16);
KINORA_SLOT(kinora_model, forward, 24);
KINORA_SLOT(kinora_model, blocks, 32);
KINORA_SLOT(kinora_model, layout, 40);
KINORA_SIZE(kinora_model, 48);
KINORA_EXTERN_C_END
#endif
