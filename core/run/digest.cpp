#include "core/run/digest.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

namespace kinora::core {

std::string sha256(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  std::string out;
  for (unsigned int i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

std::string stat_digest(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::vector<std::string> lines;
  const auto add = [&](const fs::path& p) {
    std::error_code error;
    const auto size = fs::file_size(p, error);
    const auto time = fs::last_write_time(p, error);
    lines.push_back(fmt::format("{} {} {}", p.lexically_relative(path.parent_path()).string(), size,
                                time.time_since_epoch().count()));
  };
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const auto& entry : fs::recursive_directory_iterator(path, error))
      if (entry.is_regular_file(error)) add(entry.path());
  } else {
    add(path);
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  return sha256(all);
}

}  // namespace kinora::core
