/* Gradient descent with momentum on float64 numbers, each optimizer with one defect. */
#include "kinora/abi/optimizer.h"
#include "tensors.h"

enum { none, position, unclipped, still, uphill, leak };

typedef with_tensors optimizer;

static int32_t plan(void* me, const kinora_param_spec* spec, kinora_update_plan* out) {
  const kinora_update_plan one = {sizeof one, 1, 0, 0};
  (void)me, (void)spec;
  KINORA_FILL(out, &one);
  return KINORA_OK;
}

static double* numbers(const optimizer* o, kinora_tensor t) {
  void* data = NULL;
  return o->tensors->data(t, &data) == KINORA_OK ? data : NULL;
}

static int32_t update(void* me, const kinora_update* u) {
  const optimizer* o = me;
  kinora_tensor_info info = {.struct_size = sizeof info};
  double *w = numbers(o, u->weight), *v = numbers(o, u->states[0]);
  const double* g = numbers(o, u->gradient);
  if (!w || !v || !g || o->tensors->info(u->weight, &info) != KINORA_OK)
    return error(&o->base, KINORA_ERROR_INVALID, "needs float64 numbers on the CPU");
  const double factor = o->base.mode == unclipped ? 1 : u->gradient_factor,
               rate = o->base.mode == uphill ? -u->learning_rate : u->learning_rate;
  for (int64_t i = 0; i < info.numel; ++i) {
    v[i] = 0.5 * v[i] + factor * g[i];
    if (o->base.mode == position) v[i] += 1e-9 * (double)i;
    w[i] = (1 - u->learning_rate * u->weight_decay) * w[i] - rate * v[i];
  }
  for (uint64_t k = 0; k < u->n_averages && o->base.mode != still; ++k) {
    double* a = numbers(o, u->averages[k].values);
    for (int64_t i = 0; i < info.numel; ++i) a[i] += u->averages[k].share * (w[i] - a[i]);
  }
  return o->base.mode == leak ? leaked(o, u->weight) : KINORA_OK;
}

#define OPTIMIZER(MODE)                                                              \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given) { \
    (void)given;                                                                     \
    return make_with_tensors(host, MODE, sizeof(optimizer));                         \
  }                                                                                  \
  static const kinora_optimizer table_##MODE = {                                     \
      sizeof(kinora_optimizer), 0, create_##MODE, destroy, plan, update, NULL};
OPTIMIZER(none)
OPTIMIZER(position)
OPTIMIZER(unclipped)
OPTIMIZER(still)
OPTIMIZER(uphill)
OPTIMIZER(leak)
#define ONE(MODE) COMPONENT("optimizer", KINORA_INTERFACE_OPTIMIZER, MODE, NULL)
BROKEN_PLUGIN("optimizers", ONE(none), ONE(position), ONE(unclipped), ONE(still), ONE(uphill), ONE(leak))
