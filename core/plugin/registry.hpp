// The plugins that this host found. Built once by scan() and add(); after that only states change: a plugin is opened
// on the first use of one of its components, and if it cannot be opened, only that plugin is disabled.
#pragma once
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugin/kinds.hpp"
#include "core/plugin/library.hpp"

namespace kinora::core {

class PluginsLock;

struct SearchFolder {
  std::filesystem::path path;
  std::string origin;      // "--plugins", "KINORA_PLUGIN_PATH", "user folder", "built-in folder"
  bool must_exist = true;  // report it if it does not
};

// In search order: the flag's folders, KINORA_PLUGIN_PATH, the user's folder (XDG_DATA_HOME),
// ../lib/kinora/plugins next to the program. Each contains folders NAME/{plugin.toml, libNAME.so}, or is
// such a folder itself.
std::vector<SearchFolder> search_folders(const std::vector<std::filesystem::path>& flag);

enum class PluginState { ready, disabled, loaded, shadowed };
const char* state_name(PluginState state);

struct PluginInfo {
  PluginSpec spec;  // if its manifest is unreadable, only the name, taken from the folder
  std::filesystem::path folder, library;  // empty: it is part of the program
  PluginState state = PluginState::ready;
  std::string reason;  // why it is disabled or shadowed
  std::map<std::string, std::string>
      shadowed;  // components of this plugin that an earlier plugin offers: id -> plugin
};
// Whether the plugin came with the program: it is in its built-in folder, or part of the program.
bool is_built_in(const PluginInfo&);

// A component ready for use. The pointers are valid while the registry lives; `api` is a const
// kinora_sampler* or the table of another kind.
struct Component {
  const ComponentSpec* spec = nullptr;
  const PluginSpec* plugin = nullptr;
  const void* api = nullptr;

  // Throws Error(KINORA_ERROR_INVALID) if the component's kind does not match the table.
  template <class Table>
  const Table& table() const {
    static_assert(kTableKind<Table> != nullptr);
    require_kind(kTableKind<Table>);
    return *static_cast<const Table*>(api);
  }
  void require_kind(std::string_view kind) const;
};

class Registry {
 public:
  static Registry scan(const std::vector<SearchFolder>& folders, HostFacts host = host_facts());
  Registry(Registry&&) noexcept;
  Registry& operator=(Registry&&) noexcept;
  ~Registry();

  // Adds a plugin that is part of the program: its entry, and the text of a plugin.toml. Call before threads use the
  // registry. KINORA_ERROR_INVALID if another plugin has its name, or a component of the same id.
  Status add(kinora_plugin_entry_fn entry, const std::string& manifest);

  // [any-thread] Copies, in search order. One whose files are not those of the lock is disabled.
  std::vector<PluginInfo> plugins() const;
  // Folders that were not searched, and why.
  const std::vector<std::string>& notices() const { return notices_; }
  // Every id that find() accepts, of one kind or ("") of all.
  std::vector<std::string> ids(std::string_view kind = {}) const;

  // [any-thread] One line for each pair of plugins of which one hides another that offers some of these
  // components too: the components and both folders.
  std::vector<std::string> taken_over(const std::set<std::string>& ids) const;

  // From now on a plugin is opened only if its files are those of the lock. Fails if one that is open already
  // is another. Call before threads use the registry.
  Status use_lock(PluginsLock lock);
  bool is_locked() const { return locks_->only != nullptr; }

  // [any-thread] By full id "stage/video.read", or by kind and either the bare name or the full id. Does not
  // open the plugin. KINORA_ERROR_NOT_FOUND with a suggestion; KINORA_ERROR_UNSUPPORTED with the reason if
  // its plugin is disabled or the component alone unusable.
  Result<const ComponentSpec*> find(std::string_view id) const { return find({}, id); }
  Result<const ComponentSpec*> find(std::string_view kind, std::string_view name) const;
  // [any-thread] A copy of the plugin of the component that find() returns; the same errors.
  Result<PluginInfo> plugin_of(std::string_view id) const;

  // [any-thread] The same, and opens its plugin; for one of the pinned tier, libtorch first (host.hpp,
  // ensure_torch).
  Result<Component> open(std::string_view id) { return open({}, id); }
  Result<Component> open(std::string_view kind, std::string_view name);

 private:
  struct Entry {
    PluginInfo info;  // state and reason are guarded by Locks::state, the rest is constant after scan()
    std::map<const ComponentSpec*, const void*> apis;  // written before `loaded`
    std::atomic<bool> loaded = false;
    bool is_compared = false;                // with the lock, by plugins(); guarded by Locks::state
    kinora_plugin_entry_fn entry = nullptr;  // of a plugin without a library
  };
  struct Locks {
    std::mutex state;
    // One plugin is opened at a time. Recursive: a plugin's entry may read a file, which opens a storage
    // plugin.
    std::recursive_mutex load;
    std::shared_ptr<const PluginsLock> only;  // null: any plugin may be opened
  };
  struct Place {
    Entry* entry = nullptr;
    const ComponentSpec* spec = nullptr;
  };
  explicit Registry(HostFacts host);
  void scan_folder(const SearchFolder& folder);
  Entry& add(PluginInfo examined);
  void offer(Entry& entry);
  Result<Place> locate(std::string_view kind, std::string_view name) const;
  Failure not_found(std::string_view kind, std::string_view name) const;
  std::string new_name(std::string_view kind, std::string_view name) const;
  Status load(Entry& entry);

  HostFacts host_;
  std::unique_ptr<Locks> locks_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::map<std::string, Place, std::less<>> by_id_;
  std::vector<std::string> notices_;
};

}  // namespace kinora::core
