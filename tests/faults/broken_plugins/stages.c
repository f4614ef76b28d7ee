/* Stages that keep every sample, each with one defect. */
#include <signal.h>

#include "broken.h"
#include "kinora/abi/stage.h"

enum {
  none,
  options,
  ids,
  newer,
  bare,
  room,
  samples,
  silent,
  twice,
  lost,
  uneven,
  leak,
  shared,
  order,
  dies,
  gives,
  writes,
  careless
};

static const kinora_samples_api* api_of(const instance* self) {
  return self->host->get_interface(self->host, KINORA_INTERFACE_SAMPLES, 0);
}

static void* create(const kinora_host* host, const kinora_options* given, int mode) {
  const kinora_options_api* api = host->get_interface(host, KINORA_INTERFACE_OPTIONS, 0);
  double level = 0;
  if (!api && mode != bare) return NULL; /* the host has said why */
  if (mode != options && api->get_float(given, "level", 0, &level) != KINORA_OK) return NULL;
  if (mode == newer && host->struct_size > sizeof *host)
    ((char*)host)[host->struct_size - 1] = 0; /* as if the later member were its own */
  return make(host, mode);
}

static int32_t resources(void* me, kinora_resources* out) {
  const kinora_resources one = {
      .struct_size = sizeof one, .cores = 1, .ordered = ((instance*)me)->mode == order ? 77 : 0};
  if (((instance*)me)->mode == room)
    *out = one;
  else
    KINORA_FILL(out, &one);
  return KINORA_OK;
}

static int32_t process(void* me, kinora_sample* in, const kinora_emit* emit, const kinora_run* run) {
  static int calls = 0;
  static void* volatile owner = NULL;
  instance* self = me;
  const kinora_samples_api* api = api_of(self);
  kinora_bytes caption;
  if (run->needs && self->mode != careless) return error(self, KINORA_ERROR_UNSUPPORTED, "needs of the run");
  if (api->get(in, "txt", &caption) != KINORA_OK) {
    if (self->mode == samples) abort();
    return self->mode == silent ? KINORA_ERROR_DATA : error(self, KINORA_ERROR_DATA, "the sample has no txt");
  }
  if (self->mode == dies) raise(SIGSEGV);
  if (self->mode == lost) return emit->hold(emit->self);
  if (self->mode == shared) {
    owner = self;
    usleep(500);
    if (owner != self) return error(self, KINORA_ERROR_FAILED, "another instance took its place");
  }
  if (self->mode == uneven) {
    const kinora_bytes number = {&calls, sizeof calls};
    ++calls;
    api->set(in, "number", number, NULL, NULL);
  }
  if (self->mode == leak) api->retain(in);
  if (self->mode == writes) ((char*)caption.data)[0] ^= 1;
  if (self->mode != gives) api->retain(in);
  const int32_t status = emit->emit(emit->self, in);
  if (self->mode != twice || status != KINORA_OK) return status;
  api->retain(in);
  return emit->emit(emit->self, in);
}

static const void* any_interface(const char* id, uint32_t minor) {
  (void)minor;
  return id;
}

#define STAGE(MODE)                                                                  \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given) { \
    return create(host, given, MODE);                                                \
  }                                                                                  \
  static const kinora_stage table_##MODE = {.struct_size = sizeof(kinora_stage),     \
                                            .create = create_##MODE,                 \
                                            .destroy = destroy,                      \
                                            .resources = resources,                  \
                                            .process = process};
STAGE(none)
STAGE(options)
STAGE(ids)
STAGE(newer)
STAGE(bare)
STAGE(room)
STAGE(samples)
STAGE(silent)
STAGE(twice)
STAGE(lost)
STAGE(uneven)
STAGE(leak)
STAGE(shared)
STAGE(order)
STAGE(dies)
STAGE(gives)
STAGE(writes)
STAGE(careless)
#define ONE(MODE, GET) COMPONENT("stage", KINORA_INTERFACE_STAGE, MODE, GET)
BROKEN_PLUGIN("stages", ONE(none, NULL), ONE(options, NULL), ONE(ids, any_interface), ONE(newer, NULL),
              ONE(bare, NULL), ONE(room, NULL), ONE(samples, NULL), ONE(silent, NULL), ONE(twice, NULL),
              ONE(lost, NULL), ONE(uneven, NULL), ONE(leak, NULL), ONE(shared, NULL), ONE(order, NULL),
              ONE(dies, NULL), ONE(gives, NULL), ONE(writes, NULL), ONE(careless, NULL))
