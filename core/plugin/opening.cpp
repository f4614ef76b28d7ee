#include "core/plugin/opening.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/log.hpp"

namespace kinora::core {
namespace {

// "plugin 'a' (/plugins/a/liba.so)", of the component's plugin.
std::string plugin_of(const Registry& registry, const std::string& id) {
  const auto plugin = registry.plugin_of(id);
  return plugin ? fmt::format("plugin '{}' ({})", plugin->spec.name, plugin->library.string())
                : "the plugin of " + id;
}

// Logs that the component is still being opened, unless it is destroyed within so many seconds.
class Notice {
 public:
  Notice(const Registry& registry, const std::string& id, double seconds)
      : thread_([this, &registry, id, seconds] {
          std::unique_lock lock(mutex_);
          if (over_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return is_over_; })) return;
          log_warn(
              "waiting for {} for {:g} s: its entry or a static constructor does not return; if it never "
              "does, interrupt this, and fix the plugin or leave it out",
              plugin_of(registry, id), seconds);
        }) {}
  Notice(const Notice&) = delete;
  Notice& operator=(const Notice&) = delete;
  ~Notice() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace

Component open_component(Registry& registry, std::string_view kind, std::string_view name, double seconds) {
  const Notice notice(registry, or_throw(registry.find(kind, name))->id, seconds);
  return or_throw(registry.open(kind, name));
}

}  // namespace kinora::core
