/* Common parts of the broken plugins. Each component of them has one defect, its mode: create() of MODE makes an
 * instance of it, and the functions ask for the mode. NONE has no defect. */
#ifndef KINORA_TESTS_BROKEN_H
#define KINORA_TESTS_BROKEN_H
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kinora/abi/options.h"
#include "kinora/abi/plugin.h"

typedef struct instance {
  const kinora_host* host;
  int mode;
} instance;

static inline int32_t error(const instance* self, int32_t code, const char* message) {
  self->host->set_error(self->host, code, message);
  return code;
}

static inline void* make(const kinora_host* host, int mode) {
  instance* self = calloc(1, sizeof *self);
  if (!self) return host->set_error(host, KINORA_ERROR_NO_MEMORY, "no memory"), NULL;
  self->host = host;
  self->mode = mode;
  return self;
}
static inline void destroy(void* self) { free(self); }

/* The entry of a plugin with these components. tests/abi/frozen.py takes the first one alone. */
#define PLUGIN_OF(NAME, ...)                                                                     \
  static const kinora_component components[] = {__VA_ARGS__};                                    \
  static const kinora_plugin plugin = {                                                          \
      sizeof plugin, 1, 0, sizeof components / sizeof components[0], NAME, "0.1.0", components}; \
  KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host);               \
  KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host) {              \
    (void)host;                                                                                  \
    return &plugin;                                                                              \
  }
#ifndef BROKEN_PLUGIN
#define BROKEN_PLUGIN PLUGIN_OF
#endif
#define COMPONENT(KIND, INTERFACE, MODE, GET) \
  { sizeof(kinora_component), 0, KIND "/broken." #MODE, INTERFACE, &table_##MODE, NULL, GET }
#endif
