#include "plugins/losses/perceptual/weights.hpp"

#include <nlohmann/json.hpp>

#include "kinora/io.hpp"

namespace kinora::perceptual {
namespace {

using nlohmann::json;
constexpr uint64_t kLongestHeader = 100'000'000;  // limit of the format

[[noreturn]] void refuse(const std::string& uri, const std::string& why) {
  throw Error(KINORA_INVALID, uri + " is not a safetensors file: " + why);
}

void read_exactly(const Reader& file, const std::string& uri, uint64_t at, void* to, uint64_t size) {
  if (file.read(at, to, size) != size) refuse(uri, "it ends before byte " + std::to_string(at + size));
}

at::Tensor read_tensor(const Reader& file, const std::string& uri, uint64_t data, const json& entry) {
  const auto dtype = entry.at("dtype").get<std::string>();
  if (dtype != "F32" && dtype != "F64") return {};
  const auto shape = entry.at("shape").get<std::vector<int64_t>>();
  const auto range = entry.at("data_offsets").get<std::vector<uint64_t>>();
  const uint64_t room = static_cast<uint64_t>(file.size()) - data, size = dtype == "F32" ? 4 : 8;
  uint64_t bytes = size;
  for (const int64_t n : shape) {
    if (n < 0 || (n > 0 && bytes > room / static_cast<uint64_t>(n)))
      refuse(uri, "a tensor is larger than the file");
    bytes *= static_cast<uint64_t>(n);
  }
  if (range.size() != 2 || range[0] > room || range[1] > room || range[1] - range[0] != bytes)
    refuse(uri, "a tensor's range is outside the file");
  at::Tensor out = at::empty(shape, size == 4 ? at::kFloat : at::kDouble);
  read_exactly(file, uri, data + range[0], out.data_ptr(), bytes);
  return out;
}

}  // namespace

std::map<std::string, at::Tensor> read_weights(const std::string& uri) {
  const Reader file(uri);
  uint64_t length = 0;
  read_exactly(file, uri, 0, &length, sizeof length);
  if (length > kLongestHeader || length + 8 > static_cast<uint64_t>(file.size()))
    refuse(uri, "its header would have " + std::to_string(length) + " bytes");
  std::string text(length, '\0');
  read_exactly(file, uri, 8, text.data(), length);
  std::map<std::string, at::Tensor> out;
  try {
    const json header = json::parse(text);
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const at::Tensor t = read_tensor(file, uri, 8 + length, entry);
      if (t.defined()) out[name] = t;
    }
  } catch (const json::exception& e) {
    refuse(uri, e.what());
  }
  return out;
}

}  // namespace kinora::perceptual
