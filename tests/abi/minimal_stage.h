/* A stage in plain C that keeps every sample, for plugins with a defect elsewhere. */
#ifndef KINORA_TESTS_ABI_MINIMAL_STAGE_H
#define KINORA_TESTS_ABI_MINIMAL_STAGE_H
#include "kinora/abi/plugin.h"
#include "kinora/abi/stage.h"

/* Statements that a defect adds to these functions. */
#ifndef MINIMAL_IN_ENTRY
#define MINIMAL_IN_ENTRY (void)0
#endif
#ifndef MINIMAL_IN_CREATE
#define MINIMAL_IN_CREATE (void)0
#endif
#ifndef MINIMAL_IN_PROCESS
#define MINIMAL_IN_PROCESS (void)0
#endif
/* Members that a defect sets to another value. */
#ifndef MINIMAL_COMPONENT_RESERVED
#define MINIMAL_COMPONENT_RESERVED 0
#endif
#ifndef MINIMAL_TABLE_RESERVED
#define MINIMAL_TABLE_RESERVED 0
#endif
#ifndef MINIMAL_ORDERED
#define MINIMAL_ORDERED 0
#endif
#ifndef MINIMAL_ISOLATED
#define MINIMAL_ISOLATED 0
#endif

static void* minimal_create(const kinora_host* host, const kinora_options* options) {
  (void)options;
  MINIMAL_IN_CREATE;
  return (void*)host;
}
static void minimal_destroy(void* self) { (void)self; }
static int32_t minimal_resources(void* self, kinora_resources* out) {
  const kinora_resources one = {sizeof one, MINIMAL_ORDERED, 1.0, 0.0, 0, MINIMAL_ISOLATED, 0, 0, 0};
  (void)self;
  KINORA_FILL(out, &one);
  return KINORA_OK;
}
static int32_t minimal_process(void* self, kinora_sample* in, const kinora_emit* emit,
                               const kinora_run* run) {
  (void)self, (void)in, (void)emit;
  if (run->needs) return KINORA_ERROR_UNSUPPORTED;
  MINIMAL_IN_PROCESS;
  return KINORA_OK;
}
static const kinora_stage minimal_stage = {.struct_size = sizeof(kinora_stage),
                                           .reserved = MINIMAL_TABLE_RESERVED,
                                           .create = minimal_create,
                                           .destroy = minimal_destroy,
                                           .resources = minimal_resources,
                                           .process = minimal_process};

/* The entry's return value, from the fields that a defect may change. */
#define MINIMAL_PLUGIN(NAME, STRUCT_SIZE, MAJOR, MINOR, ID, INTERFACE, TABLE)                     \
  static const kinora_component minimal_component = {                                             \
      sizeof(kinora_component), MINIMAL_COMPONENT_RESERVED, ID, INTERFACE, TABLE, NULL, NULL};    \
  static const kinora_plugin minimal_plugin = {STRUCT_SIZE,       MAJOR, MINOR, 1, NAME, "0.1.0", \
                                               &minimal_component};                               \
  KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host);                \
  KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host) {               \
    (void)host;                                                                                   \
    MINIMAL_IN_ENTRY;                                                                             \
    return &minimal_plugin;                                                                       \
  }
#endif
