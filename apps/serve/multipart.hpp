// Bodies of type multipart/form-data (RFC 7578), which lie in a file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/web/server.hpp"

namespace kinora::serve {

struct FormPart {
  std::string name, value;                           // value: of a part without a file's name
  std::string file_name;                             // as the client gave it: data, no path
  std::shared_ptr<const web::TemporaryFile> file{};  // the bytes of a part with a file's name
  uint64_t bytes = 0;
};

struct FormLimits {
  size_t parts = 64, value_bytes = 256 << 10, header_bytes = 8 << 10;
};

// The parts in order; the files of theirs go to `folder`. Reads the body once, in pieces. Throws
// Error(KINORA_ERROR_INVALID) for what is no such body or is over a limit, and Error(KINORA_ERROR_IO).
std::vector<FormPart> read_form(const std::filesystem::path& body, const std::string& content_type,
                                const std::filesystem::path& folder, const FormLimits& limits = {});

}  // namespace kinora::serve
