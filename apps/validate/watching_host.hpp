// The host that `kinora plugins validate` shows to a plugin: the program's own, which also counts what the
// plugin takes and does not return, notes which options it reads, and can be larger or offer less. One per
// process, as for any plugin; any thread may call it.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "kinora/abi/host.h"

namespace kinora {

struct Watch {
  std::atomic<int64_t> samples = 0, tensors = 0;  // references that were taken and not returned
  std::mutex lock;                                // guards the next three
  std::set<std::string> options_read;
  bool all_options_read = false;
  std::string refused_option;   // the first that the host could not give: "'eta' as a float"
  bool options_fail = false;    // every option is refused
  bool offers_nothing = false;  // a host without any interface
  // Names the call into the plugin that begins now: the verdict if it ends the process or never returns.
  std::function<void(const std::string&)> now = [](const std::string&) {};
};
Watch& watch();

const kinora_host& watching_host();

// From now on the host's tables are larger than the plugin knows, as those of a later minor version.
void grow_host();
// "" or the table that the plugin wrote to.
std::string written_table();

}  // namespace kinora
