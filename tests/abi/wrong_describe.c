/* Its describe() writes an invalid component, which `kinora plugins manifest` has to refuse. */
#include "minimal_stage.h"
static int32_t wrong(const kinora_sink* out) {
  static const char text[] = "[[component]]\nid = 5\n";
  out->write(out->self, text, sizeof text - 1);
  return KINORA_OK;
}
static const kinora_component wrong_component = {
    sizeof(kinora_component), 0, "stage/minimal", KINORA_INTERFACE_STAGE, &minimal_stage, wrong, NULL};
static const kinora_plugin wrong_plugin = {
    sizeof(kinora_plugin), KINORA_ABI_MAJOR, 0, 1, "wrong_describe", "0.1.0", &wrong_component};
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host);
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host) {
  (void)host;
  return &wrong_plugin;
}
