#include "plugins/engines/common/machine.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::engines {
namespace {

constexpr double kRounding = 1e-6;  // sums of fractions such as a tenth of a core

}  // namespace

void Machine::add(const Tokens& node) {
  nodes_.push_back({node, {}, std::vector<double>(static_cast<size_t>(std::ceil(node.gpus - 1e-9)))});
  ++left_;
}

void Machine::lose(size_t node) {
  left_ -= !nodes_[node].lost;
  nodes_[node].lost = true;
}

Tokens Machine::total() const {
  Tokens out;
  for (const Node& node : nodes_) {
    if (node.lost) continue;
    out.cores += node.total.cores;
    out.gpus += node.total.gpus;
    out.memory += node.total.memory;
    out.nvdec += node.total.nvdec;
    out.nvenc += node.total.nvenc;
  }
  return out;
}

std::vector<Tokens> Machine::left() const {
  std::vector<Tokens> out;
  for (const Node& node : nodes_) out.push_back(node.lost ? Tokens{} : node.total);
  return out;
}

Machine::Answer Machine::has(size_t node, const Tokens& need) const {
  return nodes_[node].held ? Answer::no : could(node, need);
}

Machine::Answer Machine::could(size_t node, const Tokens& need) const {
  const auto& [total, used, devices, lost, held] = nodes_[node];
  if (used.gpus + need.gpus > total.gpus + kRounding || used.memory + need.memory > total.memory ||
      used.nvdec + need.nvdec > total.nvdec + kRounding || used.nvenc + need.nvenc > total.nvenc + kRounding)
    return Answer::no;
  return used.cores + need.cores > total.cores + kRounding ? Answer::wait : Answer::yes;
}

bool Machine::has_cores(size_t node, double cores) const { return free_cores(node) >= cores - kRounding; }

bool Machine::hold(size_t node) {
  nodes_[node].held = true;
  held_.push_back(node);
  return held_.size() >= left_;
}

void Machine::release() {
  for (const size_t node : held_) nodes_[node].held = false;
  held_.clear();
}

bool Machine::has(size_t node, std::span<const size_t> devices, double share) const {
  const Node& n = nodes_[node];
  return std::all_of(devices.begin(), devices.end(), [&](size_t device) {
    const double whole = std::min(1.0, n.total.gpus - static_cast<double>(device));
    return n.devices[device] + share <= whole + kRounding;
  });
}

void Machine::take(size_t node, const Tokens& need, std::span<const size_t> devices, double share) {
  Node& n = nodes_[node];
  n.used.cores += need.cores;
  n.used.gpus += need.gpus;
  n.used.memory += need.memory;
  n.used.nvdec += need.nvdec;
  n.used.nvenc += need.nvenc;
  for (const size_t device : devices) n.devices[device] += share;
}

void Machine::give(size_t node, const Tokens& need, std::span<const size_t> devices, double share) {
  Node& n = nodes_[node];
  n.used.cores -= need.cores;
  n.used.gpus -= need.gpus;
  n.used.memory -= need.memory;
  n.used.nvdec -= need.nvdec;
  n.used.nvenc -= need.nvenc;
  for (const size_t device : devices) n.devices[device] -= share;
}

std::optional<size_t> Machine::freest(std::span<const size_t> devices) const {
  std::optional<size_t> best;
  double most = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& n = nodes_[i];
    if (n.lost ||
        std::any_of(devices.begin(), devices.end(), [&](size_t d) { return d >= n.devices.size(); }))
      continue;
    const double left = free_cores(i);
    if (!best || left > most) best = i, most = left;
  }
  return best;
}

}  // namespace kinora::engines
