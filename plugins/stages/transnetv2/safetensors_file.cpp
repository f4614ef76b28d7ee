#include "plugins/stages/transnetv2/safetensors_file.hpp"

#include <cstring>
#include <vector>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "kinora/io.hpp"

namespace kinora::transnetv2 {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 30, kLargestHeader = uint64_t{16} << 20;

[[noreturn]] void refuse(const std::string& uri, const std::string& what) {
  throw Error(KINORA_DATA,
              uri + ": " + what + "; run packaging/dev.sh setup to create the weights of TransNetV2 again");
}

std::vector<uint8_t> read_file(const std::string& uri) {
  Reader reader(uri);
  const auto size = static_cast<uint64_t>(reader.size());
  if (size < 8 || size > kLargestFile) refuse(uri, "not a safetensors file of these weights");
  std::vector<uint8_t> bytes(size);
  for (uint64_t done = 0; done < size;) {
    const auto n = static_cast<uint64_t>(reader.read(done, bytes.data() + done, size - done));
    if (n == 0) refuse(uri, "ends early");
    done += n;
  }
  return bytes;
}

at::Tensor tensor_of(const std::string& uri, const std::string& name, const nlohmann::json& entry,
                     const uint8_t* data, uint64_t data_size) {
  const auto shape = entry.at("shape").get<std::vector<int64_t>>();
  const auto range = entry.at("data_offsets").get<std::vector<uint64_t>>();
  uint64_t wanted = sizeof(float);
  for (const int64_t side : shape) {
    if (side < 0 || static_cast<uint64_t>(side) > kLargestFile || wanted > kLargestFile)
      refuse(uri, "'" + name + "' is too large");
    wanted *= static_cast<uint64_t>(side);
  }
  if (range.size() != 2 || range[0] > range[1] || range[1] > data_size || range[1] - range[0] != wanted)
    refuse(uri, "the bytes of '" + name + "' do not fit its shape");
  at::Tensor out = at::empty(shape, at::kFloat);
  std::memcpy(out.data_ptr(), data + range[0], wanted);
  return out;
}

}  // namespace

std::map<std::string, at::Tensor> read_safetensors(const std::string& uri) {
  const std::vector<uint8_t> bytes = read_file(uri);
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  if (header_size > kLargestHeader || header_size > bytes.size() - 8) refuse(uri, "its header is cut off");
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  const auto header = nlohmann::json::parse(text, text + header_size, nullptr, false);
  if (!header.is_object()) refuse(uri, "its header is not a JSON object");
  std::map<std::string, at::Tensor> out;
  try {
    for (const auto& [name, entry] : header.items())
      if (name != "__metadata__" && entry.at("dtype") == "F32")
        out[name] =
            tensor_of(uri, name, entry, bytes.data() + 8 + header_size, bytes.size() - 8 - header_size);
  } catch (const nlohmann::json::exception& e) {
    refuse(uri, std::string("its header is wrong: ") + e.what());
  }
  return out;
}

}  // namespace kinora::transnetv2
