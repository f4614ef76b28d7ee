// Any bytes as a form, and as the type of one: parts that the bytes have room for, or an error; and no file stays.
#include <cstdlib>
#include <string_view>

#include "apps/serve/multipart.hpp"
#include "kinora/error.hpp"
#include "tests/fuzz/files.hpp"

namespace {

namespace fs = std::filesystem;

void read(const fs::path& body, const std::string& type, const fs::path& files, size_t size) {
  try {
    uint64_t all = 0;
    for (const auto& part : kinora::serve::read_form(body, type, files)) {
      if (part.name.empty()) std::abort();
      if (part.bytes != (part.file ? fs::file_size(part.file->path()) : part.value.size())) std::abort();
      all += part.name.size() + part.file_name.size() + part.bytes;
    }
    if (all > size) std::abort();
  } catch (const kinora::Error& e) {
    if (e.code() != KINORA_ERROR_INVALID) std::abort();
  }
  if (!fs::is_empty(files)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kinora::fuzz::Folder folder;
  static const fs::path files = folder.path() / "files";
  fs::create_directories(files);
  const fs::path body = folder.write("body", data, size);
  read(body, "multipart/form-data; boundary=kinora", files, size);
  read(body, "multipart/form-data; " + std::string(reinterpret_cast<const char*>(data), size), files, size);
  return 0;
}
