/* canary LIBRARY: a small host that lets the components of a plugin fill its structs in, and looks at the
 * memory behind them. Prints "ID: STRUCT BYTES of BYTES" for each, what was written and the room there was;
 * ends with 1 if more was written. growth.py builds this host and the plugin with headers of different
 * minors. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "kinora/abi/plugin.h"
#include "kinora/abi/stage.h"
#include "kinora/abi/tokenizer.h"

static int32_t count(const kinora_options* o, const char* name, int64_t* out) {
  (void)o, (void)name;
  *out = 1;
  return KINORA_OK;
}
static int32_t get_int(const kinora_options* o, const char* name, int64_t i, int64_t* out) {
  (void)i;
  return count(o, name, out);
}
static int32_t get_float(const kinora_options* o, const char* name, int64_t i, double* out) {
  (void)o, (void)name, (void)i;
  *out = 1;
  return KINORA_OK;
}
static int32_t get_string(const kinora_options* o, const char* name, int64_t i, kinora_str* out) {
  (void)o, (void)name, (void)i;
  *out = (kinora_str){"mp4", 3};
  return KINORA_OK;
}
static const kinora_options_api options = {.struct_size = sizeof options,
                                           .count = count,
                                           .get_int = get_int,
                                           .get_float = get_float,
                                           .get_string = get_string};
static const kinora_samples_api samples = {.struct_size = sizeof samples}; /* only asked for */

static void set_error(const kinora_host* h, int32_t code, const char* message) {
  (void)h;
  fprintf(stderr, "error %d: %s\n", (int)code, message);
}
static kinora_str last_error(const kinora_host* h) {
  (void)h;
  return (kinora_str){"", 0};
}
static const void* get_interface(const kinora_host* h, const char* id, uint32_t minor) {
  (void)h, (void)minor;
  if (!strcmp(id, KINORA_INTERFACE_OPTIONS)) return &options;
  return strcmp(id, KINORA_INTERFACE_SAMPLES) ? NULL : (const void*)&samples;
}
static const kinora_host host = {.struct_size = sizeof host,
                                 .abi_major = KINORA_ABI_MAJOR,
                                 .abi_minor = KINORA_ABI_MINOR,
                                 .set_error = set_error,
                                 .last_error = last_error,
                                 .get_interface = get_interface};

/* Room for a struct, followed by bytes of one value; whether those behind it are still there. */
static _Alignas(16) unsigned char room[512];
static void* prepared(uint32_t size) {
  memset(room, 0xA5, sizeof room);
  memcpy(room, &size, sizeof size);
  return room;
}
static int is_kept(const char* id, const char* type, uint32_t size, int32_t status) {
  uint32_t written;
  memcpy(&written, room, sizeof written);
  printf("%s: %s %u of %u\n", id, type, (unsigned)written, (unsigned)size);
  for (size_t i = size; i < sizeof room; ++i)
    if (room[i] != 0xA5) status = KINORA_ERROR_FAILED;
  return status == KINORA_OK && written <= size;
}
static int keeps(const kinora_component* c) {
  if (!strcmp(c->interface_id, KINORA_INTERFACE_STAGE)) {
    const kinora_stage* stage = c->api;
    void* self = stage->create(&host, NULL);
    const int32_t status =
        self ? stage->resources(self, prepared(sizeof(kinora_resources))) : KINORA_ERROR_FAILED;
    return is_kept(c->id, "kinora_resources", sizeof(kinora_resources), status);
  }
  if (!strcmp(c->interface_id, KINORA_INTERFACE_TOKENIZER)) {
    const kinora_tokenizer* tokenizer = c->api;
    void* self = tokenizer->create(&host, NULL, NULL);
    const int32_t status =
        self ? tokenizer->info(self, prepared(sizeof(kinora_tokenizer_info))) : KINORA_ERROR_FAILED;
    return is_kept(c->id, "kinora_tokenizer_info", sizeof(kinora_tokenizer_info), status);
  }
  return 1;
}

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  kinora_plugin_entry_fn entry = NULL;
  if (library) *(void**)&entry = dlsym(library, KINORA_PLUGIN_ENTRY);
  const kinora_plugin* plugin = entry ? entry(&host) : NULL;
  if (!plugin) return fprintf(stderr, "%s\n", library ? "no entry" : dlerror()), 2;
  int kept = 1;
  for (uint32_t i = 0; i < plugin->n_components; ++i) {
    const char* at = (const char*)plugin->components + (size_t)i * plugin->components->struct_size;
    kept &= keeps((const kinora_component*)at);
  }
  return !kept;
}
