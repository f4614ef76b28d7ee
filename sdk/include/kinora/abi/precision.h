/* kinora.precision/1-draft.2: the number format of linear layers and attention.               draft
 *
 * It is a link on linear (and attention), not autocast: autocast is thread state and would miss other links.
 * Parameters and optimizer state stay float32 (float64 with a float64 stream); the link converts at use.
 *
 * Draft: it becomes 1.0 when four-bit training has been built on it. */
#ifndef KINORA_ABI_PRECISION_H
#define KINORA_ABI_PRECISION_H
#include "kinora/abi/host.h"
#include "kinora/abi/link.h"
#include "kinora/abi/options.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_PRECISION "kinora.precision/1-draft.2"

typedef struct kinora_precision {
  uint32_t struct_size;
  uint32_t reserved;
  /* [owner-thread] */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [owner-thread] As kinora_parallel.link. */
  int32_t (*link)(void* self, const kinora_link** out);
  /* [any-thread] KINORA_DTYPE_FLOAT32 ...: the dtype of the residual stream, to be passed to sequence(). */
  int32_t (*dtype)(void* self);
  /* [owner-thread] Converts x [M, N] to the format: out receives the manifest's outputs in its order (codes,
   * scales, global_scale, dequantized); null for one that the format does not have. */
  int32_t (*quantize)(void* self, kinora_tensor x, kinora_tensor* out, uint64_t n_out);
  /* [any-thread] The number of tokens in a row that share a scale in some product. Where ranks split
   * sequences, the host pads them so that a part in the one-process order is a multiple of it. Null: 1. */
  int64_t (*token_block)(void* self);
} kinora_precision;

KINORA_SLOT(kinora_precision, struct_size, 0);
KINORA_SLOT(kinora_precision, reserved, 4);
KINORA_SLOT(kinora_precision, create, 8);
KINORA_SLOT(kinora_precision, destroy, 16);
KINORA_SLOT(kinora_precision, link, 24);
KINORA_SLOT(kinora_precision, dtype, 32);
KINORA_SLOT(kinora_precision, quantize, 40);
KINORA_SLOT(kinora_precision, token_block, 48);
KINORA_SIZE(kinora_precision, 56);
KINORA_EXTERN_C_END
#endif
