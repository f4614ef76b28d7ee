/* Strategies without a link: data parallelism, one whose ranks share samples but cut nothing, and one whose
 * schedule does not look at what the run needs. */
#include "broken.h"
#include "kinora/abi/parallel.h"

enum { none, whole, careless };

static const char* axis(void* me) { return ((const instance*)me)->mode == whole ? "cp" : "dp"; }
static int32_t no_link(void* me, const kinora_link** out) { return (void)me, *out = NULL, KINORA_OK; }

static int32_t in_order(void* me, const kinora_step* step, const kinora_run* run) {
  int32_t status = KINORA_OK;
  (void)me, (void)run;
  for (int64_t i = 0; i < step->n_microbatches && status == KINORA_OK; ++i) {
    const kinora_pass pass = {.struct_size = sizeof pass, .microbatch = i};
    status = step->forward(step->self, &pass);
    if (status == KINORA_OK) status = step->backward(step->self, &pass);
  }
  return status;
}

#define STRATEGY(MODE, STEP)                                                       \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given, \
                             const kinora_mesh* mesh) {                            \
    (void)given, (void)mesh;                                                       \
    return make(host, MODE);                                                       \
  }                                                                                \
  static const kinora_parallel table_##MODE = {                                    \
      sizeof(kinora_parallel), 0, create_##MODE, destroy, axis, no_link, STEP};
STRATEGY(none, NULL)
STRATEGY(whole, NULL)
STRATEGY(careless, in_order)
#define ONE(MODE) COMPONENT("parallel", KINORA_INTERFACE_PARALLEL, MODE, NULL)
BROKEN_PLUGIN("parallels", ONE(none), ONE(whole), ONE(careless))
