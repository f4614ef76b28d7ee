/* A world of one rank, each collective with one defect. `deaf` takes part in larger worlds and hears nobody. */
#include "kinora/abi/collective.h"
#include "tensors.h"

enum { none, twice, deaf, careless };

static void* create(const kinora_host* host, int mode) {
  return make_with_tensors(host, mode, sizeof(with_tensors));
}
static int32_t join_world(void* me, const kinora_world* world) {
  const with_tensors* c = me;
  return world->size == 1 || c->base.mode == deaf
             ? KINORA_OK
             : error(&c->base, KINORA_ERROR_UNSUPPORTED, "this collective has one rank");
}
static int32_t group(void* me, const char* name, const int64_t* members, uint64_t n_members, void** out) {
  (void)name, (void)members, (void)n_members;
  *out = me;
  return KINORA_OK;
}

/* The result of a transfer, until finish(). */
typedef struct work {
  kinora_tensor out;
} work;

static int32_t start(void* me, const kinora_transfer* t, void** out) {
  const with_tensors* c = me;
  if (t->needs && c->base.mode != careless)
    return error(&c->base, KINORA_ERROR_UNSUPPORTED, "needs of the transfer");
  work* w = calloc(1, sizeof *w);
  if (!w) return error(&c->base, KINORA_ERROR_NO_MEMORY, "no memory");
  int32_t status = KINORA_OK;
  if (t->op == KINORA_OP_ALL_REDUCE && c->base.mode == twice)
    status = scaled(c, t->in, 2, &w->out);
  else if (t->op != KINORA_OP_BARRIER)
    status = c->tensors->retain(t->in, &w->out);
  if (status != KINORA_OK) return free(w), status;
  *out = w;
  return KINORA_OK;
}
static int32_t finish(void* me, kinora_tensor* out) {
  work* w = me;
  *out = w->out;
  free(w);
  return KINORA_OK;
}
static void release(void* me) { (void)me; }

#define COLLECTIVE(MODE)                                                             \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given) { \
    (void)given;                                                                     \
    return create(host, MODE);                                                       \
  }                                                                                  \
  static const kinora_collective table_##MODE = {                                    \
      sizeof(kinora_collective), 0, create_##MODE, destroy, join_world, group, start, finish, release};
COLLECTIVE(none)
COLLECTIVE(twice)
COLLECTIVE(deaf)
COLLECTIVE(careless)
#define ONE(MODE) COMPONENT("collective", KINORA_INTERFACE_COLLECTIVE, MODE, NULL)
BROKEN_PLUGIN("collectives", ONE(none), ONE(twice), ONE(deaf), ONE(careless))
