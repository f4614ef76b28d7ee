#include "core/torch/weights/weights.hpp"

#include <cstring>
#include <set>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/weights_complaint.hpp"

namespace kinora::core {
namespace {

struct Place {
  size_t leaf;
  Piece piece;
};

// Where each parameter lies, by kinora_param - 1.
std::vector<std::vector<Place>> places_of(const Parameters& parameters, const std::vector<Leaf>& leaves) {
  std::vector<std::vector<Place>> out(parameters.size());
  for (size_t i = 0; i < leaves.size(); ++i)
    for (const auto& p : leaves[i].pieces) out.at(static_cast<size_t>(p.param - 1)).push_back({i, p});
  return out;
}

// The range of a leaf's tensor that a piece is, flat.
at::Tensor range_of(const at::Tensor& of_leaf, const Piece& p) {
  return of_leaf.detach().reshape({-1}).narrow(0, p.offset, p.count);
}

void copy_runs(const Parameter& p, const Piece& piece, const at::Tensor& from_flat, const at::Tensor& to_flat,
               bool to_whole) {
  const auto size = static_cast<size_t>(from_flat.element_size());
  const auto* from = static_cast<const char*>(from_flat.data_ptr());
  auto* to = static_cast<char*>(to_flat.data_ptr());
  for (const auto& r : runs(p, piece.first, piece.count)) {
    const auto whole = static_cast<size_t>(r.global) * size,
               local = static_cast<size_t>(r.local - piece.first) * size;
    std::memcpy(to + (to_whole ? whole : local), from + (to_whole ? local : whole),
                static_cast<size_t>(r.count) * size);
  }
}

at::Tensor whole_of(const Parameter& p, const std::vector<Place>& places, const std::vector<Leaf>& leaves,
                    const std::vector<at::Tensor>& per_leaf, const Exchange& exchange) {
  const auto dtype = places.empty() ? at::kFloat : per_leaf[places[0].leaf].scalar_type();
  auto whole = at::zeros(p.shape, at::TensorOptions().dtype(dtype));
  for (const auto& [leaf, piece] : places)
    if (!exchange.mine || exchange.mine(leaves[leaf], piece))
      copy_runs(p, piece, range_of(per_leaf[leaf], piece).to(at::kCPU).contiguous(), whole, true);
  if (exchange.sum) exchange.sum(whole);
  return whole;
}

void put_whole(const Parameter& p, const std::vector<Place>& places, const std::vector<at::Tensor>& per_leaf,
               const at::Tensor& given) {
  for (const auto& [leaf, piece] : places) {
    const auto whole =
        given.to(at::TensorOptions().device(at::kCPU).dtype(per_leaf[leaf].scalar_type())).contiguous();
    auto local = at::empty({piece.count}, whole.options());
    copy_runs(p, piece, whole, local, false);
    range_of(per_leaf[leaf], piece).copy_(local);
  }
}

std::vector<at::Tensor> tensors_of(const std::vector<Leaf>& leaves) {
  std::vector<at::Tensor> out;
  for (const auto& l : leaves) out.push_back(l.tensor);
  return out;
}

}  // namespace

NamedTensors assemble(const Parameters& parameters, const std::vector<Leaf>& leaves,
                      const std::vector<at::Tensor>& per_leaf, const Exchange& exchange) {
  const auto places = places_of(parameters, leaves);
  NamedTensors out;
  for (size_t i = 0; i < parameters.size(); ++i) {
    // Frozen parameters have no optimizer state, on any rank.
    const bool absent = !places[i].empty() && !per_leaf[places[i][0].leaf].defined();
    if (!absent)
      out.emplace(parameters[i].name, whole_of(parameters[i], places[i], leaves, per_leaf, exchange));
  }
  return out;
}

NamedTensors assemble(const Parameters& parameters, const std::vector<Leaf>& leaves,
                      const Exchange& exchange) {
  return assemble(parameters, leaves, tensors_of(leaves), exchange);
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
  std::vector<at::Tensor> found(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& p = parameters[i];
    if (!places[i].empty() && !per_leaf[places[i][0].leaf].defined()) continue;  // no state
    found[i] = find(p.name);
    if (!found[i].defined()) {
      if (!options.may_miss || !options.may_miss(p.name)) report.missing.push_back(p.name);
    } else if (found[i].sizes() != at::IntArrayRef(p.shape)) {
      problems.shapes.push_back(fmt::format("'{}' is {} in the file and [{}] in the model", p.name,
                                            c10::str(found[i].sizes()), fmt::join(p.shape, ", ")));
    }
  }
  if (!options.allow_missing) problems.missing = report.missing;
  if (!options.allow_unexpected) problems.unexpected = report.unexpected;
  const auto text = complaint(problems, {expected.begin(), expected.end()});
  if (!text.empty()) raise(KINORA_INVALID, "the weights do not fit the model: {}", text);
  if (options.compare_only) return report;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (found[i].defined()) {
      put_whole(parameters[i], places[i], per_leaf, found[i]);
      found[i].reset();  // its pages go with it
    }
  return report;
}

LoadReport load_values(const Parameters& parameters, const std::vector<Leaf>& leaves,
                       const std::vector<std::string>& names, const Find& find, const LoadOptions& options) {
  return distribute(parameters, leaves, tensors_of(leaves), names, find, options);
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
