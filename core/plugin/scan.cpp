// Finds plugins in the folders in their order, and disables those that are unfit before they are opened.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/base/regular_file.hpp"
#include "core/plugin/elf.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/registry.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t max_manifest = uint64_t{1} << 20;

std::vector<fs::path> libraries_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& item : fs::directory_iterator(folder, error))
    if (item.path().extension() == ".so") found.push_back(item.path());
  return found;
}

// Whether a library of a folder without a plugin.toml declares that it is a plugin.
bool holds_stray_plugin(const fs::path& folder) {
  const auto all = libraries_in(folder);
  return std::any_of(all.begin(), all.end(), [](const fs::path& library) {
    const auto embedded = read_embedded_manifest(library);
    return embedded && *embedded;
  });
}

// Files of a folder that are called libraries and are none: damaged, cut off, or of another system.
void add_broken_libraries(const fs::path& folder, std::vector<PluginInfo>& to) {
  auto all = libraries_in(folder);
  std::sort(all.begin(), all.end());
  for (const auto& library : all) {
    const auto embedded = read_embedded_manifest(library);
    if (embedded) continue;
    PluginInfo info;
    info.folder = folder;
    info.library = library;
    info.spec.name = library.filename().string();
    info.state = PluginState::disabled;
    info.reason = embedded.failure().message;
    to.push_back(std::move(info));
  }
}

size_t first_different_line(const std::string& a, const std::string& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return 1 + static_cast<size_t>(std::count(a.begin(), at, '\n'));
}

// Library and manifest of a plugin folder, if they can be read.
Status read_plugin(PluginInfo& info) {
  std::error_code error;
  const fs::path file = info.folder / "plugin.toml";
  const bool has_file = fs::exists(file, error);
  std::string text, place = file.string();
  if (has_file) {
    auto read = read_regular_file(file, max_manifest);
    if (!read) return read.failure();
    text = *std::move(read);
  } else {
    const auto libraries = libraries_in(info.folder);
    if (libraries.size() != 1)
      return fail(
          KINORA_ERROR_NOT_FOUND,
          "{}: {} libraries and no plugin.toml; put each plugin in its own folder, with the plugin.toml "
          "that kinora plugins manifest writes",
          info.folder.string(), libraries.size());
    info.library = libraries[0];
    const auto embedded = read_embedded_manifest(info.library);
    if (!embedded) return embedded.failure();
    place = info.library.string() + "(.kinora.manifest)";
    if (!*embedded)
      return fail(KINORA_ERROR_NOT_FOUND,
                  "{}: no plugin.toml next to it and none inside; build it with kinora_add_plugin",
                  info.library.string());
    text = **embedded;
  }
  auto spec = parse_manifest(text, place);
  if (!spec) return spec.failure();
  info.spec = *std::move(spec);
  if (!has_file) return {};
  info.library = info.folder / ("lib" + info.spec.name + ".so");
  const auto embedded = read_embedded_manifest(info.library);
  if (!embedded) return embedded.failure();
  if (*embedded && **embedded != text) {
    return fail(
        KINORA_ERROR_INVALID,
        "{}:{}:1: it differs from the manifest inside {}; build the library again, or restore the file: "
        "kinora plugins manifest {} --tier {}{} --out {}",
        place, first_different_line(text, **embedded), info.library.filename().string(),
        info.library.string(), tier_name(info.spec.tier),
        info.spec.cuda.empty() ? "" : " --cuda " + info.spec.cuda, place);
  }
  return {};
}

bool is_in_use(const PluginInfo& info) {
  return info.state == PluginState::ready || info.state == PluginState::loaded;
}

// A plugin of which nothing can be used hides none of the same name.
bool hides_others(const PluginInfo& info) {
  const auto& all = info.spec.components;
  return is_in_use(info) &&
         std::any_of(all.begin(), all.end(), [](const auto& c) { return c.unusable.empty(); });
}

Status check_trust(const PluginInfo& info, PassedFolders& passed) {
  std::error_code error;
  for (const auto& path : {info.folder, info.folder / "plugin.toml", info.library}) {
    if (path.empty() || (path.filename() == "plugin.toml" && !fs::exists(path, error))) continue;
    if (const auto why = why_untrusted(path, &passed); !why.empty())
      return fail(KINORA_ERROR_INVALID, "{}", why);
  }
  return {};
}

// The plugin of a folder, ready if it alone gives no reason to disable it.
PluginInfo examine(const fs::path& folder, const HostFacts& host, PassedFolders& passed) {
  PluginInfo info;
  info.folder = folder;
  const auto holds = [&](const Status& status) {
    if (!status) {
      info.state = PluginState::disabled;
      info.reason = status.failure().message;
    }
    return bool{status};
  };
  holds(check_trust(info, passed)) && holds(read_plugin(info)) && holds(check_trust(info, passed)) &&
      holds(check_compatible(info.spec, host)) &&
      holds(check_needed(info.library, info.spec.tier, host, &passed));
  if (info.spec.name.empty()) info.spec.name = folder.filename().string();
  return info;
}

// The plugins of these folders, in their order. Up to four threads: reading and parsing 60 manifests in one
// takes 40 ms.
std::vector<PluginInfo> examine_all(const std::vector<fs::path>& folders, const HostFacts& host) {
  std::vector<PluginInfo> out(folders.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    PassedFolders passed;
    for (size_t i; (i = next++) < folders.size();) out[i] = examine(folders[i], host, passed);
  };
  std::vector<std::future<void>> others(
      std::min<size_t>({std::thread::hardware_concurrency(), 4, folders.size()}));
  if (!others.empty()) others.pop_back();  // this thread works too
  for (auto& other : others) other = std::async(std::launch::async, work);
  work();
  for (auto& other : others) other.get();
  return out;
}

}  // namespace

