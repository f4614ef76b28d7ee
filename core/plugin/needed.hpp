// The libraries that a plugin's library needs, looked for before it is opened where the dynamic linker will
// look.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "core/plugin/library.hpp"

namespace kinora::core {

// KINORA_UNSUPPORTED if a library that it names is found nowhere: "needs libfoo.so.3, which is not
// installed; install ...". Looks in its run path, LD_LIBRARY_PATH and the system's folders; for a plugin of
// the pinned tier also where the host's libtorch is, whose libraries are in the process before the plugin.
// What is then still missing is asked of the dynamic linker, in a process of its own: nothing is opened here.
// What the libraries need in turn is not looked at, nor is what cannot be told. KINORA_INVALID if its run path
// leads to a folder or a library that others may change (why_untrusted).
Status check_needed(const std::filesystem::path& library, Tier tier, const HostFacts& host);

// What to install for a library of this name: a package, or how to find one.
std::string remedy_for(std::string_view library);

}  // namespace kinora::core
