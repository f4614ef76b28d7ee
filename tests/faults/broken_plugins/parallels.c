/* Strategies without a link: data parallelism, and one whose ranks share samples but cut nothing. */
#include "broken.h"
#include "kinora/abi/parallel.h"

enum { none, whole };

static const char* axis(void* me) { return ((const instance*)me)->mode == whole ? "cp" : "dp"; }
static int32_t no_link(void* me, const kinora_link** out) { return (void)me, *out = NULL, KINORA_OK; }

#define STRATEGY(MODE)                                                             \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given, \
                             const kinora_mesh* mesh) {                            \
    (void)given, (void)mesh;                                                       \
    return make(host, MODE);                                                       \
  }                                                                                \
  static const kinora_parallel table_##MODE = {                                    \
      sizeof(kinora_parallel), 0, create_##MODE, destroy, axis, no_link, NULL};
STRATEGY(none)
STRATEGY(whole)
#define ONE(MODE) COMPONENT("parallel", KINORA_INTERFACE_PARALLEL, MODE, NULL)
BROKEN_PLUGIN("parallels", ONE(none), ONE(whole))
