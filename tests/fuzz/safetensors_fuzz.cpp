// libFuzzer entry: any bytes either parse into readable tensors, of which some are matrices in four bits or weights in
// eight bits with scales, or fail with a message.
#include <cstdlib>

#include "host/weights/packed_matrix.hpp"
#include "host/weights/safetensors.hpp"
#include "host/weights/scaled_weight.hpp"

namespace {

namespace core = kinora::core;

volatile unsigned sink;  // prevents the optimiser from removing the reads

unsigned sum_of(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte b : bytes) sum += static_cast<unsigned>(b);
  return sum;
}

// Decoding reads and allocates no more than the bytes that are there allow.
unsigned read_packed(const core::SafeTensor& t) {
  const core::PackedMatrix& m = *t.packed;
  if (t.shape.size() != 2 || t.shape[0] < 1 || t.shape[1] < 1 || t.shape[0] > m.rows || t.shape[1] > m.cols)
    std::abort();
  const auto numbers = static_cast<uint64_t>(m.rows) * static_cast<uint64_t>(m.cols);
  if (m.codes.size() * 2 != numbers || m.scales.size() * 16 != numbers || !(m.global > 0) || !(m.divide > 0))
    std::abort();
  return sum_of(m.codes) + sum_of(m.scales);
}

// Every code has a scale.
unsigned read_scaled(const core::SafeTensor& t) {
  const core::ScaledWeight& w = *t.scaled;
  const int64_t rows = t.shape.empty() ? 1 : t.shape[0];
  if (t.shape != w.codes.shape || rows < 1 || w.block_rows < 1 || w.block_cols < 1) std::abort();
  const int64_t cols = static_cast<int64_t>(w.codes.bytes.size()) / rows;
  const auto down = (rows - 1) / w.block_rows + 1, across = (cols - 1) / w.block_cols + 1;
  if (w.scale.bytes.size() != core::size_of(w.scale.dtype) * static_cast<uint64_t>(down * across))
    std::abort();
  return sum_of(w.codes.bytes) + sum_of(w.scale.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto parsed = core::parse_safetensors({reinterpret_cast<const std::byte*>(data), size}, "input");
  if (!parsed) {
    if (parsed.failure().message.empty()) std::abort();
    return 0;
  }
  unsigned sum = 0;
  for (const auto& t : parsed->tensors) {
    uint64_t bytes = core::size_of(t.dtype);
    for (const int64_t d : t.shape) bytes *= static_cast<uint64_t>(d);
    if (bytes != t.bytes.size()) std::abort();
    sum += sum_of(t.bytes);
  }
  auto joined = core::join_packed(parsed->tensors, parsed->metadata, "no folder", "input");
  if (joined) joined = core::join_scaled(parsed->tensors, parsed->metadata, "no folder", "input");
  if (!joined && joined.failure().message.find("input: ") != 0) std::abort();
  if (joined)
    for (const auto& t : parsed->tensors) {
      if (t.packed) sum += read_packed(t);
      if (t.scaled) sum += read_scaled(t);
    }
  sink = sum;
  return 0;
}
