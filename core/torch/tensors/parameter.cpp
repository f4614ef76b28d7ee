#include "core/torch/tensors/parameter.hpp"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kernels/torch/parallel.hpp"

namespace kinora::core {
namespace {

int64_t product(const std::vector<int64_t>& v, size_t from = 0) {
  return std::accumulate(v.begin() + static_cast<std::ptrdiff_t>(std::min(from, v.size())), v.end(),
                         int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> parts_of(const kinora_param_spec& s, int64_t size) {
  if (s.n_parts <= 1) return {size};
  if (s.parts) return {s.parts, s.parts + s.n_parts};
  if (size % s.n_parts)
    raise(KINORA_ERROR_INVALID, "parameter '{}': dimension of {} is not {} equal parts", s.name, size,
          s.n_parts);
  return std::vector<int64_t>(s.n_parts, size / s.n_parts);
}

bool is_cut(uint32_t role) { return role != KINORA_ROLE_WHOLE && role != KINORA_ROLE_TABLE; }

void check_cut(const Parameter& p) {
  const int64_t size = p.shape.empty() ? 1 : p.shape[static_cast<size_t>(p.dim())];
  if (std::accumulate(p.parts.begin(), p.parts.end(), int64_t{0}) != size)
    raise(KINORA_ERROR_INVALID, "parameter '{}': its parts ({}) do not sum to {}", p.name,
          fmt::join(p.parts, " + "), size);
  if (p.shards < 1 || p.shard < 0 || p.shard >= p.shards)
    raise(KINORA_ERROR_INVALID, "parameter '{}': shard {} of {}", p.name, p.shard, p.shards);
  if (p.shards == 1) return;
  if (!is_cut(p.role))
    raise(KINORA_ERROR_INVALID, "parameter '{}' has role {} and cannot be split", p.name,
          p.role == KINORA_ROLE_TABLE ? "table" : "whole");
  for (const int64_t n : p.parts)
    if (n % (p.shards * p.quantum))
      raise(
          KINORA_ERROR_INVALID,
          "parameter '{}': a part of {} cannot be split into {} shards of whole units of {}; use fewer ranks",
          p.name, n, p.shards, p.quantum);
}

}  // namespace

std::vector<int64_t> Parameter::local_shape() const {
  auto out = shape;
  if (shards > 1) out[static_cast<size_t>(dim())] /= shards;
  return out;
}
int64_t Parameter::numel() const { return product(shape); }
int64_t Parameter::local_numel() const { return numel() / shards; }

Parameter make_parameter(const kinora_param_spec& s) {
  Parameter p;
  p.name = s.name ? s.name : "";
  if (p.name.empty()) raise(KINORA_ERROR_INVALID, "a parameter has no name");
  if (s.ndim > 0) p.shape.assign(s.shape, s.shape + s.ndim);
  for (const int64_t d : p.shape)
    if (d < 0) raise(KINORA_ERROR_INVALID, "parameter '{}': shape [{}]", p.name, fmt::join(p.shape, ", "));
  p.role = s.role;
  if (s.role > KINORA_ROLE_VOCAB)
    raise(KINORA_ERROR_INVALID, "parameter '{}': role {} is unknown", p.name, s.role);
  if (is_cut(s.role) && p.dim() >= static_cast<int64_t>(p.shape.size()))
    raise(KINORA_ERROR_INVALID, "parameter '{}' of shape [{}] has no dimension {} to be split", p.name,
          fmt::join(p.shape, ", "), p.dim());
  if (s.init > KINORA_INIT_IDENTITY)
    raise(KINORA_ERROR_INVALID, "parameter '{}': initialisation {} is unknown", p.name, s.init);
  if (s.init == KINORA_INIT_IDENTITY && p.shape.size() < 2)
    raise(KINORA_ERROR_INVALID, "parameter '{}': an identity needs two dimensions", p.name);
  p.parts = parts_of(s, p.shape.empty() ? 1 : p.shape[static_cast<size_t>(p.dim())]);
  p.quantum = std::max<int64_t>(s.quantum, 1);
  p.block = s.block;
  p.init = s.init;
  p.a = s.init_scale;
  p.frozen = s.frozen != 0;
  p.shard = s.shard;
  p.shards = std::max<int64_t>(s.shards, 1);
  check_cut(p);
  return p;
}

std::vector<Run> runs(const Parameter& p, int64_t first, int64_t count) {
  if (p.shards == 1) return {{first, first, count}};
  const auto d = static_cast<size_t>(p.dim());
  const int64_t inner = product(p.shape, d + 1), row = p.shape[d] * inner, local_row = row / p.shards,
                last = first + count;
  std::vector<Run> out;
  for (int64_t outer = local_row ? first / local_row : 0; local_row && outer * local_row < last; ++outer) {
    int64_t global = outer * row, local = outer * local_row;
    for (const int64_t part : p.parts) {
      const int64_t n = part / p.shards * inner, begin = std::max(local, first),
                    end = std::min(local + n, last);
      if (begin < end) out.push_back({global + p.shard * n + (begin - local), begin, end - begin});
      global += part * inner;
      local += n;
    }
  }
  return out;
}

at::Tensor slice(const Parameter& p, const at::Tensor& whole) {
  if (p.shards == 1) return whole.contiguous();
  std::vector<at::Tensor> pieces;
  int64_t at = 0;
  for (const int64_t part : p.parts) {
    const int64_t n = part / p.shards;
    pieces.push_back(whole.narrow(p.dim(), at + p.shard * n, n));
    at += part;
  }
  return at::cat(pieces, p.dim()).contiguous();
}

void place(const Parameter& p, const at::Tensor& local, const at::Tensor& whole) {
  int64_t at = 0, local_at = 0;
  for (const int64_t part : p.parts) {
    const int64_t n = part / p.shards;
    if (p.shape.empty()) {
      whole.copy_(local);
    } else {
      whole.narrow(p.dim(), at + p.shard * n, n).copy_(local.narrow(p.dim(), local_at, n));
    }
    at += part;
    local_at += n;
  }
}

namespace {

// Values [first, first + count) of the flattened tensor of KINORA_INIT_IDENTITY.
void fill_identity(double* to, int64_t first, int64_t count, const Parameter& p) {
  const int64_t rest = product(p.shape, 2), columns = p.shape[1];
  for (int64_t i = first; i < first + count; ++i) {
    const int64_t tap = i % rest, row = i / rest / columns, column = i / rest % columns;
    *to++ = row == column && tap == rest - 1 ? 1 : 0;
  }
}

void fill(double* to, int64_t first, int64_t count, uint64_t seed, const Parameter& p) {
  if (p.init == KINORA_INIT_IDENTITY) return fill_identity(to, first, count, p);
  if (p.init == KINORA_INIT_NORMAL) return fill_normal(to, first, count, seed, p.name);
  fill_uniform(to, first, count, seed, p.name);
  for (int64_t i = 0; i < count; ++i) to[i] = 2 * to[i] - 1;
}

}  // namespace

at::Tensor draw(const Parameter& p, uint64_t seed, at::ScalarType dtype) {
  const auto exact = dtype == at::kFloat ? at::kFloat : at::kDouble;
  auto out = at::empty(p.local_shape(), at::TensorOptions().dtype(exact));
  if (p.init == KINORA_INIT_CONSTANT) return out.fill_(p.a).to(dtype);
  const auto fill_all = [&](auto* to) {
    in_parallel(p.local_numel(), 1 << 15, [&](int64_t begin, int64_t end) {
      std::vector<double> block;
      for (const auto& run : runs(p, begin, end - begin)) {
        block.resize(static_cast<size_t>(run.count));
        fill(block.data(), run.global, run.count, seed, p);
        for (int64_t i = 0; i < run.count; ++i)
          to[run.local + i] =
              static_cast<std::remove_pointer_t<decltype(to)>>(p.a * block[static_cast<size_t>(i)]);
      }
    });
  };
  if (exact == at::kFloat) {
    fill_all(out.data_ptr<float>());
  } else {
    fill_all(out.data_ptr<double>());
  }
  return out.to(dtype);
}

}  // namespace kinora::core
