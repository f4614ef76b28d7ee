/* Keys and values of the latest tokens of each session, each cache with one defect. */
#include <stdio.h>

#include "kinora/abi/cache.h"
#include "tensors.h"

enum { none, nameless, hoarder, forgetful, careless, leak, mixed, half, lossy, writer, unaware };
/* Rows of all sessions, sessions with pins, tokens, bytes of a token. */
enum { most = 64, most_pins = 8, window = 16, key_size = 2 * 2 * 2 * 8 };

typedef struct rows {
  char name[64];
  uint64_t session;
  uint32_t branch;
  int64_t n;
  kinora_tensor part[3]; /* keys, values, table */
} rows;

typedef struct cache {
  with_tensors base;
  const kinora_chain* chain;
  kinora_context context;
  kinora_link link;
  rows all[most];
  int n_all;
  struct {
    uint64_t session;
    int64_t tokens; /* the first ones */
  } pins[most_pins];
  int n_pins;
  int64_t peak; /* bytes */
} cache;

static int32_t bind(void* me, const kinora_chain* chain) {
  ((cache*)me)->chain = chain;
  return KINORA_OK;
}

static rows* find(cache* c, const char* name, uint64_t session, uint32_t branch) {
  if (c->base.base.mode == nameless) name = "";
  for (int i = 0; i < c->n_all; ++i)
    if (c->all[i].session == session && c->all[i].branch == branch && !strcmp(c->all[i].name, name))
      return &c->all[i];
  if (c->n_all == most) abort();
  rows* r = &c->all[c->n_all++];
  strncpy(r->name, name, sizeof r->name - 1);
  r->session = session;
  r->branch = branch;
  return r;
}

/* The number of tokens that are pinned in a session. */
static int64_t* pinned_of(cache* c, uint64_t session) {
  int at = 0;
  while (at < c->n_pins && c->pins[at].session != session) ++at;
  if (at == most_pins) abort();
  if (at == c->n_pins) c->pins[c->n_pins++].session = session;
  return &c->pins[at].tokens;
}

/* `part` becomes tokens [first, first + n) of itself. */
static int32_t narrow(const cache* c, kinora_tensor* part, int64_t first, int64_t n) {
  const kinora_value in[] = {of_tensor(*part), of_int(1), of_int(first), of_int(n)};
  kinora_tensor made = NULL;
  const int32_t status = call_op(&c->base, "aten::narrow", "", in, 4, &made);
  if (status != KINORA_OK) return status;
  c->base.tensors->release(*part);
  *part = made;
  return KINORA_OK;
}

/* `part` followed by `more`, which is borrowed. */
static int32_t append(const cache* c, kinora_tensor* part, kinora_tensor more) {
  const kinora_tensor both[] = {*part, more};
  const kinora_value in[] = {{.kind = KINORA_VALUE_TENSORS, .list = both, .n = 2}, of_int(1)};
  kinora_tensor made = NULL;
  if (!*part) return c->base.tensors->retain(more, part);
  const int32_t status = call_op(&c->base, "aten::cat", "", in, 2, &made);
  if (status != KINORA_OK) return status;
  c->base.tensors->release(*part);
  *part = made;
  return KINORA_OK;
}

/* Keeps the first `from` tokens and the last n of the rest. */
static int32_t keep_ends(const cache* c, rows* r, int64_t from, int64_t n) {
  for (int i = 0; i < 3; ++i) {
    kinora_tensor end = NULL;
    int32_t status = c->base.tensors->retain(r->part[i], &end);
    if (status == KINORA_OK) status = narrow(c, &end, r->n - n, n);
    if (status == KINORA_OK) status = narrow(c, &r->part[i], 0, from);
    if (status == KINORA_OK) status = append(c, &r->part[i], end);
    c->base.tensors->release(end);
    if (status != KINORA_OK) return status;
  }
  r->n = from + n;
  return KINORA_OK;
}

/* Drops the tokens of INDEX `end` and more. */
static int32_t trim_rows(const cache* c, rows* r, int64_t end) {
  kinora_tensor_info info = {.struct_size = sizeof info};
  void* data = NULL;
  int64_t n = 0;
  if (r->n == 0) return KINORA_OK;
  c->base.tensors->info(r->part[2], &info);
  const int32_t status = c->base.tensors->data(r->part[2], &data);
  if (status != KINORA_OK) return status;
  while (n < r->n && ((int64_t*)data)[n * info.strides[1] + KINORA_TOKEN_INDEX] < end) ++n;
  for (int i = 0; i < 3; ++i)
    if (narrow(c, &r->part[i], 0, n) != KINORA_OK) return KINORA_ERROR_FAILED;
  r->n = n;
  return KINORA_OK;
}

static void drop(const cache* c, rows* r) {
  for (int i = 0; i < 3; ++i) {
    c->base.tensors->release(r->part[i]);
    r->part[i] = NULL;
  }
  r->n = 0;
}

