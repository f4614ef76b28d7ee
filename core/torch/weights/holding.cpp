#include "core/torch/weights/holding.hpp"

#include <cstring>

#include <ATen/ATen.h>

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

}  // namespace kinora::core
