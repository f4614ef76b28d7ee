#include "core/torch/weights/weights.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/base/log.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/gathering.hpp"
#include "core/torch/weights/weights_complaint.hpp"

namespace kinora::core {
namespace {

// copy(global, local, count), in bytes.
template <class Copy>
void each_run(const Parameter& p, const Piece& piece, size_t element, Copy copy) {
  const auto bytes = [&](int64_t n) { return static_cast<size_t>(n) * element; };
  for (const auto& r : runs(p, piece.first, piece.count))
    copy(bytes(r.global), bytes(r.local - piece.first), bytes(r.count));
}

}  // namespace

Holding held(const Parameters& parameters, const std::vector<Leaf>& leaves,
             const std::vector<at::Tensor>& per_leaf, const std::string& prefix) {
  Holding out{parameters, leaves, prefix};
  for (size_t i = 0; i < leaves.size(); ++i) out.leaves[i].tensor = per_leaf.at(i);
  return out;
}

Holding held(const NamedTensors& tensors) {
  Holding out;
  for (const auto& [name, t] : tensors) {
    Parameter p;
    p.name = name;
    p.shape = t.sizes().vec();
    out.parameters.push_back(std::move(p));
    const auto id = static_cast<kinora_param>(out.parameters.size());
    out.leaves.push_back({name, t, false, false, {{id, 0, t.numel(), 0}}});
  }
  return out;
}

at::Tensor range_of(const at::Tensor& of_leaf, const Piece& p) {
  return of_leaf.detach().reshape({-1}).narrow(0, p.offset, p.count);
}

void copy_to_whole(const Parameter& p, const Piece& piece, const void* local, const at::Tensor& whole) {
  auto* to = static_cast<char*>(whole.data_ptr());
  each_run(p, piece, whole.element_size(), [&](size_t global, size_t at, size_t count) {
    std::memcpy(to + global, static_cast<const char*>(local) + at, count);
  });
}

void copy_from_whole(const Parameter& p, const Piece& piece, const at::Tensor& whole, void* local) {
  const auto* from = static_cast<const char*>(whole.data_ptr());
  each_run(p, piece, whole.element_size(), [&](size_t global, size_t at, size_t count) {
    std::memcpy(static_cast<char*>(local) + at, from + global, count);
  });
}

namespace {

struct LeafPlace {
  size_t leaf;
  Piece piece;
};

// Place of each parameter, by kinora_param - 1.
std::vector<std::vector<LeafPlace>> places_of(const Parameters& parameters, const std::vector<Leaf>& leaves) {
  std::vector<std::vector<LeafPlace>> out(parameters.size());
  for (size_t i = 0; i < leaves.size(); ++i)
    for (const auto& p : leaves[i].pieces) out.at(static_cast<size_t>(p.param - 1)).push_back({i, p});
  return out;
}

void put_whole(const Parameter& p, const std::vector<LeafPlace>& places,
               const std::vector<at::Tensor>& per_leaf, const at::Tensor& given) {
  const auto whole = given.to(at::kCPU).contiguous();
  for (const auto& [leaf, piece] : places) {
    auto local = at::empty({piece.count}, whole.options());
    copy_from_whole(p, piece, whole, local.data_ptr());
    range_of(per_leaf[leaf], piece).copy_(local);  // converts
  }
}

// Logs a line that is too long for an error, and says where it is.
std::string where_logged(const std::string& all) {
  const std::string file = log_to_files(all);
  if (!file.empty()) return " (all of them are in " + file + ")";
  log_line(KINORA_LOG_DEBUG, all);
  return " (log level debug lists all of them)";
}

}  // namespace

std::vector<at::Tensor> values_of(const std::vector<Leaf>& leaves) {
  std::vector<at::Tensor> out;
  for (const auto& l : leaves) out.push_back(l.tensor);
  return out;
}

NamedTensors assemble(const Parameters& parameters, const std::vector<Leaf>& leaves,
                      const std::vector<at::Tensor>& per_leaf, const Exchange& exchange) {
  Gathering all(exchange);
  all.add(held(parameters, leaves, per_leaf));
  const auto count = static_cast<int64_t>(all.items().size());
  NamedTensors out;
  for (int64_t i = 0; i < count; i += exchange.size()) {  // each rank makes one of them
    std::vector<int64_t> wanted;
    for (int64_t r = 0; r < exchange.size(); ++r) wanted.push_back(i + r < count ? i + r : Gathering::kNone);
    const at::Tensor mine = all.collect(wanted);
    for (int64_t r = 0; r < exchange.size() && i + r < count; ++r) {
      const auto& item = all.items()[static_cast<size_t>(i + r)];
      const auto like = [&] { return at::empty(item.shape, at::TensorOptions().dtype(item.dtype)); };
      out.emplace(item.name, exchange.from(r, r == exchange.rank() ? mine : like()));
    }
  }
  return out;
}

NamedTensors assemble(const Parameters& parameters, const std::vector<Leaf>& leaves,
                      const Exchange& exchange) {
  return assemble(parameters, leaves, values_of(leaves), exchange);
}

LoadReport distribute(const Parameters& parameters, const std::vector<Leaf>& leaves,
                      const std::vector<at::Tensor>& per_leaf, const std::vector<std::string>& names,
                      const Find& find, const LoadOptions& options) {
  const auto places = places_of(parameters, leaves);
  LoadReport report;
  std::set<std::string> expected;
  for (const auto& p : parameters) expected.insert(p.name);
  for (const auto& n : names)
    if (!expected.count(n)) report.unexpected.push_back(n);
  WeightsProblems problems;
  std::vector<Found> found(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& p = parameters[i];
    if (!places[i].empty() && !per_leaf[places[i][0].leaf].defined()) continue;  // no state
    found[i] = find(p.name);
    if (!found[i]) {
      if (!options.may_miss || !options.may_miss(p.name)) report.missing.push_back(p.name);
    } else if (found[i].shape != p.shape) {
      problems.shapes.push_back(fmt::format("'{}' is [{}] in the file and [{}] in the model", p.name,
                                            fmt::join(found[i].shape, ", "), fmt::join(p.shape, ", ")));
    } else if (!places[i].empty() && per_leaf[places[i][0].leaf].is_floating_point() &&
               at::isIntegralType(found[i].dtype, true)) {
      problems.integers.push_back(fmt::format("'{}' is {} in the file and floating-point in the model",
                                              p.name, at::toString(found[i].dtype)));
    }
  }
  if (!options.allow_missing) problems.missing = report.missing;
  std::copy_if(report.unexpected.begin(), report.unexpected.end(), std::back_inserter(problems.unexpected),
               [&](const std::string& n) { return !options.may_ignore || !options.may_ignore(n); });
  const std::vector<std::string> names_there{expected.begin(), expected.end()};
  if (const auto text = complaint(problems, names_there); !text.empty()) {
    const std::string all = complaint(problems, names_there, parameters.size() + names.size());
    raise(KINORA_ERROR_INVALID, "{} tensors were given for {} parameters: {}{}", names.size(),
          parameters.size(), text, all == text ? "" : where_logged("weights that do not fit: " + all));
  }
  if (options.compare_only) return report;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (found[i]) {
      put_whole(parameters[i], places[i], per_leaf, found[i].read());
      found[i] = Found();  // releases its pages
    }
  return report;
}

LoadReport load_values(const Parameters& parameters, const std::vector<Leaf>& leaves,
                       const std::vector<std::string>& names, const Find& find, const LoadOptions& options) {
  return distribute(parameters, leaves, values_of(leaves), names, find, options);
}

LoadReport load_values(const Parameters& parameters, const std::vector<Leaf>& leaves,
                       const NamedTensors& tensors, const LoadOptions& options) {
  std::vector<std::string> names;
  for (const auto& [name, t] : tensors) names.push_back(name);
  const auto find = [&](const std::string& name) {
    const auto it = tensors.find(name);
    return it == tensors.end() ? at::Tensor() : it->second;
  };
  return load_values(parameters, leaves, names, find, options);
}

}  // namespace kinora::core