/* Second handles to the rows. */
static int32_t share(const cache* c, const rows* r, rows* out) {
  for (int i = 0; i < 3 && r->n > 0; ++i)
    if (c->base.tensors->retain(r->part[i], &out->part[i]) != KINORA_OK) return KINORA_ERROR_FAILED;
  out->n = r->n;
  return KINORA_OK;
}

static int32_t attention(void* me, kinora_tensor q, kinora_tensor k, kinora_tensor v,
                         const kinora_attention* how, kinora_tensor* out) {
  cache* c = me;
  const kinora_context* next = c->chain->next;
  const kinora_tensor given[] = {k, v, how->k_table};
  kinora_pass pass = {.struct_size = sizeof pass};
  kinora_tensor_info info = {.struct_size = sizeof info};
  void* data = NULL;
  if (how->needs && c->base.base.mode != unaware)
    return error(&c->base.base, KINORA_ERROR_UNSUPPORTED, "needs of the attention");
  c->base.tensors->info(k, &info);
  if (info.requires_grad && c->base.base.mode != careless)
    return error(&c->base.base, KINORA_ERROR_INVALID, "a cache is for passes without gradients");
  const int64_t n = info.shape[1];
  int32_t status = c->chain->get_pass(c->chain->self, &pass);
  if (status == KINORA_OK) status = c->base.tensors->data(how->k_table, &data);
  if (status != KINORA_OK) return status;
  rows *r = find(c, how->name, pass.session, pass.branch), seen = {.n = 0};
  const int64_t pinned = c->base.base.mode == forgetful ? 0 : *pinned_of(c, pass.session);
  status = share(c, r, &seen);
  if (status == KINORA_OK) status = trim_rows(c, &seen, ((int64_t*)data)[KINORA_TOKEN_INDEX]);
  if (status == KINORA_OK && seen.n + n > window + pinned) status = keep_ends(c, &seen, pinned, window - n);
  for (int i = 0; i < 3 && status == KINORA_OK; ++i) status = append(c, &seen.part[i], given[i]);
  seen.n += n;
  kinora_attention longer = *how;
  longer.k_table = seen.part[2];
  if (status == KINORA_OK) status = next->attention(next->self, q, seen.part[0], seen.part[1], &longer, out);
  if (status == KINORA_OK && (!pass.read_only || c->base.base.mode == writer)) {
    drop(c, r);
    status = share(c, &seen, r);
  }
  drop(c, &seen);
  return status;
}

static void* create(const kinora_host* host, int mode) {
  cache* c = make_with_tensors(host, mode, sizeof *c);
  if (!c) return NULL;
  c->context = (kinora_context){.struct_size = sizeof c->context, .self = c, .attention = attention};
  c->link = (kinora_link){
      .struct_size = sizeof c->link, .level = KINORA_LEVEL_CACHE, .context = &c->context, .bind = bind};
  return c;
}
static void destroy_cache(void* me) {
  cache* c = me;
  for (int i = 0; i < c->n_all && c->base.base.mode != leak; ++i) drop(c, &c->all[i]);
  destroy(c);
}

static int32_t own_link(void* me, const kinora_link** out) {
  *out = &((cache*)me)->link;
  return KINORA_OK;
}
static int32_t tokens(void* me, uint64_t session, uint32_t branch, int64_t* out) {
  const cache* c = me;
  *out = 0;
  for (int i = 0; i < c->n_all; ++i)
    if (c->all[i].session == session && c->all[i].branch == branch && c->all[i].n > *out) *out = c->all[i].n;
  return KINORA_OK;
}
static int32_t bytes(void* me, uint64_t session, int64_t* out) {
  cache* c = me;
  int64_t now = 0;
  for (int i = 0; i < c->n_all; ++i)
    if (c->all[i].session == session) now += c->all[i].n * key_size;
  if (now > c->peak) c->peak = now;
  *out = c->base.base.mode == hoarder ? c->peak : now;
  return KINORA_OK;
}
static int32_t reset(void* me, uint64_t session, uint32_t branch) {
  cache* c = me;
  for (int i = 0; i < c->n_all; ++i)
    if ((c->all[i].session == session || c->base.base.mode == mixed) &&
        (branch == KINORA_BRANCH_ALL || c->all[i].branch == branch))
      drop(c, &c->all[i]);
  if (branch == KINORA_BRANCH_ALL) *pinned_of(c, session) = 0;
  return KINORA_OK;
}
static int32_t trim(void* me, uint64_t session, uint32_t branch, int64_t end) {
  cache* c = me;
  int32_t status = KINORA_OK;
  for (int i = 0; i < c->n_all && status == KINORA_OK; ++i)
    if (c->all[i].session == session && (branch == KINORA_BRANCH_ALL || c->all[i].branch == branch))
      status = trim_rows(c, &c->all[i], end);
  return status;
}
static int32_t pin(void* me, uint64_t session, int64_t first, int64_t count) {
  cache* c = me;
  if (first != 0)
    return error(&c->base.base, KINORA_ERROR_UNSUPPORTED, "only the first tokens can be pinned");
  *pinned_of(c, session) = count;
  return KINORA_OK;
}
static int32_t unpin(void* me, uint64_t session, int64_t first, int64_t count) {
  cache* c = me;
  if (first != 0 || count < *pinned_of(c, session))
    return error(&c->base.base, KINORA_ERROR_UNSUPPORTED, "all tokens are unpinned at once");
  *pinned_of(c, session) = 0;
  return KINORA_OK;
}
static int32_t copy(void* me, uint64_t from, uint64_t to) {
  cache* c = me;
  int32_t status = KINORA_OK;
  const int last = c->n_all;
  if (from == to) return KINORA_OK;
  for (int i = 0; i < last; ++i)
    if (c->all[i].session == to) drop(c, &c->all[i]);
  for (int i = 0; i < last && status == KINORA_OK; ++i) {
    const rows* r = &c->all[i];
    if (r->session != from || (c->base.base.mode == half && r->branch > 0)) continue;
    status = share(c, r, find(c, r->name, to, r->branch));
  }
  *pinned_of(c, to) = *pinned_of(c, from);
  return status;
}

