#include "core/plugin/registry.hpp"

#include <algorithm>
#include <utility>

#include "core/base/paths.hpp"
#include "core/base/suggest.hpp"
#include "core/build_info.hpp"
#include "core/plugin/elf.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/kinds.hpp"
#include "core/plugin/plugins_lock.hpp"

namespace kinora::core {

const char* state_name(PluginState state) {
  constexpr const char* names[] = {"ready", "disabled", "loaded", "shadowed"};
  return names[static_cast<size_t>(state)];
}

void Component::require_kind(std::string_view kind) const {
  if (spec->kind != kind)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("'{}' is of kind {}; kind {} is required here", spec->id, spec->kind, kind));
}

Registry::Registry(HostFacts host) : host_(std::move(host)), locks_(std::make_unique<Locks>()) {}
Registry::Registry(Registry&&) noexcept = default;
Registry& Registry::operator=(Registry&&) noexcept = default;
Registry::~Registry() = default;

std::vector<PluginInfo> Registry::plugins() const {
  const std::lock_guard lock(locks_->state);
  std::vector<PluginInfo> out;
  for (const auto& entry : entries_) {
    PluginInfo& info = entry->info;
    if (locks_->only && info.state == PluginState::ready && !std::exchange(entry->is_compared, true))
      if (const auto allowed = locks_->only->allows(info); !allowed)
        info.state = PluginState::disabled, info.reason = allowed.failure().message;
    out.push_back(info);
  }
  return out;
}

std::vector<std::string> Registry::ids(std::string_view kind) const {
  std::vector<std::string> out;
  const std::lock_guard lock(locks_->state);
  for (const auto& [id, place] : by_id_)
    if (place.spec->unusable.empty() && place.entry->info.state != PluginState::disabled &&
        (kind.empty() || place.spec->kind == kind))
      out.push_back(id);
  return out;
}

std::vector<std::string> Registry::taken_over(const std::set<std::string>& ids) const {
  std::map<std::pair<std::string, std::string>, std::string> between;  // folders: ids
  const std::lock_guard lock(locks_->state);
  for (const auto& entry : entries_) {
    const PluginInfo& hidden = entry->info;
    for (const auto& component : hidden.spec.components) {
      const auto used = by_id_.find(component.id);
      const bool is_hidden = hidden.state == PluginState::shadowed || hidden.shadowed.contains(component.id);
      if (!is_hidden || used == by_id_.end() || !ids.contains(component.id)) continue;
      auto& list = between[{used->second.entry->info.folder.string(), hidden.folder.string()}];
      list += (list.empty() ? "" : ", ") + component.id;
    }
  }
  std::vector<std::string> out;
  for (const auto& [folders, list] : between)
    out.push_back(fmt::format(
        "{}: the plugin in {} is used, and hides the one in {}; remove it if that is not intended", list,
        folders.first, folders.second));
  return out;
}

// "; it is called 'video.clips' now": of a component that had this name before.
std::string Registry::new_name(std::string_view kind, std::string_view name) const {
  const auto slash = name.find('/');
  const std::string_view of_kind = slash == name.npos ? kind : name.substr(0, slash);
  const std::string_view bare = slash == name.npos ? name : name.substr(slash + 1);
  for (const auto& [id, place] : by_id_) {
    const auto& former = place.spec->formerly;
    if ((of_kind.empty() || place.spec->kind == of_kind) &&
        std::find(former.begin(), former.end(), bare) != former.end())
      return fmt::format("; it is called '{}' now", slash == name.npos ? place.spec->name : id);
  }
  return "";
}

// The most names that a message lists; among more of them a reader does not find the right one.
constexpr size_t kMostListed = 16;

Failure Registry::not_found(std::string_view kind, std::string_view name) const {
  // Where the kind is known people write bare names, so bare names are suggested.
  const bool bare = name.find('/') == name.npos;
  std::vector<std::string> candidates, names;
  for (const auto& id : ids(kind)) {
    names.push_back(id.substr(id.find('/') + 1));
    candidates.push_back(bare && !kind.empty() ? names.back() : id);
  }
  std::string rest = new_name(kind, name);
  if (kind == "precision" && name == "fp4") rest = ", did you mean 'nvfp4'?";
  if (kind == "precision" && name == "mxfp8") rest = "; write { use = \"fp8\", scaling = \"mx\" }";
  if (rest.empty()) rest = did_you_mean(name, candidates);
  if (rest.empty() && bare && kind.empty()) {
    const auto at = std::find(names.begin(), names.end(), suggest(name, names));
    if (at != names.end())
      rest = ", did you mean '" + candidates[static_cast<size_t>(at - names.begin())] + "'?";
  }
  if (rest.empty() && candidates.size() > kMostListed)
    rest = fmt::format("; `kinora plugins list{}` shows the {} there are, --plugins FOLDER adds others",
                       kind.empty() ? "" : fmt::format(" {}", kind), candidates.size());
  if (rest.empty() && !kind.empty())
    rest = candidates.empty() ? "; there is none" : did_you_mean_or_list(name, candidates, "there are");
  if (name == "nccl" || name == "collective/nccl")
    rest += "; nccl requires a CUDA build (KINORA_PRESET=cuda packaging/dev.sh build)";
  if (rest.empty()) rest = "; `kinora plugins` lists all";
  const std::lock_guard lock(locks_->state);
  std::vector<std::string> unreadable;
  for (const auto& entry : entries_)
    if (entry->info.state == PluginState::disabled && entry->info.spec.components.empty())
      unreadable.push_back(entry->info.reason);
  if (!unreadable.empty())
    rest += fmt::format(" ({} plugin{} cannot be read: {}{})", unreadable.size(),
                        unreadable.size() == 1 ? "" : "s", unreadable.front(),
                        unreadable.size() == 1 ? "" : "; see `kinora plugins`");
  const std::string_view what = kind.empty() ? "component" : kind == "job" ? "kind of job" : kind;
  return fail(KINORA_ERROR_NOT_FOUND, "unknown {} '{}'{}", what, name, rest);
}

