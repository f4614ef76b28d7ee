#include "kernels/torch/gpu.hpp"

#include <array>
#include <atomic>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "kernels/torch/node.hpp"
#include "kinora/abi/cuda.h"
#include "kinora/aten.hpp"

namespace kinora::gpu {

// A table never changes; "not open" may, so it is asked for again.
const kinora_cuda_api* library() {
  static std::atomic<const kinora_cuda_api*> known{nullptr};
  const kinora_cuda_api* found = known.load(std::memory_order_acquire);
  if (found || !host()) return found;
  found = static_cast<const kinora_cuda_api*>(host()->get_interface(host(), KINORA_INTERFACE_CUDA, 0));
  if (!found) set_error(KINORA_OK, "");  // the reason is not one for a later error
  known.store(found, std::memory_order_release);
  return found;
}

namespace {

using at::Tensor;
using namespace node;

constexpr int64_t kMostHeadWidth = 512;

// f(the library's table, handles of n results), a call of the table.
template <size_t n, class F>
std::array<Tensor, n> made(const F& f) {
  std::array<kinora_tensor, n> handles{};
  check(f(*library(), handles.data()));
  std::array<Tensor, n> out;
  for (size_t i = 0; i < n; ++i) out[i] = adopt<Tensor>(handles[i]);
  return out;
}

struct Modulate : torch::autograd::Function<Modulate> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& shift, const Tensor& scale,
                        double epsilon) {
    const auto out = made<3>([&](const kinora_cuda_api& cuda, kinora_tensor* to) {
      return cuda.modulate(handle(x), handle(scale), handle(shift), epsilon, to);
    });
    ctx->save_for_backward({x, scale, shift, out[1], out[2]});
    return out[0];
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &scale = saved[1], &shift = saved[2], &mean = saved[3], &rstd = saved[4];
    const auto out = made<3>([&](const kinora_cuda_api& cuda, kinora_tensor* to) {
      return cuda.modulate_backward(handle(grads[0]), handle(x), handle(scale), handle(shift), handle(mean),
                                    handle(rstd), to);
    });
    return once({out[0], out[2], out[1], {}}, "modulate");
  }
};

struct Gated : torch::autograd::Function<Gated> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& y, const Tensor& gate) {
    const auto out = made<1>([&](const kinora_cuda_api& cuda, kinora_tensor* to) {
      return cuda.gated(handle(x), handle(y), handle(gate), to);
    });
    ctx->save_for_backward({y, gate});
    return out[0];
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &y = saved[0], &gate = saved[1];
    const auto out = made<2>([&](const kinora_cuda_api& cuda, kinora_tensor* to) {
      return cuda.gated_backward(handle(grads[0]), handle(y), handle(gate), to);
    });
    return once({grads[0], out[0], out[1]}, "gated");
  }
};

struct BiasGelu : torch::autograd::Function<BiasGelu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& bias, int64_t form) {
    const auto out = made<1>([&](const kinora_cuda_api& cuda, kinora_tensor* to) {
      return cuda.gelu(handle(x), handle(bias), static_cast<uint32_t>(form), 0, to);
    });
    ctx->save_for_backward({x, bias});
    ctx->saved_data["form"] = form;
    return out[0];
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &bias = saved[1];
    const auto form = static_cast<uint32_t>(ctx->saved_data["form"].toInt());
    const auto out = made<2>([&](const kinora_cuda_api& cuda, kinora_tensor* to) {
      return cuda.gelu_backward(handle(grads[0]), handle(x), handle(bias), form, 0, to);
    });
    return once({out[0], out[1], {}}, "gelu");
  }
};

uint32_t turn_of(bool neighbours) { return neighbours ? KINORA_ROPE_PAIRS : KINORA_ROPE_HALVES; }

