/* Two stages of a later minor, whose kinora_component has one more member. */
#include "minimal_stage.h"
typedef struct later_component {
  kinora_component today;
  uint64_t grown;
} later_component;
static const later_component components[] = {
    {{sizeof(later_component), 0, "stage/minimal", KINORA_INTERFACE_STAGE, &minimal_stage, NULL, NULL}, 7},
    {{sizeof(later_component), 0, "stage/second", KINORA_INTERFACE_STAGE, &minimal_stage, NULL, NULL}, 7}};
static const kinora_plugin plugin = {sizeof(kinora_plugin), 1, 0, 2, "wide_components", "0.1.0",
                                     &components[0].today};
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host);
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host) {
  (void)host;
  return &plugin;
}
