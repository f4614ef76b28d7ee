/* Ten samples, whatever the path; part i of n has those whose number modulo n is i. Each source has one defect. */
#include <stdio.h>

#include "broken.h"
#include "kinora/abi/source.h"

enum { none, lost, miscounted, stale, gullible, moved, careless, again, stuck };
enum { samples = 10 };

typedef struct source {
  instance base;
  const kinora_samples_api* api;
  unsigned long shard, shards, next; /* next: the number of a sample of this part */
  int refused;                       /* whether an open() failed */
} source;

static void* create(const kinora_host* host, int mode) {
  const kinora_samples_api* api = host->get_interface(host, KINORA_INTERFACE_SAMPLES, 0);
  if (!api) return NULL;
  source* s = calloc(1, sizeof *s);
  if (!s) return host->set_error(host, KINORA_ERROR_NO_MEMORY, "no memory"), NULL;
  s->base.host = host;
  s->base.mode = mode;
  s->api = api;
  return s;
}

static int32_t check_run(const source* s, const kinora_run* run) {
  if (!run->needs || s->base.mode == careless) return KINORA_OK;
  return error(&s->base, KINORA_ERROR_UNSUPPORTED, "needs of the run");
}

static int32_t open_part(void* me, kinora_str path, uint64_t shard, uint64_t shards, const kinora_run* run) {
  source* s = me;
  (void)path;
  if (check_run(s, run) != KINORA_OK) return KINORA_ERROR_UNSUPPORTED;
  if (shard >= shards || (s->base.mode == stuck && s->refused)) {
    s->refused = 1;
    return error(&s->base, KINORA_ERROR_INVALID, "there is no such part");
  }
  s->shard = s->next = shard;
  s->shards = shards;
  return KINORA_OK;
}

static int32_t next(void* me, const kinora_run* run, kinora_sample** out) {
  source* s = me;
  if (check_run(s, run) != KINORA_OK) return KINORA_ERROR_UNSUPPORTED;
  char key[32];
  if (s->next >= samples || (s->base.mode == lost && s->shards > 1 && s->next == samples - 1)) {
    if (s->base.mode == again) s->next = s->shard;
    return KINORA_SIGNAL_END;
  }
  const kinora_str name = {key, (uint64_t)snprintf(key, sizeof key, "sample-%lu", s->next)};
  s->next += s->shards;
  return s->api->create(name, out);
}

static int32_t state(void* me, const kinora_sink* out) {
  const source* s = me;
  const unsigned long at = s->base.mode == stale && s->next > s->shard ? s->next - s->shards : s->next;
  char text[64];
  out->write(out->self, text,
             (uint64_t)snprintf(text, sizeof text, "part %lu of %lu at %lu;", s->shard, s->shards, at));
  return KINORA_OK;
}

static int32_t restore(void* me, kinora_bytes state) {
  source* s = me;
  char text[64] = "", last = 0;
  unsigned long shard = 0, shards = 0, at = 0;
  if (state.size < sizeof text) memcpy(text, state.data ? state.data : "", state.size);
  const int found = sscanf(text, "part %lu of %lu at %lu%c", &shard, &shards, &at, &last);
  if (s->base.mode != gullible && (found != 4 || last != ';' || shard != s->shard || shards != s->shards)) {
    if (s->base.mode == moved) s->next = s->shard;
    return error(&s->base, KINORA_ERROR_INVALID, "the state is of another part, or none");
  }
  s->next = at;
  return KINORA_OK;
}

static int32_t count(void* me, uint64_t* out) {
  const source* s = me;
  *out = (samples - s->shard + s->shards - 1) / s->shards;
  if (s->base.mode == lost && s->shards > 1 && (samples - 1) % s->shards == s->shard) --*out;
  if (s->base.mode == miscounted) ++*out;
  return KINORA_OK;
}

#define SOURCE(MODE)                                                                 \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given) { \
    (void)given;                                                                     \
    return create(host, MODE);                                                       \
  }                                                                                  \
  static const kinora_source table_##MODE = {                                        \
      sizeof(kinora_source), 0, create_##MODE, destroy, open_part, next, state, restore, count, 0};
SOURCE(none)
SOURCE(lost)
SOURCE(miscounted)
SOURCE(stale)
SOURCE(gullible)
SOURCE(moved)
SOURCE(careless)
SOURCE(again)
SOURCE(stuck)
#define ONE(MODE) COMPONENT("source", KINORA_INTERFACE_SOURCE, MODE, NULL)
BROKEN_PLUGIN("sources", ONE(none), ONE(lost), ONE(miscounted), ONE(stale), ONE(gullible), ONE(moved),
              ONE(careless), ONE(again), ONE(stuck))
