#include "plugins/engines/local/resources.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::local {
namespace {

constexpr double kRounding = 1e-6;  // sums of fractions such as a tenth of a core

// Smaller fields are not worth an entry in the table: each clone counts them as its own.
constexpr uint64_t kSharedFrom = 1024;

}  // namespace

Machine::Machine(const Tokens& total)
    : total_(total), devices_(static_cast<size_t>(std::ceil(total.gpus - 1e-9))) {}

Machine::Answer Machine::has(const Tokens& need) const {
  if (used_.gpus + need.gpus > total_.gpus + kRounding || used_.memory + need.memory > total_.memory ||
      used_.nvdec + need.nvdec > total_.nvdec + kRounding ||
      used_.nvenc + need.nvenc > total_.nvenc + kRounding)
    return Answer::no;
  return used_.cores + need.cores > total_.cores + kRounding ? Answer::wait : Answer::yes;
}

bool Machine::has(std::span<const size_t> devices, double share) const {
  return std::all_of(devices.begin(), devices.end(), [&](size_t device) {
    const double whole = std::min(1.0, total_.gpus - static_cast<double>(device));
    return devices_[device] + share <= whole + kRounding;
  });
}

void Machine::take(const Tokens& need, std::span<const size_t> devices, double share) {
  used_.cores += need.cores;
  used_.gpus += need.gpus;
  used_.memory += need.memory;
  used_.nvdec += need.nvdec;
  used_.nvenc += need.nvenc;
  for (const size_t device : devices) devices_[device] += share;
}

void Machine::give(const Tokens& need, std::span<const size_t> devices, double share) {
  used_.cores -= need.cores;
  used_.gpus -= need.gpus;
  used_.memory -= need.memory;
  used_.nvdec -= need.nvdec;
  used_.nvenc -= need.nvenc;
  for (const size_t device : devices) devices_[device] -= share;
}

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

}  // namespace kinora::local