std::vector<SearchFolder> search_folders(const std::vector<fs::path>& flag) {
  std::vector<SearchFolder> out;
  out.reserve(flag.size());
  for (const auto& path : flag) out.push_back({path, "--plugins", true});
  for (const auto& path : split_paths(environment("KINORA_PLUGIN_PATH")))
    out.push_back({path, "KINORA_PLUGIN_PATH", true});
  fs::path data = environment("XDG_DATA_HOME");
  if (const auto home = environment("HOME"); data.empty() && !home.empty())
    data = fs::path(home) / ".local/share";
  if (!data.empty()) out.push_back({data / "kinora/plugins", "the user's folder", false});
  if (const auto here = program_folder(); !here.empty())
    out.push_back({(here / "../lib/kinora/plugins").lexically_normal(), "the built-in folder", false});
  return out;
}

bool is_built_in(const PluginInfo& plugin) {
  static const auto folder = [] {  // empty if it does not exist
    std::error_code error;
    return fs::canonical(search_folders({}).back().path, error);
  }();
  return plugin.library.empty() || (!folder.empty() && plugin.folder.parent_path() == folder);
}

Registry Registry::scan(const std::vector<SearchFolder>& folders, HostFacts host) {
  Registry out(std::move(host));
  std::vector<fs::path> seen;
  for (const auto& folder : folders) {
    std::error_code error;
    const fs::path path = fs::canonical(folder.path, error);
    if (error) {
      if (folder.must_exist)
        out.notices_.push_back(
            fmt::format("{} ({}): {}", folder.path.string(), folder.origin, error.message()));
      continue;
    }
    if (std::find(seen.begin(), seen.end(), path) != seen.end()) continue;
    seen.push_back(path);
    if (const auto why = why_untrusted(folder.path); !why.empty()) {
      out.notices_.push_back(
          fmt::format("{} ({}) was not searched: {}", folder.path.string(), folder.origin, why));
      continue;
    }
    out.scan_folder({path, folder.origin, folder.must_exist});
  }
  for (const auto& notice : out.notices_) log_warn("plugins: {}", notice);
  for (const auto& entry : out.entries_)
    for (const auto& warning : entry->info.spec.warnings)
      if (entry->info.state == PluginState::ready) log_warn("plugins: {}", warning);
  return out;
}

void Registry::scan_folder(const SearchFolder& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  std::vector<PluginInfo> broken;
  if (fs::exists(folder.path / "plugin.toml", error)) {
    found.push_back(folder.path);
  } else {
    if (holds_stray_plugin(folder.path)) found.push_back(folder.path);
    add_broken_libraries(folder.path, broken);
    for (const auto& item : fs::directory_iterator(folder.path, error)) {
      std::error_code unreadable;
      if (!item.is_directory(unreadable)) continue;
      if (fs::exists(item.path() / "plugin.toml", unreadable) || libraries_in(item.path()).size() == 1 ||
          holds_stray_plugin(item.path()))
        found.push_back(item.path());
      else
        add_broken_libraries(item.path(), broken);
    }
    if (error)
      notices_.push_back(fmt::format("{} ({}): {}", folder.path.string(), folder.origin, error.message()));
  }
  std::sort(found.begin(), found.end());
  for (auto& info : examine_all(found, host_)) add(std::move(info));
  for (auto& info : broken) add(std::move(info));
}

Status Registry::add(kinora_plugin_entry_fn entry, const std::string& manifest) {
  PluginInfo info;
  auto spec = parse_manifest(manifest, "the manifest of the program's plugin");
  if (!spec) return spec.failure();
  info.spec = *std::move(spec);
  if (auto status = check_compatible(info.spec, host_); !status) return status;
  for (const auto& other : entries_)
    for (const auto& c : info.spec.components)
      if (hides_others(other->info) &&
          (other->info.spec.name == info.spec.name || other->info.spec.component(c.id)))
        return fail(KINORA_ERROR_INVALID,
                    "plugin '{}': plugin '{}', which is there already, has this name or {}; give it another",
                    info.spec.name, other->info.spec.name, c.id);
  add(std::move(info)).entry = entry;
  return {};
}

Registry::Entry& Registry::add(PluginInfo examined) {
  auto entry = std::make_unique<Entry>();
  auto& info = entry->info = std::move(examined);
  for (const auto& other : entries_) {
    if (other->info.spec.name != info.spec.name || !hides_others(other->info)) continue;
    info.state = PluginState::shadowed;
    info.reason = "by " + other->info.folder.string();
  }
  if (info.state != PluginState::shadowed) offer(*entry);
  return *entries_.emplace_back(std::move(entry));
}

void Registry::offer(Entry& entry) {
  const auto is_usable = [](const Place& place) {
    return is_in_use(place.entry->info) && place.spec->unusable.empty();
  };
  for (const auto& component : entry.info.spec.components) {
    const auto [it, first] = by_id_.try_emplace(component.id, Place{&entry, &component});
    if (!is_usable(it->second) && is_usable({&entry, &component})) {
      it->second = Place{&entry, &component};
      continue;
    }
    if (!first) entry.info.shadowed.emplace(component.id, it->second.entry->info.spec.name);
  }
}

}  // namespace kinora::core
