/* A stage, and a component of a kind that only a later Kinora knows. */
#include "minimal_stage.h"
static const kinora_component components[] = {
    {sizeof(kinora_component), 0, "reward/taste", "kinora.reward/1", NULL, NULL, NULL},
    {sizeof(kinora_component), 0, "stage/minimal", KINORA_INTERFACE_STAGE, &minimal_stage, NULL, NULL}};
static const kinora_plugin plugin = {sizeof(kinora_plugin), 1, 0, 2, "two_kinds", "0.1.0", components};
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host);
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host) {
  (void)host;
  return &plugin;
}
