// The registry's data about a plugin. Private to scan.cpp and registry.cpp.
#pragma once
#include <atomic>
#include <map>
#include <mutex>

#include "core/plugin/registry.hpp"

namespace kinora::core {

struct Registry::Entry {
  PluginInfo info;  // state and reason are guarded by Locks::state, the rest is constant after scan()
  std::map<const ComponentSpec*, const void*> apis;  // written before `loaded`
  std::atomic<bool> loaded = false;
};

struct Registry::Locks {
  std::mutex state;
  // One plugin is opened at a time. Recursive: a plugin's entry may read a file, which opens a storage
  // plugin.
  std::recursive_mutex load;
};

}  // namespace kinora::core