/* Names are BRANCH PART ATTENTION; "pinned" is one number. */
static int32_t save(void* me, uint64_t session, void* to, int32_t (*take)(void*, const kinora_named*)) {
  cache* c = me;
  const int64_t one = 1;
  void* data = NULL;
  kinora_named given = {.name = "pinned"};
  int32_t status = c->base.tensors->empty(&one, 1, KINORA_DTYPE_INT64, NULL, &given.tensor);
  if (status == KINORA_OK) status = c->base.tensors->data(given.tensor, &data);
  if (status != KINORA_OK) return status;
  *(int64_t*)data = *pinned_of(c, session);
  status = take(to, &given);
  c->base.tensors->release(given.tensor);
  for (int i = 0; i < c->n_all; ++i)
    for (int part = 0; part < 3 && c->all[i].session == session && c->all[i].n > 0; ++part) {
      char name[96];
      snprintf(name, sizeof name, "%u %d %s", c->all[i].branch, part, c->all[i].name);
      given = (kinora_named){name, c->all[i].part[part]};
      if (status == KINORA_OK) status = take(to, &given);
    }
  return status;
}
static int32_t restore(void* me, uint64_t session, const kinora_named* in, uint64_t n_in) {
  cache* c = me;
  void* data = NULL;
  int32_t status = KINORA_OK;
  unsigned branch = 0;
  int part = 0, end = 0;
  for (uint64_t i = 0; i < n_in; ++i)
    if (strcmp(in[i].name, "pinned") &&
        (sscanf(in[i].name, "%u %d %n", &branch, &part, &end) != 2 || part > 2))
      return error(&c->base.base, KINORA_ERROR_INVALID, "this is no tensor of save()");
  reset(me, session, KINORA_BRANCH_ALL);
  for (uint64_t i = 0; i < n_in && status == KINORA_OK; ++i) {
    const kinora_value from = of_tensor(in[i].tensor);
    if (!strcmp(in[i].name, "pinned")) {
      status = c->base.tensors->data(in[i].tensor, &data);
      if (status == KINORA_OK) *pinned_of(c, session) = *(int64_t*)data;
      continue;
    }
    sscanf(in[i].name, "%u %d %n", &branch, &part, &end);
    rows* r = find(c, in[i].name + end, session, branch);
    kinora_tensor_info info = {.struct_size = sizeof info};
    const char* made_by = c->base.base.mode == lossy && part == 1 ? "aten::zeros_like" : "aten::clone";
    status = call_op(&c->base, made_by, "", &from, 1, &r->part[part]);
    if (status == KINORA_OK) status = c->base.tensors->info(r->part[part], &info);
    if (status == KINORA_OK) r->n = info.shape[1];
  }
  return status;
}

#define CACHE(MODE)                                                                                    \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given, int64_t expected) { \
    (void)given, (void)expected;                                                                       \
    return create(host, MODE);                                                                         \
  }                                                                                                    \
  static const kinora_cache table_##MODE = {sizeof(kinora_cache),                                      \
                                            0,                                                         \
                                            create_##MODE,                                             \
                                            destroy_cache,                                             \
                                            own_link,                                                  \
                                            tokens,                                                    \
                                            bytes,                                                     \
                                            reset,                                                     \
                                            trim,                                                      \
                                            pin,                                                       \
                                            unpin,                                                     \
                                            copy,                                                      \
                                            save,                                                      \
                                            restore};
CACHE(none)
CACHE(nameless)
CACHE(hoarder)
CACHE(forgetful)
CACHE(careless)
CACHE(leak)
CACHE(mixed)
CACHE(half)
CACHE(lossy)
CACHE(writer)
CACHE(unaware)
#define ONE(MODE) COMPONENT("cache", KINORA_INTERFACE_CACHE, MODE, NULL)
BROKEN_PLUGIN("caches", ONE(none), ONE(nameless), ONE(hoarder), ONE(forgetful), ONE(careless), ONE(leak),
              ONE(mixed), ONE(half), ONE(lossy), ONE(writer), ONE(unaware))
