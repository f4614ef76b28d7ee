#include "plugins/engines/common/machine.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::engines {
namespace {

constexpr double kRounding = 1e-6;  // sums of fractions such as a tenth of a core

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

}  // namespace kinora::engines
