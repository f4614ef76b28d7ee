/* Its entry function finds that it cannot work here, and reports why. */
#include "kinora/abi/plugin.h"
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host);
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host) {
  host->set_error(host, KINORA_ERROR_UNSUPPORTED, "no machine with a flux capacitor; install one");
  return NULL;
}