Result<Registry::Place> Registry::locate(std::string_view kind, std::string_view name) const {
  const auto slash = name.find('/');
  std::string id(name);
  if (slash == name.npos && !kind.empty()) id = fmt::format("{}/{}", kind, name);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return not_found(kind, name);
  const Place& place = it->second;
  if (!kind.empty() && place.spec->kind != kind)
    return fail(KINORA_ERROR_INVALID, "'{}' is of kind {}; kind {} is required here", name, place.spec->kind,
                kind);
  const std::lock_guard lock(locks_->state);
  const auto& info = place.entry->info;
  if (info.state == PluginState::disabled)
    return fail(KINORA_ERROR_UNSUPPORTED, "{}: its plugin '{}' is disabled: {}", id, info.spec.name,
                info.reason);
  if (!place.spec->unusable.empty()) return Failure{KINORA_ERROR_UNSUPPORTED, place.spec->unusable};
  return place;
}

Result<const ComponentSpec*> Registry::find(std::string_view kind, std::string_view name) const {
  const auto place = locate(kind, name);
  if (!place) return place.failure();
  return place->spec;
}

Result<PluginInfo> Registry::plugin_of(std::string_view id) const {
  const auto place = locate({}, id);
  if (!place) return place.failure();
  const std::lock_guard lock(locks_->state);
  return place->entry->info;
}

Result<Component> Registry::open(std::string_view kind, std::string_view name) {
  const auto place = locate(kind, name);
  if (!place) return place.failure();
  auto& entry = *place->entry;
  if (!entry.loaded) {
    const std::lock_guard lock(locks_->load);
    const auto status = load(entry);
    if (!status) return status.failure();
  }
  return Component{place->spec, &entry.info.spec, entry.apis.at(place->spec)};
}

namespace {

// Whether the library links libtorch, itself or through other libraries of Kinora.
bool needs_torch(const std::filesystem::path& library) {
  const auto needs = read_needs(library);
  return needs && std::ranges::any_of(needs->libraries, [](const std::string& name) {
           if (name.starts_with("libtorch") || name == KINORA_LIBRARY("kinora_torch")) return true;
           return name.starts_with("libkinora_") && needs_torch(library_folder() / name);
         });
}

// Whether libtorch must be in the process before the plugin is opened: nothing else leads the linker to it.
bool requires_torch(const PluginInfo& plugin) {
  const auto& components = plugin.spec.components;
  if (plugin.spec.tier == Tier::pinned ||
      std::any_of(components.begin(), components.end(), [](const auto& c) { return c.has_tensors; }))
    return true;
  if (plugin.spec.tier == Tier::stable) return false;
  return needs_torch(plugin.library);
}

}  // namespace

Status Registry::use_lock(PluginsLock lock) {
  for (const auto& entry : entries_)
    if (entry->loaded)
      if (auto status = lock.allows(entry->info); !status) return status;
  locks_->only = std::make_shared<const PluginsLock>(std::move(lock));
  return {};
}

Status Registry::load(Entry& entry) {
  if (entry.loaded) return {};
  const auto disable = [&](Failure why) -> Status {
    const std::lock_guard lock(locks_->state);
    entry.info.state = PluginState::disabled;
    entry.info.reason = why.message;
    return why;
  };
  if (locks_->only)
    if (const auto status = locks_->only->allows(entry.info); !status) return disable(status.failure());
  if (requires_torch(entry.info)) {
    const auto torch = ensure_torch();
    if (!torch) return disable(torch.failure());
  }
  const auto opened =
      entry.entry ? enter(entry.entry, entry.info.spec.name) : open_library(entry.info.library);
  if (!opened) return disable(opened.failure());
  const kinora_plugin& plugin = **opened;
  if (const auto status = check_opened(plugin, entry.info.spec); !status) return disable(status.failure());
  for (uint32_t i = 0; i < plugin.n_components; ++i) {
    const auto& c = component_at(plugin, i);
    entry.apis.emplace(entry.info.spec.component(c.id), c.api);
  }
  note_opened(plugin);
  const std::lock_guard lock(locks_->state);
  entry.info.state = PluginState::loaded;
  entry.loaded = true;
  return {};
}

}  // namespace kinora::core
