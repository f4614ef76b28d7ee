/* kinora.rounding/1-draft.1: what a precision's rounding does to the layers of a model.       draft
 *
 * The link of a precision offers it through get_interface of its context; the host reads it while it trains.
 *
 * Draft: it becomes 1.0 together with kinora.precision. */
#ifndef KINORA_ABI_ROUNDING_H
#define KINORA_ABI_ROUNDING_H
#include "kinora/abi/base.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_ROUNDING "kinora.rounding/1-draft.1"

#define KINORA_OPERANDS 3 /* activations, weights, gradients */

/* Sums over the values of an operand on this rank, so that those of several ranks may be added. A clipped
 * value is beyond the largest number of its block's scale; one that underflows is not 0 and becomes 0. */
typedef struct kinora_rounding_sums { /* fixed: never grows; other sums get a function of their own */
  double signal;                      /* of squares of values */
  double noise;                       /* of squares of errors */
  double values;                      /* counts, from here on */
  double clipped;
  double underflowed;
} kinora_rounding_sums;

typedef struct kinora_rounding {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  /* [owner-thread] on 1: sums of the forwards that begin from now on, and of their backwards, start at 0.
   * on 0: ends them. Measuring takes time. */
  int32_t (*measure)(void* self, uint32_t on);
  /* [owner-thread] Layer number i, the same on every rank, and its sums; all 0 where this rank has not run
   * it. name: of its weight; lives as long as the link. KINORA_ERROR_NOT_FOUND, without a message, past the
   * last. */
  int32_t (*layer)(void* self, int64_t i, const char** name, kinora_rounding_sums sums[KINORA_OPERANDS]);
} kinora_rounding;

KINORA_SLOT(kinora_rounding_sums, signal, 0);
KINORA_SLOT(kinora_rounding_sums, noise, 8);
KINORA_SLOT(kinora_rounding_sums, values, 16);
KINORA_SLOT(kinora_rounding_sums, clipped, 24);
KINORA_SLOT(kinora_rounding_sums, underflowed, 32);
KINORA_SIZE(kinora_rounding_sums, 40);
KINORA_SLOT(kinora_rounding, struct_size, 0);
KINORA_SLOT(kinora_rounding, reserved, 4);
KINORA_SLOT(kinora_rounding, self, 8);
KINORA_SLOT(kinora_rounding, measure, 16);
KINORA_SLOT(kinora_rounding, layer, 24);
KINORA_SIZE(kinora_rounding, 32);
KINORA_EXTERN_C_END
#endif
