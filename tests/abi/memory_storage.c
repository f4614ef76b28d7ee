/* storage/memory: a few small objects in this process, for tests of kinora.io/1. Not for use from several
 * threads. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinora/abi/plugin.h"
#include "kinora/abi/storage.h"

#define OBJECTS 16
typedef struct object {
  char name[64];
  char* data;
  uint64_t size;
} object;
static object objects[OBJECTS];
static const kinora_host* host;

static int32_t error(int32_t code, const char* message) {
  host->set_error(host, code, message);
  return code;
}
static object* find(kinora_str path) {
  for (int i = 0; i < OBJECTS; ++i)
    if (objects[i].data && strlen(objects[i].name) == path.size &&
        memcmp(objects[i].name, path.data, path.size) == 0)
      return &objects[i];
  return NULL;
}
static void* create(const kinora_host* h, const kinora_options* options) {
  (void)options;
  return (void*)h;
}
static void destroy(void* self) { (void)self; }
static atomic_int interrupts;
static void interrupt(void* self) {
  (void)self;
  ++interrupts;
}
/* The object "interrupts" is how often the host called interrupt(). */
static int32_t open_object(void* self, kinora_str path, void** reader, uint64_t* size) {
  static char number[16];
  static object count = {"interrupts", number, 0};
  object* o = find(path);
  if (path.size == 10 && memcmp(path.data, "interrupts", 10) == 0) {
    count.size = (uint64_t)snprintf(number, sizeof number, "%d", (int)interrupts);
    o = &count;
  }
  (void)self;
  if (!o) return error(KINORA_ERROR_NOT_FOUND, "memory: no such object");
  *reader = o;
  *size = o->size;
  return KINORA_OK;
}
static int32_t read_object(void* self, void* reader, uint64_t offset, void* to, uint64_t size,
                           uint64_t* got) {
  const object* o = reader;
  (void)self;
  *got = offset >= o->size ? 0 : o->size - offset < size ? o->size - offset : size;
  memcpy(to, o->data + (*got ? offset : 0), *got);
  return KINORA_OK;
}
static void close_object(void* self, void* reader) { (void)self, (void)reader; }
static int32_t begin(void* self, kinora_str path, void** writer) {
  object* w = calloc(1, sizeof *w);
  (void)self;
  if (!w || path.size >= sizeof w->name)
    return free(w), error(KINORA_ERROR_NO_MEMORY, "memory: no room for a name");
  memcpy(w->name, path.data, path.size);
  *writer = w;
  return KINORA_OK;
}
static int32_t append(void* self, void* writer, const void* data, uint64_t size) {
  object* w = writer;
  char* grown = realloc(w->data, w->size + size + 1);
  (void)self;
  if (!grown) return error(KINORA_ERROR_NO_MEMORY, "memory: full");
  memcpy(grown + w->size, data, size);
  w->data = grown;
  w->size += size;
  return KINORA_OK;
}
static void abort_writer(void* self, void* writer) {
  (void)self;
  free(((object*)writer)->data);
  free(writer);
}
static int32_t commit(void* self, void* writer) {
  object* w = writer;
  const kinora_str name = {w->name, strlen(w->name)};
  object* to = find(name);
  for (int i = 0; !to && i < OBJECTS; ++i)
    if (!objects[i].data) to = &objects[i];
  if (!to) return abort_writer(self, writer), error(KINORA_ERROR_NO_MEMORY, "memory: full");
  free(to->data);
  *to = *w;
  free(w);
  return KINORA_OK;
}
static int32_t list(void* self, kinora_str path, void* user,
                    int32_t (*each)(void* user, const kinora_entry*)) {
  (void)self;
  for (int i = 0; i < OBJECTS; ++i) {
    const size_t length = strlen(objects[i].name);
    if (!objects[i].data || length <= path.size || memcmp(objects[i].name, path.data, path.size) != 0)
      continue;
    const kinora_entry entry = {
        sizeof entry, 0, {objects[i].name + path.size + 1, length - path.size - 1}, objects[i].size, 0};
    const int32_t status = each(user, &entry);
    if (status != KINORA_OK) return status;
  }
  return KINORA_OK;
}
static int32_t remove_object(void* self, kinora_str path) {
  object* o = find(path);
  (void)self;
  if (!o) return error(KINORA_ERROR_NOT_FOUND, "memory: no such object");
  free(o->data);
  memset(o, 0, sizeof *o);
  return KINORA_OK;
}

static const kinora_storage table = {.struct_size = sizeof(kinora_storage),
                                     .create = create,
                                     .destroy = destroy,
                                     .open = open_object,
                                     .read = read_object,
                                     .close = close_object,
                                     .begin = begin,
                                     .append = append,
                                     .commit = commit,
                                     .abort = abort_writer,
                                     .list = list,
                                     .remove = remove_object,
                                     .interrupt = interrupt};
static const kinora_component component = {
    sizeof(kinora_component), 0, "storage/memory", KINORA_INTERFACE_STORAGE, &table, NULL, NULL};
static const kinora_plugin plugin = {sizeof(kinora_plugin), 1, 0, 1, "memory_storage", "0.1.0", &component};

KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* h);
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* h) {
  host = h;
  return &plugin;
}
