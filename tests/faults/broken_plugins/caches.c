/* Keys and values of the latest tokens of one video, each cache with one defect. */
#include "kinora/abi/cache.h"
#include "tensors.h"

enum { none, nameless, hoarder, forgetful, careless, leak };
enum { most = 4, window = 16, key_size = 2 * 3 * 2 * 8 }; /* attentions, tokens, bytes of a token */

typedef struct rows {
  char name[64];
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
  int64_t pinned, peak; /* the first tokens; bytes */
} cache;

static int32_t bind(void* me, const kinora_chain* chain) {
  ((cache*)me)->chain = chain;
  return KINORA_OK;
}

static rows* find(cache* c, const char* name, uint32_t branch) {
  if (c->base.base.mode == nameless) name = "";
  for (int i = 0; i < c->n_all; ++i)
    if (c->all[i].branch == branch && !strcmp(c->all[i].name, name)) return &c->all[i];
  if (c->n_all == most) abort();
  rows* r = &c->all[c->n_all++];
  strncpy(r->name, name, sizeof r->name - 1);
  r->branch = branch;
  return r;
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

static int32_t attention(void* me, kinora_tensor q, kinora_tensor k, kinora_tensor v,
                         const kinora_attention* how, kinora_tensor* out) {
  cache* c = me;
  const kinora_context* next = c->chain->next;
  const kinora_tensor given[] = {k, v, how->k_table};
  kinora_pass pass = {.struct_size = sizeof pass};
  kinora_tensor_info info = {.struct_size = sizeof info};
  void* data = NULL;
  c->base.tensors->info(k, &info);
  if (info.requires_grad && c->base.base.mode != careless)
    return error(&c->base.base, KINORA_ERROR_INVALID, "a cache is for passes without gradients");
  const int64_t n = info.shape[1];
  int32_t status = c->chain->get_pass(c->chain->self, &pass);
  if (status == KINORA_OK) status = c->base.tensors->data(how->k_table, &data);
  if (status != KINORA_OK) return status;
  rows* r = find(c, how->name, pass.branch);
  const int64_t pinned = c->base.base.mode == forgetful ? 0 : c->pinned;
  status = trim_rows(c, r, ((int64_t*)data)[KINORA_TOKEN_INDEX]);
  if (status == KINORA_OK && r->n + n > window + pinned) status = keep_ends(c, r, pinned, window - n);
  for (int i = 0; i < 3 && status == KINORA_OK; ++i) status = append(c, &r->part[i], given[i]);
  if (status != KINORA_OK) return status;
  r->n += n;
  kinora_attention longer = *how;
  longer.k_table = r->part[2];
  return next->attention(next->self, q, r->part[0], r->part[1], &longer, out);
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
static int32_t tokens(void* me, uint32_t branch, int64_t* out) {
  const cache* c = me;
  *out = 0;
  for (int i = 0; i < c->n_all; ++i)
    if (c->all[i].branch == branch && c->all[i].n > *out) *out = c->all[i].n;
  return KINORA_OK;
}
static int32_t bytes(void* me, int64_t* out) {
  cache* c = me;
  int64_t now = 0;
  for (int i = 0; i < c->n_all; ++i) now += c->all[i].n * key_size;
  if (now > c->peak) c->peak = now;
  *out = c->base.base.mode == hoarder ? c->peak : now;
  return KINORA_OK;
}
static int32_t reset(void* me, uint32_t branch) {
  cache* c = me;
  for (int i = 0; i < c->n_all; ++i)
    if (branch == KINORA_BRANCH_ALL || c->all[i].branch == branch) drop(c, &c->all[i]);
  if (branch == KINORA_BRANCH_ALL) c->pinned = 0;
  return KINORA_OK;
}
static int32_t trim(void* me, uint32_t branch, int64_t end) {
  cache* c = me;
  int32_t status = KINORA_OK;
  for (int i = 0; i < c->n_all && status == KINORA_OK; ++i)
    if (branch == KINORA_BRANCH_ALL || c->all[i].branch == branch) status = trim_rows(c, &c->all[i], end);
  return status;
}
static int32_t pin(void* me, int64_t first, int64_t count) {
  cache* c = me;
  if (first != 0)
    return error(&c->base.base, KINORA_ERROR_UNSUPPORTED, "only the first tokens can be pinned");
  c->pinned = count;
  return KINORA_OK;
}

#define CACHE(MODE)                                                                                    \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given, int64_t expected) { \
    (void)given, (void)expected;                                                                       \
    return create(host, MODE);                                                                         \
  }                                                                                                    \
  static const kinora_cache table_##MODE = {                                                           \
      sizeof(kinora_cache), 0, create_##MODE, destroy_cache, own_link, tokens, bytes, reset, trim, pin};
CACHE(none)
CACHE(nameless)
CACHE(hoarder)
CACHE(forgetful)
CACHE(careless)
CACHE(leak)
#define ONE(MODE) COMPONENT("cache", KINORA_INTERFACE_CACHE, MODE, NULL)
BROKEN_PLUGIN("caches", ONE(none), ONE(nameless), ONE(hoarder), ONE(forgetful), ONE(careless), ONE(leak))
