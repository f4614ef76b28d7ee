// Checks, before a plugin's library is opened, that the libraries it needs exist where the dynamic linker
// will look.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "core/plugin/library.hpp"

namespace kinora::core {

// KINORA_UNSUPPORTED if a library that it names is found nowhere: "requires libfoo.so.3, which is not
// installed; install ...". Looks in its run path, LD_LIBRARY_PATH and the system's folders; for a plugin of
// the pinned tier also next to the host's libtorch, whose libraries are loaded before the plugin. Asks the
// dynamic linker, in a separate process, about those that are still missing: nothing is opened here. Does not
// check what the libraries need in turn, nor what cannot be determined. KINORA_INVALID if its run path leads
// to a folder or a library that others may change (why_untrusted).
Status check_needed(const std::filesystem::path& library, Tier tier, const HostFacts& host);

// What to install for a library with this name: a package, or how to find one.
std::string remedy_for(std::string_view library);

}  // namespace kinora::core
