#include "kernels/torch/norm_rope.hpp"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "kernels/cpu/norm_rope.hpp"
#include "kernels/torch/gpu.hpp"
#include "kernels/torch/node.hpp"

namespace kinora {
namespace {

using at::Tensor;
using namespace node;

// Heads [first, first + count) of each group of x [B, S, G, n, d].
struct Part {
  int64_t first, count;
};
template <class T>
TokenHeads<T> heads_at(const Tensor& x, int64_t b, int64_t token, int64_t head) {
  return {x.data_ptr<float>() + b * x.stride(0) + token * x.stride(1) + head * x.stride(3), x.stride(1),
          x.stride(2)};
}
Turn turn_at(const Tensor& cos, const Tensor& sin, bool neighbours, int64_t b, int64_t token) {
  if (!cos.defined()) return {};
  const int64_t row = cos.stride(1), at = (cos.size(0) == 1 ? 0 : b * cos.stride(0)) + token * row;
  return {cos.data_ptr<float>() + at, sin.data_ptr<float>() + at, row, neighbours};
}
Tensor with_dense_heads(const Tensor& x) { return x.stride(4) == 1 ? x : x.contiguous(); }

// One part of x: the operation on it, forward and backward.
struct PartNode {
  const Tensor &x, &weight, &cos, &sin;
  Part part;
  bool neighbours;

  HeadShape shape(int64_t tokens) const { return {tokens, x.size(2), x.size(4)}; }
  Blocks blocks() const { return {x.size(0), x.size(1)}; }
  const float* weights() const { return weight.defined() ? weight.data_ptr<float>() : nullptr; }
  // rms [heads of a group, B, S, G]
  static float* rms_at(const Tensor& rms, int64_t h, int64_t b, int64_t token) {
    return rms.data_ptr<float>() + ((h * rms.size(1) + b) * rms.size(2) + token) * rms.size(3);
  }
  Tensor empty_rms() const {
    return at::empty({part.count, x.size(0), x.size(1), weight.defined() ? x.size(2) : 0}, x.options());
  }

  Tensor forward(const Tensor& rms, double epsilon) const {
    const Tensor y = at::empty({x.size(0), x.size(1), x.size(2), part.count, x.size(4)}, x.options());
    blocks().each([&](int64_t, int64_t b, int64_t first, int64_t count) {
      for (int64_t h = 0; h < part.count; ++h)
        norm_rope_forward(shape(count), epsilon, heads_at<const float>(x, b, first, part.first + h),
                          weights(), turn_at(cos, sin, neighbours, b, first), heads_at<float>(y, b, first, h),
                          rms_at(rms, h, b, first));
    });
    return y;
  }