struct NormRope : torch::autograd::Function<NormRope> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Maybe& weight_q,
                               const Maybe& weight_k, const Maybe& given_cos, const Maybe& given_sin,
                               bool neighbours, int64_t queries, double epsilon) {
    const Tensor cos = tensor_of(given_cos), sin = tensor_of(given_sin);
    // Only the norm's gradient needs x.
    variable_list out,
        saved{weight_q || weight_k ? x : Tensor(), tensor_of(weight_q), tensor_of(weight_k), cos, sin};
    const auto add = [&](const Maybe& given, int64_t first, int64_t count) {
      const Tensor weight = tensor_of(given), part = x.narrow(3, first, count);
      const auto results = made<2>([&](const kinora_cuda_api& cuda, kinora_tensor* to) {
        return cuda.norm_rope(handle(part), handle(weight), handle(cos), handle(sin), turn_of(neighbours), 0,
                              epsilon, to);
      });
      out.push_back(results[0]);
      saved.push_back(results[1]);
    };
    if (queries > 0) add(weight_q, 0, queries);
    if (queries < x.size(3)) {
      add(weight_k, queries, 1);
      const at::AutoDispatchBelowADInplaceOrView not_a_view_for_autograd;
      out.push_back(x.narrow(3, queries + 1, 1));
    }
    ctx->save_for_backward(saved);
    ctx->saved_data["neighbours"] = neighbours;
    ctx->saved_data["queries"] = queries;
    ctx->saved_data["heads"] = x.size(3);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const uint32_t turn = turn_of(ctx->saved_data["neighbours"].toBool());
    const int64_t queries = ctx->saved_data["queries"].toInt(), heads = ctx->saved_data["heads"].toInt();
    auto sizes = grads[0].sizes().vec();
    sizes[3] = heads;
    const Tensor grad_x = at::empty(sizes, grads[0].options());
    // Fills the part of output i; returns the gradient of its weight.
    const auto fill = [&](size_t i, const Tensor& weight, int64_t first, int64_t count) {
      const Tensor x = weight.defined() ? saved[0].narrow(3, first, count) : Tensor(),
                   part = grad_x.narrow(3, first, count);
      return made<1>([&](const kinora_cuda_api& cuda, kinora_tensor* to) {
        return cuda.norm_rope_backward(handle(grads[i]), handle(x), handle(weight), handle(saved[3]),
                                       handle(saved[4]), handle(saved[5 + i]), turn, 0, handle(part), to);
      })[0];
    };
    Tensor grad_q, grad_k;
    size_t i = 0;
    if (queries > 0) grad_q = fill(i++, saved[1], 0, queries);
    if (queries < heads) {
      grad_k = fill(i, saved[2], queries, 1);
      grad_x.narrow(3, queries + 1, 1).copy_(grads[i + 1].detach());
    }
    return once({grad_x, grad_q, grad_k, {}, {}, {}, {}, {}}, "norm_rope");
  }
};

}  // namespace

bool fits(std::initializer_list<Tensor> all) {
  const Tensor& first = *all.begin();
  if (!first.defined() || !first.is_cuda() || first.numel() == 0 ||
      (first.scalar_type() != at::kFloat && first.scalar_type() != at::kBFloat16))
    return false;
  for (const Tensor& t : all)
    if (t.defined() && (t.device() != first.device() || t.scalar_type() != first.scalar_type() ||
                        t.layout() != at::kStrided))
      return false;
  return library() != nullptr;
}

bool fits_heads(const Tensor& x, const Tensor& weight_q, const Tensor& weight_k, const Tensor& cos,
                const Tensor& sin) {
  const auto turns = [&](const Tensor& t) {
    return !t.defined() || (t.device() == x.device() && t.scalar_type() == at::kFloat && !t.requires_grad());
  };
  return fits({x, weight_q, weight_k}) && x.size(-1) % 2 == 0 && x.size(-1) <= kMostHeadWidth && turns(cos) &&
         turns(sin);
}

Tensor modulate(const Tensor& x, const Tensor& shift, const Tensor& scale, double epsilon) {
  return apply<Modulate>(x, shift, scale, epsilon);
}

Tensor gated(const Tensor& x, const Tensor& y, const Tensor& gate) { return apply<Gated>(x, y, gate); }

Tensor gelu(const Tensor& x, const Tensor& bias, Gelu form) {
  return apply<BiasGelu>(x, bias,
                         static_cast<int64_t>(form == Gelu::exact ? KINORA_GELU_EXACT : KINORA_GELU_TANH));
}

variable_list norm_rope(const Tensor& x, const Tensor& weight_q, const Tensor& weight_k, const Tensor& cos,
                        const Tensor& sin, bool neighbours, int64_t queries, double epsilon) {
  return apply<NormRope>(x, maybe(weight_q), maybe(weight_k), maybe(cos), maybe(sin), neighbours, queries,
                         epsilon);
}

void merge_attention(const Tensor& out, const Tensor& log_sum, const Tensor& more,
                     const Tensor& more_log_sum) {
  check(library()->merge_attention(handle(out), handle(log_sum), handle(more), handle(more_log_sum)));
}

void adamw(const Tensor& weight, const Tensor& gradient, const Tensor& first, const Tensor& second,
           const std::vector<Tensor>& averages, kinora_cuda_adamw numbers) {
  std::vector<kinora_tensor> handles;
  for (const Tensor& a : averages) handles.push_back(handle(a));
  numbers.struct_size = sizeof numbers;
  numbers.n_averages = static_cast<uint32_t>(handles.size());
  numbers.averages = handles.data();
  check(library()->adamw(handle(weight), handle(gradient), handle(first), handle(second), &numbers));
}

}  // namespace kinora::gpu
