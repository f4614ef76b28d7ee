#include <cstring>

#include <nlohmann/json.hpp>

#include "media/byte_source.hpp"
#include "shots/transnetv2.hpp"

namespace kinora::video::transnetv2 {
namespace {

constexpr uint64_t kLargestHeader = uint64_t{16} << 20;

[[noreturn]] void refuse_weights(const std::string& source, const std::string& what) {
  throw MediaError(source + ": " + what +
                   "; make the weights of TransNet V2 again (packaging/transnetv2.py)");
}

Weight weight_of(const std::string& source, const std::string& name, const nlohmann::json& entry,
                 const uint8_t* data, uint64_t data_size) {
  Weight out{entry.at("shape").get<std::vector<int64_t>>(), {}};
  const auto range = entry.at("data_offsets").get<std::vector<uint64_t>>();
  uint64_t bytes = sizeof(float);
  for (const int64_t side : out.shape) {
    if (side < 0 || static_cast<uint64_t>(side) > kLargestWeights || bytes > kLargestWeights)
      refuse_weights(source, "'" + name + "' is too large");
    bytes *= static_cast<uint64_t>(side);
  }
  if (range.size() != 2 || range[0] > range[1] || range[1] > data_size || range[1] - range[0] != bytes)
    refuse_weights(source, "the bytes of '" + name + "' do not fit its shape");
  out.values.resize(bytes / sizeof(float));
  std::memcpy(out.values.data(), data + range[0], bytes);
  return out;
}

}  // namespace

Weights parse_weights(std::span<const uint8_t> bytes, const std::string& source) {
  uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size) refuse_weights(source, "not a safetensors file");
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  if (header_size > kLargestHeader || header_size > bytes.size() - 8)
    refuse_weights(source, "its header is cut off");
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  const auto header = nlohmann::json::parse(text, text + header_size, nullptr, false);
  if (!header.is_object()) refuse_weights(source, "its header is not a JSON object");
  Weights out;
  try {
    for (const auto& [name, entry] : header.items())
      if (name != "__metadata__" && entry.at("dtype") == "F32")
        out[name] =
            weight_of(source, name, entry, bytes.data() + 8 + header_size, bytes.size() - 8 - header_size);
  } catch (const nlohmann::json::exception& e) {
    refuse_weights(source, std::string("its header is wrong: ") + e.what());
  }
  return out;
}

}  // namespace kinora::video::transnetv2
