// What a plugin library says of itself, read from the file without opening it as code. The file may be
// hostile: every offset is checked against its size.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.hpp"

namespace kinora::core {

// The text of section .kinora.manifest; nothing if the library has no such section. KINORA_DATA, with the
// reason in words, if it is no shared library for this machine.
Result<std::optional<std::string>> read_embedded_manifest(const std::filesystem::path& library);

// What the dynamic linker will look for, and where beside its usual places.
struct Needs {
  std::vector<std::string> libraries;  // DT_NEEDED: "libavcodec.so.59"
  std::string run_path;                // DT_RUNPATH, else DT_RPATH: folders joined by ':', with "$ORIGIN"
};
// Empty if the library's table of sections was stripped. Errors as above.
Result<Needs> read_needs(const std::filesystem::path& library);

}  // namespace kinora::core
