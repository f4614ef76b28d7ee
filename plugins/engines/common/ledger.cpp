#include "plugins/engines/common/ledger.hpp"

#include <algorithm>

namespace kinora::engines {
namespace {

// Smaller fields are not worth an entry in the table: each clone counts them as its own.
constexpr uint64_t kSharedFrom = 1024;

}  // namespace

Weight weigh(const Sample& sample) {
  Weight out;
  uint64_t shared = 0;
  for (const auto& field : sample.fields()) {
    if (field.bytes.size() < kSharedFrom) continue;
    out.shared.emplace_back(field.bytes.data(), field.bytes.size());
    shared += field.bytes.size();
  }
  const uint64_t all = sample.memory();
  out.own = all > shared ? all - shared : 0;
  return out;
}

void ByteSum::count(const Weight& weight) {
  now_ += weight.own;
  for (const auto& block : weight.shared)
    if (++blocks_[block] == 1) now_ += block.second;
}

void ByteSum::add(const Weight& weight) {
  count(weight);
  peak_ = std::max(peak_, now_);
}

void ByteSum::remove(const Weight& weight) {
  now_ -= weight.own;
  for (const auto& block : weight.shared) {
    const auto at = blocks_.find(block);
    if (--at->second != 0) continue;
    now_ -= block.second;
    blocks_.erase(at);
  }
}

uint64_t ByteSum::after(const Weight& in, const Weight* out) {
  count(in);
  if (out) remove(*out);
  const uint64_t answer = now_;
  if (out) count(*out);
  remove(in);
  return answer;
}

}  // namespace kinora::engines
