/* One sample after the other through stages that form a line, in the calling thread. Each engine has one defect. */
#include "broken.h"
#include "kinora/abi/engine.h"

enum { none, lost, again, early, leak, deaf, idle, careless };

typedef struct engine {
  instance base;
  const kinora_samples_api* samples;
} engine;

/* A call of a stage's process(). */
typedef struct call {
  const engine* of;
  const kinora_pipeline* pipeline;
  const kinora_run* run;
  void* const* stages;
  uint32_t stage;
  int32_t made, status; /* status: the first error of done() */
  kinora_sample* in;
  kinora_str parent;
  int has_ended;
} call;

static void process(call* c);

static void done(call* c, kinora_sample* s, uint32_t end, const char* stage, const char* reason, double score,
                 int32_t status) {
  const engine* e = c->of;
  const kinora_str key = e->samples->key(s);
  const kinora_outcome o = {.struct_size = sizeof o,
                            .end = end,
                            .sample = s,
                            .stage = stage,
                            .reason = reason,
                            .score = score,
                            .status = status,
                            .consumed = end == KINORA_OUTCOME_KEPT && stage,
                            .made = c->made,
                            .inputs = c->made ? &c->parent : &key,
                            .parents = &c->parent,
                            .n_inputs = 1,
                            .n_parents = c->made ? 1 : 0};
  if (e->base.mode == lost && end == KINORA_OUTCOME_FILTERED) return;
  for (int n = e->base.mode == again && end == KINORA_OUTCOME_FAILED ? 2 : 1; n > 0; --n) {
    const int32_t answered = c->pipeline->done(c->pipeline->self, &o);
    if (c->status == KINORA_OK) c->status = answered;
  }
}

static int is_input(const call* c, const kinora_sample* s) {
  const kinora_str a = c->of->samples->key(c->in), b = c->of->samples->key(s);
  return a.size == b.size && !memcmp(a.data, b.data, a.size);
}
static const char* name(const call* c) { return c->pipeline->stages[c->stage]->name; }

static int32_t emit(void* self, kinora_sample* s) {
  call* c = self;
  call next = *c;
  next.in = s;
  next.stage = c->stage + 1;
  next.has_ended = 0;
  if (is_input(c, s)) {
    c->has_ended = 1;
  } else {
    next.made = 1;
    next.parent = c->of->samples->key(c->in);
    if (c->of->base.mode == early) { /* the input's outcome before that of what is made of it */
      done(c, c->in, KINORA_OUTCOME_KEPT, name(c), NULL, 0, KINORA_OK);
      c->has_ended = 1;
    }
  }
  if (next.stage < c->pipeline->n_stages)
    process(&next);
  else
    done(&next, s, KINORA_OUTCOME_KEPT, NULL, NULL, 0, KINORA_OK);
  c->status = next.status;
  c->of->samples->release(s);
  return KINORA_OK;
}
static int32_t drop(void* self, kinora_sample* s, const char* rule, double score) {
  call* c = self;
  c->has_ended = is_input(c, s);
  done(c, s, KINORA_OUTCOME_FILTERED, name(c), rule, score, KINORA_OK);
  c->of->samples->release(s);
  return KINORA_OK;
}

static void process(call* c) {
  const engine* e = c->of;
  const kinora_emit out = {.struct_size = sizeof out, .self = c, .emit = emit, .drop = drop};
  e->base.host->set_error(e->base.host, KINORA_OK, "");
  const int32_t status =
      c->pipeline->stages[c->stage]->stage->process(c->stages[c->stage], c->in, &out, c->run);
  if (c->has_ended) return;
  const kinora_str why = e->base.host->last_error(e->base.host);
  char text[200] = "";
  memcpy(text, why.data, why.size < sizeof text ? why.size : sizeof text - 1);
  if (status == KINORA_OK)
    done(c, c->in, KINORA_OUTCOME_KEPT, name(c), NULL, 0, KINORA_OK);
  else
    done(c, c->in, KINORA_OUTCOME_FAILED, name(c), text, 0, status);
}

static int32_t run_inputs(const engine* e, const kinora_pipeline* p, const kinora_run* run,
                          void* const* stages) {
  for (;;) {
    call c = {.of = e, .pipeline = p, .run = run, .stages = stages};
    const int32_t cancelled = run->cancelled(run->self);
    if (cancelled != KINORA_OK) return cancelled;
    const int32_t status = p->next(p->self, &c.in);
    if (status == KINORA_SIGNAL_END) return KINORA_OK;
    if (status != KINORA_OK) return status;
    process(&c);
    if (e->base.mode != leak) e->samples->release(c.in);
    if (c.status != KINORA_OK && e->base.mode != deaf) return c.status;
  }
}

static int32_t run_pipeline(void* me, const kinora_pipeline* p, const kinora_run* run) {
  const engine* e = me;
  void* stages[2] = {NULL, NULL};
  int32_t status = KINORA_OK;
  if (run->needs && e->base.mode != careless)
    return error(&e->base, KINORA_ERROR_UNSUPPORTED, "needs of the run");
  if (e->base.mode == idle) return error(&e->base, KINORA_ERROR_UNSUPPORTED, "it does not run yet");
  if (p->n_stages > 2) return error(&e->base, KINORA_ERROR_UNSUPPORTED, "two stages at most");
  for (uint32_t i = 0; i < p->n_stages && status == KINORA_OK; ++i) {
    stages[i] = p->stages[i]->stage->create(e->base.host, p->stages[i]->options);
    if (!stages[i]) status = KINORA_ERROR_FAILED;
  }
  if (status == KINORA_OK) status = run_inputs(e, p, run, stages);
  for (uint32_t i = 0; i < p->n_stages; ++i)
    if (stages[i]) p->stages[i]->stage->destroy(stages[i]);
  return status;
}

static void* create(const kinora_host* host, int mode) {
  const kinora_samples_api* samples = host->get_interface(host, KINORA_INTERFACE_SAMPLES, 0);
  if (!samples) return NULL;
  engine* e = calloc(1, sizeof *e);
  if (!e) return host->set_error(host, KINORA_ERROR_NO_MEMORY, "no memory"), NULL;
  e->base.host = host;
  e->base.mode = mode;
  e->samples = samples;
  return e;
}

#define ENGINE(MODE)                                                                 \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given) { \
    (void)given;                                                                     \
    return create(host, MODE);                                                       \
  }                                                                                  \
  static const kinora_engine table_##MODE = {sizeof(kinora_engine), 0, create_##MODE, destroy, run_pipeline};
ENGINE(none)
ENGINE(lost)
ENGINE(again)
ENGINE(early)
ENGINE(leak)
ENGINE(deaf)
ENGINE(idle)
ENGINE(careless)
#define ONE(MODE) COMPONENT("engine", KINORA_INTERFACE_ENGINE, MODE, NULL)
BROKEN_PLUGIN("engines", ONE(none), ONE(lost), ONE(again), ONE(early), ONE(leak), ONE(deaf), ONE(idle),
              ONE(careless))
