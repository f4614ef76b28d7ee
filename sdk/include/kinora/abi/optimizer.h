/* kinora.optimizer/1-draft.1: the change of a network's weights by their gradients.            draft
 *
 * The host owns the weights, their gradients, the optimizer's states and averages of the weights; it cuts
 * them as the strategies do, sums the gradients over the ranks, clips them and writes checkpoints. The
 * optimizer computes, on flat ranges, so that one without a view of the whole parameter needs to know nothing
 * of the layout. Its states are the manifest's outputs: a checkpoint keeps them as OUTPUT.PARAMETER. A state has
 * the dtype of its output, and one of dtype `float` is float32 or float64, as the host chooses. A host that does
 * not store an output's dtype refuses the component with KINORA_ERROR_UNSUPPORTED.
 *
 * Draft: it becomes 1.0 when states of fewer bits and offloading have been built on it. */
#ifndef KINORA_ABI_OPTIMIZER_H
#define KINORA_ABI_OPTIMIZER_H
#include "kinora/abi/context.h"
#include "kinora/abi/host.h"
#include "kinora/abi/options.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_OPTIMIZER "kinora.optimizer/1-draft.1"

/* How a parameter is updated. */
typedef struct kinora_update_plan {
  uint32_t struct_size;
  uint32_t n_states; /* it has the first n_states of the manifest's outputs, one number for each of its own */
  uint32_t whole;    /* 1: update() gives a direction, which direction() maps once it is whole */
  uint32_t reserved;
} kinora_update_plan;

/* A moving average of weights, [n] in at least float32: values <- values + share * (weight - values). */
typedef struct kinora_average { /* fixed: never grows */
  kinora_tensor values;
  double share;
} kinora_average;

/* n numbers of one leaf that have one plan and one weight decay. All tensors are [n], contiguous, of the
 * weight's dtype unless it says otherwise, and borrowed for the call. */
typedef struct kinora_update {
  uint32_t struct_size;
  uint32_t n_states;
  int64_t step; /* of the optimizer, from 1 */
  double learning_rate;
  double weight_decay;
  double gradient_factor;         /* the gradient is to be multiplied with it first; from clipping */
  kinora_tensor weight;           /* changed in place, unless the plan says `whole` */
  kinora_tensor gradient;         /* the plan says `whole`: replaced by the direction; else not changed */
  const kinora_tensor* states;    /* zeros at step 1, then as the last step left them */
  const kinora_average* averages; /* to be updated by the new weight; none if the plan says `whole` */
  uint64_t n_averages;
} kinora_update;

typedef struct kinora_optimizer {
  uint32_t struct_size;
  uint32_t reserved;
  /* [owner-thread] */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [owner-thread] Fills *out in (KINORA_FILL) for a parameter, as it is in a run of one process. The same
   * answer on every rank. Called for each parameter that is not frozen, before the first update(). */
  int32_t (*plan)(void* self, const kinora_param_spec*, kinora_update_plan* out);
  /* [owner-thread] One step of a range. An element's result depends on the same element of the tensors only,
   * with the same bits for any cut into ranges. */
  int32_t (*update)(void* self, const kinora_update*);
  /* [owner-thread] direction, of the parameter's shape in one process -> the change per unit of learning
   * rate, of the same shape and dtype. The host then sets
   *   weight <- (1 - learning_rate * weight_decay) * weight - learning_rate * change.
   * Called once a step for each parameter whose plan says `whole`, on one rank of all. Null: no plan says
   * so. */
  int32_t (*direction)(void* self, const kinora_param_spec*, kinora_tensor direction, kinora_tensor* change);
} kinora_optimizer;

KINORA_SLOT(kinora_update_plan, struct_size, 0);
KINORA_SLOT(kinora_update_plan, n_states, 4);
KINORA_SLOT(kinora_update_plan, whole, 8);
KINORA_SLOT(kinora_update_plan, reserved, 12);
KINORA_SIZE(kinora_update_plan, 16);
KINORA_SLOT(kinora_average, values, 0);
KINORA_SLOT(kinora_average, share, 8);
KINORA_SIZE(kinora_average, 16);
KINORA_SLOT(kinora_update, struct_size, 0);
KINORA_SLOT(kinora_update, n_states, 4);
KINORA_SLOT(kinora_update, step, 8);
KINORA_SLOT(kinora_update, learning_rate, 16);
KINORA_SLOT(kinora_update, weight_decay, 24);
KINORA_SLOT(kinora_update, gradient_factor, 32);
KINORA_SLOT(kinora_update, weight, 40);
KINORA_SLOT(kinora_update, gradient, 48);
KINORA_SLOT(kinora_update, states, 56);
KINORA_SLOT(kinora_update, averages, 64);
KINORA_SLOT(kinora_update, n_averages, 72);
KINORA_SIZE(kinora_update, 80);
KINORA_SLOT(kinora_optimizer, struct_size, 0);
KINORA_SLOT(kinora_optimizer, reserved, 4);
KINORA_SLOT(kinora_optimizer, create, 8);
KINORA_SLOT(kinora_optimizer, destroy, 16);
KINORA_SLOT(kinora_optimizer, plan, 24);
KINORA_SLOT(kinora_optimizer, update, 32);
KINORA_SLOT(kinora_optimizer, direction, 40);
KINORA_SIZE(kinora_optimizer, 48);
KINORA_EXTERN_C_END
#endif
