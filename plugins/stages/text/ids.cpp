#include "ids.hpp"

#include <cstring>

#include "kinora/io.hpp"

namespace kinora::text {

std::string read_file(const std::string& path, const std::string& meant) {
  constexpr int64_t kLimit = 64 << 20;
  const Reader reader(path);
  if (reader.size() > kLimit)
    throw Error(KINORA_INVALID, path + ": " + std::to_string(reader.size()) + " bytes; give " + meant);
  std::string text(static_cast<size_t>(reader.size()), '\0');
  text.resize(reader.read(0, text.data(), text.size()));
  return text;
}

void set_ids(Sample& sample, const char* name, const std::vector<int64_t>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(int64_t));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  sample.set_tensor(name, std::move(bytes), {static_cast<int64_t>(values.size())}, KINORA_DL_INT, 64);
}

}  // namespace kinora::text
