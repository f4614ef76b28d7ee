#include "core/plugin/plugins_lock.hpp"

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/config/document.hpp"

namespace kinora::core {
namespace {

constexpr const char* kLockHead =
    "# The plugins that run files in this folder may open, with the SHA-256 of their files. Renew it after a "
    "change: kinora plugins lock FILE\n";

bool is_digest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

PluginsLock::Files PluginsLock::files_of(const PluginInfo& plugin) {
  const auto manifest = plugin.folder / "plugin.toml";
  std::error_code error;
  return {plugin.spec.version, sha256_of_file(plugin.library),
          std::filesystem::exists(manifest, error) ? sha256_of_file(manifest) : ""};
}

PluginsLock PluginsLock::of(const std::vector<PluginInfo>& plugins) {
  PluginsLock out;
  for (const bool disabled : {false, true})  // one that cannot be used here may be usable elsewhere
    for (const auto& plugin : plugins) {
      std::error_code error;
      if (plugin.state == PluginState::shadowed || (plugin.state == PluginState::disabled) != disabled ||
          !std::filesystem::is_regular_file(plugin.library, error) || out.plugins_.contains(plugin.spec.name))
        continue;
      out.plugins_.emplace(plugin.spec.name, files_of(plugin));
    }
  return out;
}

Result<PluginsLock> PluginsLock::read(const std::filesystem::path& file) {
  const auto doc = Document::read(file);
  if (!doc) return doc.failure();
  PluginsLock out;
  out.file_ = std::filesystem::absolute(file);
  const json plugins = doc->root().value("plugin", json::object());
  for (const auto& [name, table] : plugins.items()) {
    Files files{text_in(table, "version"), text_in(table, "library"), text_in(table, "manifest")};
    if (!is_digest(files.library) || !(files.manifest.empty() || is_digest(files.manifest)))
      return fail(KINORA_ERROR_INVALID, "{}; write the file again: kinora plugins lock {}",
                  format({doc->key("/plugin/" + name), "a digest of plugin '" + name + "' is not a SHA-256"}),
                  file.string());
    out.plugins_.emplace(name, std::move(files));
  }
  if (out.plugins_.empty())
    return fail(KINORA_ERROR_INVALID, "{}: it has no [plugin.NAME]; write it again: kinora plugins lock {}",
                file.string(), file.string());
  return out;
}

std::string PluginsLock::text() const {
  std::string out = kLockHead;
  for (const auto& [name, files] : plugins_) {
    out += fmt::format("\n[plugin.{}]\nversion = {}\nlibrary = \"{}\"\n", json(name).dump(),
                       json(files.version).dump(), files.library);
    if (!files.manifest.empty()) out += fmt::format("manifest = \"{}\"\n", files.manifest);
  }
  return out;
}

Status PluginsLock::allows(const PluginInfo& plugin) const {
  if (plugin.library.empty()) return {};  // it is part of the program
  const std::string renew =
      fmt::format("if this plugin is meant to be used, renew the lock: kinora --plugins {} plugins lock {}",
                  plugin.folder.parent_path().string(), file_.string());
  const auto known = plugins_.find(plugin.spec.name);
  if (known == plugins_.end())
    return fail(KINORA_ERROR_INVALID, "{} is not in {}; {}", plugin.library.string(), file_.string(), renew);
  const auto files = catching([&] { return files_of(plugin); });
  if (!files) return files.failure();
  const auto differs = [&](const std::filesystem::path& file, const std::string& found,
                           const std::string& expected) {
    return fail(KINORA_ERROR_INVALID, "{} has SHA-256 {}, expected {} as in {}; {}", file.string(),
                found.empty() ? "none" : found, expected.empty() ? "none" : expected, file_.string(), renew);
  };
  if (files->library != known->second.library)
    return differs(plugin.library, files->library, known->second.library);
  if (files->manifest != known->second.manifest)
    return differs(plugin.folder / "plugin.toml", files->manifest, known->second.manifest);
  return {};
}

}  // namespace kinora::core
