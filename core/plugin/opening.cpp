#include "core/plugin/opening.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/log.hpp"

namespace kinora::core {

Component open_component(Registry& registry, std::string_view kind, std::string_view name, double seconds) {
  const PluginInfo plugin = or_throw(registry.plugin_of(or_throw(registry.find(kind, name))->id));
  const std::jthread notice([&](const std::stop_token& opened) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    if (std::condition_variable_any().wait_for(lock, opened, std::chrono::duration<double>(seconds),
                                               [&] { return opened.stop_requested(); }))
      return;
    log_warn(
        "waiting for plugin '{}' ({}) for {:g} s: it is still loading (a busy disk or processor?); if it never "
        "ends, interrupt this: its entry or a static constructor does not return; fix the plugin or leave it "
        "out",
        plugin.spec.name, plugin.library.string(), seconds);
  });
  return or_throw(registry.open(kind, name));
}

}  // namespace kinora::core
