#include "core/plugin/library.hpp"

#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>

#include <boost/dll/shared_library.hpp>

#include "core/plugin/host.hpp"
#include "core/plugin/needed.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// A copy of dlerror's text, and what to do about it.
std::string explain(const fs::path& library, const std::string& text) {
  const auto missing = text.find(": cannot open shared object file");
  if (missing != text.npos && !text.starts_with(library.string())) {
    const auto name = text.substr(0, missing);
    return fmt::format("requires {}, which is not installed ({}); {}", name, text, remedy_for(name));
  }
  if (text.find("undefined symbol") != text.npos)
    return text +
           "; it was built against other versions of its libraries, or lacks one at link time: build it "
           "again here";
  return text;
}

struct Opened {
  std::unique_ptr<boost::dll::shared_library> library;
  Result<const kinora_plugin*> plugin;
};

Result<const kinora_plugin*> enter(boost::dll::shared_library& library, const fs::path& path) {
  using Entry = const kinora_plugin*(const kinora_host*);
  if (!library.has(KINORA_PLUGIN_ENTRY)) {
    return fail(KINORA_INVALID, "{}: exports no function {}; a plugin's source ends in KINORA_PLUGIN(...)",
                path.string(), KINORA_PLUGIN_ENTRY);
  }
  try {
    const kinora_plugin* plugin = library.get<Entry>(KINORA_PLUGIN_ENTRY)(&core_host());
    if (plugin) return plugin;
    const Failure why = take_error("its entry");
    return fail(why.code, "{}: cannot be used here: {}", path.string(), why.message);
  } catch (const std::exception& e) {
    return fail(KINORA_FAILED, "{}: its entry threw: {}", path.string(), e.what());
  }
}

Opened open_now(const fs::path& path) {
  auto library = std::make_unique<boost::dll::shared_library>();
  boost::dll::fs::error_code error;
  dlerror();
  library->load(path, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local, error);
  if (error) {
    const char* text = dlerror();
    return {nullptr,
            fail(KINORA_UNSUPPORTED, "{}: {}", path.string(), explain(path, text ? text : error.message()))};
  }
  auto plugin = enter(*library, path);
  return {std::move(library), std::move(plugin)};
}

}  // namespace

Result<const kinora_plugin*> open_library(const fs::path& library) {
  // Never destroyed, so never closed.
  static auto* mutex = new std::recursive_mutex;  // an entry may use another plugin, a storage
  static auto* all = new std::map<fs::path, Opened>;
  std::error_code error;
  const fs::path path = fs::canonical(library, error);
  if (error) return fail(KINORA_NOT_FOUND, "{}: {}", library.string(), error.message());
  const std::lock_guard lock(*mutex);
  auto it = all->find(path);
  if (it == all->end()) it = all->emplace(path, open_now(path)).first;
  return it->second.plugin;
}

}  // namespace kinora::core
