/* A linear layer over latents [B, N, 4] in one block, each model with one defect. */
#include "kinora/abi/model.h"
#include "tensors.h"

enum { none, options, bare, memory, detached, forgets, reads, leak, crash };

typedef struct model {
  with_tensors base;
  double scale, scale_of_call;
  kinora_param weight;
  const kinora_context* context; /* of the call that runs the block */
} model;

static void* create(const kinora_host* host, const kinora_options* given, const kinora_context* context,
                    int mode) {
  static const int64_t shape[] = {4, 4};
  const kinora_param_spec spec = {.struct_size = sizeof spec,
                                  .role = KINORA_ROLE_WHOLE,
                                  .name = "weight",
                                  .shape = shape,
                                  .ndim = 2,
                                  .quantum = 1,
                                  .block = 0,
                                  .init = KINORA_INIT_NORMAL,
                                  .init_scale = 1,
                                  .shards = 1};
  const kinora_options_api* reader = host->get_interface(host, KINORA_INTERFACE_OPTIONS, 0);
  double scale = 1;
  if (mode != options && mode != bare && !reader) return NULL;
  if (mode != options && reader->get_float(given, "scale", 0, &scale) != KINORA_OK) return NULL;
  model* m = make_with_tensors(host, mode, sizeof *m);
  if (!m) return NULL;
  m->scale = scale;
  if (context->parameter(context->self, &spec, &m->weight) == KINORA_OK) return m;
  destroy(m);
  return NULL;
}

static int32_t block(void* user, const kinora_tensor* in, kinora_tensor* out) {
  static int64_t calls = 0;
  const model* m = user;
  const with_tensors* self = &m->base;
  const kinora_context* c = m->context;
  kinora_tensor x = NULL, y = NULL;
  kinora_value given[2] = {of_tensor(in[0])};
  int32_t status = self->base.mode == detached ? call_op(self, "aten::detach", "", given, 1, &x)
                                               : self->tensors->retain(in[0], &x);
  if (status != KINORA_OK) return status;
  status = c->linear(c->self, x, m->weight, 0, 0, &y);
  self->tensors->release(x);
  if (status != KINORA_OK) return status;
  status = scaled(self, y, self->base.mode == memory ? 1 + 1e-14 * (double)calls++ : m->scale_of_call, out);
  if (status == KINORA_OK && self->base.mode == leak) status = self->tensors->retain(*out, &x);
  self->tensors->release(y);
  return status;
}
static void keep(void* user) { (void)user; }

static int32_t forward(void* me, const kinora_context* context, const kinora_named* in, uint64_t n_in,
                       kinora_tensor* out, uint64_t n_out) {
  model* m = me;
  kinora_tensor latent = NULL;
  void* data = NULL;
  (void)n_out;
  for (uint64_t i = 0; i < n_in; ++i)
    if (!strcmp(in[i].name, "latent")) latent = in[i].tensor;
  if (!latent) return error(&m->base.base, KINORA_ERROR_INVALID, "latent is required");
  if (m->base.base.mode == crash && dimensions(&m->base, latent) == 0) abort();
  if (m->base.base.mode == reads) {
    const int32_t status = m->base.tensors->data(latent, &data);
    if (status != KINORA_OK) return status;
  }
  const kinora_block b = {.struct_size = sizeof b,
                          .n_carry = 1,
                          .n_out = 1,
                          .user = m,
                          .fn = block,
                          .retain = keep,
                          .release = keep};
  m->context = context;
  m->scale_of_call = m->scale;
  const int32_t status = context->block(context->self, &b, &latent, out);
  if (m->base.base.mode == forgets) m->scale_of_call = 0;
  return status;
}

static int64_t blocks(void* me) { return (void)me, 1; }

#define MODEL(MODE)                                                                \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given, \
                             const kinora_context* context) {                      \
    return create(host, given, context, MODE);                                     \
  }                                                                                \
  static const kinora_model table_##MODE = {                                       \
      sizeof(kinora_model), KINORA_SEES_ALL, create_##MODE, destroy, forward, blocks, NULL};
MODEL(none)
MODEL(options)
MODEL(bare)
MODEL(memory)
MODEL(detached)
MODEL(forgets)
MODEL(reads)
MODEL(leak)
MODEL(crash)
#define ONE(MODE) COMPONENT("model", KINORA_INTERFACE_MODEL, MODE, NULL)
BROKEN_PLUGIN("models", ONE(none), ONE(options), ONE(bare), ONE(memory), ONE(detached), ONE(forgets),
              ONE(reads), ONE(leak), ONE(crash))
