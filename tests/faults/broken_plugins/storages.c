/* Storages of one object in memory, each with one defect. */
#include <stdio.h>

#include "broken.h"
#include "kinora/abi/storage.h"

enum { none, curt, missing, shared, blind };

static struct {
  char path[512];
  char* data;
  uint64_t size;
  char tag[16];
} object;
static unsigned versions;

static int is_it(kinora_str path) {
  return object.data && strlen(object.path) == path.size && !memcmp(object.path, path.data, path.size);
}
static int32_t absent(const instance* self) {
  return self->mode == missing ? error(self, KINORA_ERROR_FAILED, "something is wrong")
                               : error(self, KINORA_ERROR_NOT_FOUND, "no such object");
}

static int32_t open_(void* self, kinora_str path, void** reader, uint64_t* size) {
  if (!is_it(path)) return absent(self);
  *reader = &object;
  *size = object.size;
  return KINORA_OK;
}
static int32_t read_(void* me, void* reader, uint64_t offset, void* to, uint64_t size, uint64_t* got) {
  static volatile uint64_t position = 0;
  const instance* self = me;
  (void)reader;
  const uint64_t end = self->mode == curt && object.size ? object.size - 1 : object.size;
  *got = offset >= end ? 0 : end - offset < size ? end - offset : size;
  position = offset;
  if (self->mode == shared) usleep(20);
  memcpy(to, object.data + (*got ? (self->mode == shared ? position : offset) : 0), *got);
  return KINORA_OK;
}
static void close_(void* self, void* reader) { (void)self, (void)reader; }

typedef struct writer {
  char path[512];
  char* data;
  uint64_t size;
} writer;
static int32_t begin(void* self, kinora_str path, void** out) {
  writer* w = calloc(1, sizeof *w);
  if (!w || path.size >= sizeof w->path || !(w->data = malloc(1)))
    return free(w), error(self, KINORA_ERROR_NO_MEMORY, "no memory, or a long path");
  memcpy(w->path, path.data, path.size);
  *out = w;
  return KINORA_OK;
}
static int32_t append(void* self, void* to, const void* data, uint64_t size) {
  writer* w = to;
  char* grown = realloc(w->data, w->size + size + 1);
  if (!grown) return error(self, KINORA_ERROR_NO_MEMORY, "no memory");
  memcpy(grown + w->size, data, size);
  w->data = grown;
  w->size += size;
  return KINORA_OK;
}
static void abort_(void* self, void* to) {
  (void)self;
  free(((writer*)to)->data);
  free(to);
}
static int32_t commit(void* self, void* to) {
  writer* w = to;
  (void)self;
  free(object.data);
  memcpy(object.path, w->path, sizeof object.path);
  object.data = w->data;
  object.size = w->size;
  snprintf(object.tag, sizeof object.tag, "%u", ++versions);
  free(w);
  return KINORA_OK;
}
static int32_t list(void* self, kinora_str path, void* user, int32_t (*each)(void*, const kinora_entry*)) {
  (void)path, (void)user, (void)each;
  return absent(self);
}
static int32_t remove_(void* self, kinora_str path) {
  if (!is_it(path)) return absent(self);
  free(object.data);
  object.data = NULL;
  return KINORA_OK;
}

static int holds(const instance* self, kinora_str path, kinora_str tag) {
  if (self->mode == blind) return 1;
  if (tag.size == 0) return !is_it(path);
  return is_it(path) && strlen(object.tag) == tag.size && !memcmp(object.tag, tag.data, tag.size);
}
static int32_t put_if(void* self, kinora_str path, kinora_bytes bytes, kinora_str tag, const kinora_sink* made) {
  char* data;
  if (!holds(self, path, tag)) return KINORA_SIGNAL_CONFLICT;
  if (path.size >= sizeof object.path || !(data = malloc(bytes.size + 1)))
    return error(self, KINORA_ERROR_NO_MEMORY, "no memory, or a long path");
  memcpy(data, bytes.data, bytes.size);
  free(object.data);
  memset(object.path, 0, sizeof object.path);
  memcpy(object.path, path.data, path.size);
  object.data = data;
  object.size = bytes.size;
  snprintf(object.tag, sizeof object.tag, "%u", ++versions);
  made->write(made->self, object.tag, strlen(object.tag));
  return KINORA_OK;
}
static int32_t read_small(void* self, kinora_str path, const kinora_sink* bytes, const kinora_sink* tag) {
  if (!is_it(path)) return absent(self);
  bytes->write(bytes->self, object.data, object.size);
  tag->write(tag->self, object.tag, strlen(object.tag));
  return KINORA_OK;
}
static int32_t remove_if(void* self, kinora_str path, kinora_str tag) {
  return is_it(path) && holds(self, path, tag) ? remove_(self, path) : KINORA_SIGNAL_CONFLICT;
}

#define STORAGE(MODE)                                                                \
  static void* create_##MODE(const kinora_host* host, const kinora_options* given) { \
    (void)given;                                                                     \
    return make(host, MODE);                                                         \
  }                                                                                  \
  static const kinora_storage table_##MODE = {.struct_size = sizeof(kinora_storage), \
                                              .create = create_##MODE,               \
                                              .destroy = destroy,                    \
                                              .open = open_,                         \
                                              .read = read_,                         \
                                              .close = close_,                       \
                                              .begin = begin,                        \
                                              .append = append,                      \
                                              .commit = commit,                      \
                                              .abort = abort_,                       \
                                              .list = list,                          \
                                              .remove = remove_,                     \
                                              .put_if = put_if,                      \
                                              .read_small = read_small,              \
                                              .remove_if = remove_if};
STORAGE(none)
STORAGE(curt)
STORAGE(missing)
STORAGE(shared)
STORAGE(blind)
#define ONE(MODE) COMPONENT("storage", KINORA_INTERFACE_STORAGE, MODE, NULL)
BROKEN_PLUGIN("storages", ONE(none), ONE(curt), ONE(missing), ONE(shared), ONE(blind))