  // Fills its part of grad_x; returns the weight's gradient.
  Tensor backward(const Tensor& given, const Tensor& rms, const Tensor& grad_x) const {
    if (!given.defined()) {
      grad_x.narrow(3, part.first, part.count).zero_();
      return {};
    }
    const Tensor grad = with_dense_heads(given);
    const int64_t rows = part.count, d = x.size(4);
    const Tensor sums = weight.defined() ? at::empty({blocks().count() * rows, d}, x.options()) : Tensor();
    blocks().each([&](int64_t i, int64_t b, int64_t first, int64_t count) {
      for (int64_t h = 0; h < rows; ++h)
        norm_rope_backward(shape(count), heads_at<const float>(grad, b, first, h),
                           heads_at<const float>(x, b, first, part.first + h), weights(),
                           turn_at(cos, sin, neighbours, b, first), rms_at(rms, h, b, first),
                           heads_at<float>(grad_x, b, first, part.first + h),
                           sums.defined() ? sums.data_ptr<float>() + (i * rows + h) * d : nullptr);
    });
    return sums.defined() ? total(sums) : Tensor();
  }
};

// x [B, S, G, n, d] -> queries and keys [B, S, G, heads, d], values as a view of x: those that
// exist.
struct NormRope : torch::autograd::Function<NormRope> {
  static variable_list forward(AutogradContext* ctx, const Tensor& given, const Maybe& given_q,
                               const Maybe& given_k, const Maybe& given_cos, const Maybe& given_sin,
                               bool neighbours, int64_t queries, double epsilon) {
    const Tensor x = with_dense_heads(given), weight_q = tensor_of(given_q), weight_k = tensor_of(given_k),
                 cos = tensor_of(given_cos), sin = tensor_of(given_sin);
    variable_list out, saved{x, weight_q, weight_k, cos, sin};
    const auto add = [&](const Tensor& weight, Part part) {
      const PartNode one{x, weight, cos, sin, part, neighbours};
      saved.push_back(one.empty_rms());
      out.push_back(one.forward(saved.back(), epsilon));
    };
    if (queries > 0) add(weight_q, {0, queries});
    if (queries < x.size(3)) {
      add(weight_k, {queries, 1});
      const at::AutoDispatchBelowADInplaceOrView not_a_view_for_autograd;
      out.push_back(x.narrow(3, queries + 1, 1));
    }
    ctx->save_for_backward(saved);
    ctx->saved_data["neighbours"] = neighbours;
    ctx->saved_data["queries"] = queries;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight_q = saved[1], &weight_k = saved[2], &cos = saved[3], &sin = saved[4];
    const bool neighbours = ctx->saved_data["neighbours"].toBool();
    const int64_t queries = ctx->saved_data["queries"].toInt();
    const Tensor grad_x = at::empty(x.sizes(), x.options()), none;
    Tensor grad_q, grad_k;
    size_t i = 0;
    if (queries > 0) {
      grad_q = PartNode{x, weight_q, cos, sin, {0, queries}, neighbours}.backward(grads[0], saved[5], grad_x);
      ++i;
    }
    if (queries < x.size(3)) {
      const Tensor no_rms = at::empty({1, 0, 0, 0}, x.options());
      grad_k =
          PartNode{x, weight_k, cos, sin, {queries, 1}, neighbours}.backward(grads[i], saved[5 + i], grad_x);
      PartNode{x, none, none, none, {queries + 1, 1}, false}.backward(grads[i + 1], no_rms, grad_x);
    }
    return once({grad_x, grad_q, grad_k, {}, {}, {}, {}, {}}, "norm_rope");
  }
};

bool weighs(const Tensor& weight, int64_t size) {
  return !weight.defined() || (weight.is_contiguous() && weight.sizes() == at::IntArrayRef{size});
}
bool turns(const Rotation& r, const Tensor& x) {
  if (!r.cos.defined()) return true;
  const auto one = [&](const Tensor& t) {
    return t.defined() && !t.requires_grad() && t.dim() == x.dim() && t.size(1) == x.size(1) &&
           (t.size(0) == 1 || t.size(0) == x.size(0)) && 2 * t.size(-1) == x.size(-1) &&
           t.numel() == t.size(0) * t.size(1) * t.size(-1);
  };
  return one(r.cos) && one(r.sin) && r.cos.size(0) == r.sin.size(0);
}

enum class Place { cpu, gpu, aten };
Place place_of(const Tensor& x, const Tensor& weight_q, const Tensor& weight_k, const Rotation& r) {
  const int64_t d = x.size(-1);
  if (!turns(r, x) || !weighs(weight_q, d) || !weighs(weight_k, d)) return Place::aten;
  const auto can = [](const Tensor& t) { return !t.defined() || fits(t); };
  if (fits(x) && can(weight_q) && can(weight_k) && can(r.cos) && can(r.sin) && d <= kLargestHead)
    return Place::cpu;
  return gpu::fits_heads(x, weight_q, weight_k, r.cos, r.sin) ? Place::gpu : Place::aten;
}

// place: not aten.
variable_list fused(Place place, const Tensor& x, const Tensor& weight_q, const Tensor& weight_k,
                    const Rotation& r, int64_t queries, double epsilon) {
  const auto angles = [&](const Tensor& t) {
    return t.defined() ? t.reshape({t.size(0), t.size(1), t.size(-1)}).contiguous() : t;
  };
  const Tensor cos = angles(r.cos), sin = angles(r.sin);
  if (place == Place::gpu)
    return gpu::norm_rope(x, weight_q, weight_k, cos, sin, r.neighbours, queries, epsilon);
  return apply<NormRope>(x, maybe(weight_q), maybe(weight_k), maybe(cos), maybe(sin), r.neighbours, queries,
                         epsilon);
}

Tensor rotated(const Tensor& x, const Rotation& r) {
  if (r.neighbours) {
    const Tensor pairs = x.unflatten(-1, {-1, 2}), a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    return at::stack({a * r.cos - b * r.sin, a * r.sin + b * r.cos}, -1).flatten(-2).to(x.scalar_type());
  }
  const auto half = x.size(-1) / 2;
  const Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * r.cos - b * r.sin, b * r.cos + a * r.sin}, -1).to(x.scalar_type());
}

Tensor plain(const Tensor& x, const Tensor& weight, const Rotation& r, double epsilon) {
  const Tensor normed = weight.defined() ? at::rms_norm(x, {x.size(-1)}, weight, epsilon) : x;
  return r.cos.defined() ? rotated(normed, r) : normed;
}

}  // namespace

Tensor norm_rope(const Tensor& x, const Tensor& weight, const Rotation& r, double epsilon) {
  const Place place = x.dim() == 4 || x.dim() == 5 ? place_of(x, weight, {}, r) : Place::aten;
  if (place == Place::aten) return plain(x, weight, r, epsilon);
  const Tensor grouped = x.dim() == 5 ? x : x.unsqueeze(3);
  return fused(place, grouped, weight, {}, r, grouped.size(3), epsilon)[0].view(x.sizes());
}

QueryKeyValue norm_rope_qkv(const Tensor& x, const Tensor& weight_q, const Tensor& weight_k,
                            const Rotation& r, double epsilon) {
  const int64_t queries = x.size(3) - 2;
  const Place place = place_of(x, weight_q, weight_k, r);
  if (place != Place::aten) {
    const auto made = fused(place, x, weight_q, weight_k, r, queries, epsilon);
    return queries > 0 ? QueryKeyValue{made[0], made[1], made[2]} : QueryKeyValue{{}, made[0], made[1]};
  }
  return {queries > 0 ? plain(x.narrow(3, 0, queries), weight_q, r, epsilon) : Tensor(),
          plain(x.narrow(3, queries, 1), weight_k, r, epsilon), x.narrow(3, queries + 1, 1)};
}

}  // namespace kinora
