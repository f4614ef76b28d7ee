// libFuzzer entry: any bytes either parse into readable tensors, or fail with a message.
#include <cstdlib>

#include "core/io/safetensors.hpp"

static volatile unsigned sink;  // prevents the optimiser from removing the reads

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed =
      kinora::core::parse_safetensors({reinterpret_cast<const std::byte*>(data), size}, "input");
  if (!parsed) {
    if (parsed.failure().message.empty()) std::abort();
    return 0;
  }
  unsigned sum = 0;
  for (const auto& t : parsed->tensors) {
    uint64_t bytes = kinora::core::size_of(t.dtype);
    for (const int64_t d : t.shape) bytes *= static_cast<uint64_t>(d);
    if (bytes != t.bytes.size()) std::abort();
    for (const std::byte b : t.bytes) sum += static_cast<unsigned>(b);
  }
  sink = sum;
  return 0;
}
