// A plugin's shared library: the checks before and after it is opened, and its opening. It is opened by
// absolute path with RTLD_NOW | RTLD_LOCAL, once per process, and never closed: static destructors and
// thread-local state of plugins do not survive a dlclose.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/paths.hpp"
#include "core/plugin/manifest.hpp"

namespace kinora::core {

// The versions that this build of the host offers to a plugin; a test may pretend to be another build.
struct HostFacts {
  uint32_t abi_major = KINORA_ABI_MAJOR, abi_minor = KINORA_ABI_MINOR;
  std::string kinora;                  // version of this Kinora
  std::string torch;                   // version of libtorch; empty: built without it
  std::string cxx_abi;                 // "0" or "1": _GLIBCXX_USE_CXX11_ABI
  std::string cuda;                    // empty: a build without CUDA
  std::filesystem::path torch_folder;  // of libtorch_cpu.so; empty: it was not found,
  std::string why_no_torch;            // with this reason and remedy
};
const HostFacts& host_facts();

// Checks before the library is opened that the manifest fits this host. The message has the field, the
// expected and the found value, and the remedy.
Status check_compatible(const PluginSpec& plugin, const HostFacts& host);

// Checks, before a plugin's library is opened, that the libraries it needs exist where the dynamic linker
// will look. KINORA_ERROR_UNSUPPORTED if a library that it names is found nowhere: "requires libfoo.so.3,
// which is not installed; install ...". Looks in its run path, LD_LIBRARY_PATH and the system's folders; for
// a plugin of another tier than stable also next to the host's libtorch, whose libraries are loaded before
// the plugin. Asks the dynamic linker, in a separate process, about those that are still missing: nothing is
// opened here. Does not check what the libraries need in turn, nor what cannot be determined.
// KINORA_ERROR_INVALID if its run path leads to a folder or a library that others may change (why_untrusted).
// KINORA_ERROR_UNSUPPORTED if it needs libtorch and its tier is stable, or a sanitizer's runtime that is not
// in the process. passed: as for why_untrusted().
Status check_needed(const std::filesystem::path& library, Tier tier, const HostFacts& host,
                    PassedFolders* passed = nullptr);

// The package to install for a library with this name, or how to find one.
std::string remedy_for(std::string_view library);

// [any-thread] Opens the library and calls its entry, or returns the result of the first call.
Result<const kinora_plugin*> open_library(const std::filesystem::path& library);

// Calls the entry of a plugin. what: begins the message of a failure.
Result<const kinora_plugin*> enter(kinora_plugin_entry_fn entry, const std::string& what);

// Checks after opening that its tables can be read by this host's ABI.
Status check_shape(const kinora_plugin& opened, const std::string& name);

// Checks that the library matches its manifest: table sizes, names, versions, ids, interfaces.
Status check_opened(const kinora_plugin& opened, const PluginSpec& manifest);

// The i-th component. A plugin of a later minor version may have larger entries, so its own struct_size is
// the stride.
const kinora_component& component_at(const kinora_plugin& plugin, uint32_t i);

// The plugins that were opened and checked, the last one first. None is ever removed, and nothing here allocates or
// locks, so that a handler of signals may read them.
struct OpenedPlugin {
  const kinora_plugin* plugin;
  const OpenedPlugin* before;
};
const OpenedPlugin* opened_plugins();
// [any-thread]
void note_opened(const kinora_plugin& plugin);

}  // namespace kinora::core
