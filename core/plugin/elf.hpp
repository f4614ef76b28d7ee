// The manifest inside a plugin library, read from the file without opening it as code.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "core/status.hpp"

namespace kinora::core {

// The text of section .kinora.manifest; nothing if the library has no such section. The file may be hostile:
// every offset is checked against its size. KINORA_DATA, with the reason in words, if it is no shared library
// for this machine.
Result<std::optional<std::string>> read_embedded_manifest(const std::filesystem::path& library);

}  // namespace kinora::core
