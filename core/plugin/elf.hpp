// Reads what a plugin library declares from the file, without opening it as code. The file may be hostile:
// every offset is checked against its size.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.hpp"

namespace kinora::core {

// The text of section .kinora.manifest without zeros behind it; nothing if the library has no such section.
// KINORA_ERROR_DATA with the reason if it is not a shared library for this machine.
Result<std::optional<std::string>> read_embedded_manifest(const std::filesystem::path& library);

// The libraries that the dynamic linker will look for, and the folders besides its usual ones.
struct Needs {
  std::vector<std::string> libraries;  // DT_NEEDED: "libavcodec.so.59"
  std::string run_path;                // DT_RUNPATH, else DT_RPATH: folders joined by ':', with "$ORIGIN"
};
// Empty if the library's section table was stripped. Errors as above.
Result<Needs> read_needs(const std::filesystem::path& library);

// Names of the symbols that the library defines for others to use, as the dynamic linker sees them. Empty if
// the library's section table was stripped. Errors as above.
Result<std::vector<std::string>> read_exports(const std::filesystem::path& library);

}  // namespace kinora::core
