#include "core/torch/weights/partial_init.hpp"

#include <algorithm>
#include <set>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

// The parameter's drawn initial values, whole.
at::Tensor drawn(Parameter p, uint64_t seed) {
  p.shard = 0;
  p.shards = 1;
  return draw(p, seed, at::kDouble);
}

at::Tensor resized(const Parameter& p, const at::Tensor& given, uint64_t seed) {
  const at::Tensor whole = drawn(p, seed);
  at::Tensor to = whole, from = given;
  for (int64_t d = 0; d < whole.dim(); ++d) {
    const int64_t both = std::min(whole.size(d), given.size(d));
    to = to.narrow(d, 0, both);
    from = from.narrow(d, 0, both);
  }
  to.copy_(from);
  return whole;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

size_t PartialReport::count(PartialRow::Fate fate) const {
  return static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const PartialRow& r) { return r.fate == fate; }));
}

std::string PartialReport::text() const {
  std::string out =
      fmt::format("{} taken, {} resized, {} new, {} unused", count(PartialRow::taken),
                  count(PartialRow::resized), count(PartialRow::fresh), count(PartialRow::unused));
  for (const auto& r : rows) {
    if (r.fate == PartialRow::resized)
      out += fmt::format("\nresized  {}  {} from {}", r.name, shape_text(r.shape), shape_text(r.in_file));
    if (r.fate == PartialRow::fresh)
      out += fmt::format("\nnew      {}  {}{}", r.name, shape_text(r.shape),
                         r.in_file.empty() ? "" : ", the file's is " + shape_text(r.in_file));
    if (r.fate == PartialRow::unused) out += fmt::format("\nunused   {}  {}", r.name, shape_text(r.in_file));
  }
  return out;
}

PartialReport load_partially(const Parameters& parameters, const std::vector<Leaf>& leaves,
                             const std::vector<std::string>& names, const Find& find,
                             const PartialOptions& options) {
  PartialReport report;
  std::set<std::string> used;
  NamedTensors whole;
  for (const auto& p : parameters) {
    const std::string name = options.name_in_file ? options.name_in_file(p.name) : p.name;
    const Found given = find(name);
    PartialRow row{p.name, p.shape, given.shape, PartialRow::fresh};
    if (given && given.shape == p.shape) {
      row.fate = PartialRow::taken;
      whole[p.name] = given.read();
    } else if (given && given.shape.size() == p.shape.size()) {
      row.fate = PartialRow::resized;
      whole[p.name] = resized(p, given.read().to(at::kCPU, at::kDouble), options.seed);
    } else {
      whole[p.name] = drawn(p, options.seed);
    }
    if (row.fate != PartialRow::fresh) used.insert(name);
    report.rows.push_back(std::move(row));
  }
  if (used.empty())
    raise(KINORA_ERROR_INVALID,
          "the weights have none of the model's {} parameters, the first of which is '{}'", parameters.size(),
          parameters.empty() ? "" : parameters[0].name);
  for (const auto& n : names)
    if (!used.count(n)) report.rows.push_back({n, {}, find(n).shape, PartialRow::unused});
  load_values(parameters, leaves, whole);
  return report;
}

PartialReport load_partially(const Parameters& parameters, const std::vector<Leaf>& leaves,
                             const NamedTensors& tensors, const PartialOptions& options) {
  std::vector<std::string> names;
  for (const auto& [name, t] : tensors) names.push_back(name);
  const auto find = [&](const std::string& name) {
    const auto it = tensors.find(name);
    return it == tensors.end() ? at::Tensor() : it->second;
  };
  return load_partially(parameters, leaves, names, find, options);
}

std::function<std::string(const std::string&)> shifted(std::string prefix, int64_t by) {
  return [prefix = std::move(prefix), by](const std::string& name) -> std::string {
    if (name.rfind(prefix, 0) != 0) return name;
    const auto end = name.find_first_not_of("0123456789", prefix.size());
    if (end == prefix.size() || end == std::string::npos || end > prefix.size() + 9) return name;
    const int64_t n = std::stoll(name.substr(prefix.size(), end - prefix.size())) + by;
    return n < 0 ? "" : prefix + std::to_string(n) + name.substr(end);
  };
}

}  // namespace kinora::core
