#include "kernels/torch/fp8_attention.hpp"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/torch/gpu.hpp"
#include "kinora/aten.hpp"
#include "kinora/autograd.hpp"

namespace kinora::gpu {

using at::Tensor;

// cuDNN's plans for one device.
struct Fp8Attention::Plans {
  const kinora_cuda_api& cuda;
  kinora_cuda_attention* self;
  bool fp8_backward;
  Plans(const kinora_cuda_api& library, kinora_cuda_attention* opened, bool fp8)
      : cuda(library), self(opened), fp8_backward(fp8) {}
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;
  ~Plans() { cuda.attention_close(self); }
};

namespace {

constexpr double kE4m3 = 448, kE5m2 = 57344;

// A sample's factors [B, 1, H, 1] for its rows of x.
Tensor for_rows(const Tensor& factor, const Tensor& x) {
  return factor.size(0) == x.size(0) ? factor : factor.repeat_interleave(x.size(0) / factor.size(0), 0);
}
Tensor codes(const Tensor& x, const Tensor& factor, at::ScalarType type) {
  return (x.detach().to(at::kFloat) * for_rows(factor, x)).to(type).contiguous();
}
Tensor decoded(const Tensor& x, const Tensor& factor) {
  return (x.to(at::kFloat) / for_rows(factor, x)).to(at::kBFloat16);
}
// The largest number of each head of a sample: x [B G, rows, H, n] -> [B, 1, H, 1].
Tensor largest(const Tensor& x, int64_t samples) {
  return x.unflatten(0, {samples, -1}).amax({1, 2, 4}).view({samples, 1, -1, 1});
}
// limit / most, at most a number whose inverse is a normal one: zeros stay zeros.
Tensor up_to(double limit, const Tensor& most) { return (limit / most).clamp_max(1e30); }
Tensor norms(const Tensor& x) { return at::linalg_vector_norm(x, 2, at::IntArrayRef{3}, /*keepdim=*/true); }

// One attention, from its forward to its backward.
class Call {
 public:
  Call(std::shared_ptr<Fp8Attention::Plans> plans, const HeadFactors& factors, double scale, bool gradient)
      : plans_(std::move(plans)), factors_(factors), scale_(scale), gradient_(gradient) {}

  std::vector<Tensor> forward(const std::vector<Tensor>& in) {
    q_ = codes(in[0], factors_.q, at::kFloat8_e4m3fn);
    k_ = codes(in[1], factors_.k, at::kFloat8_e4m3fn);
    v_ = codes(in[2], factors_.v, at::kFloat8_e4m3fn);
    for (const Tensor& x : in) types_.push_back(x.scalar_type());
    numbers_ = at::zeros({factors_.q.numel(), KINORA_FP8_NUMBERS, 4}, factors_.q.options());
    set(KINORA_FP8_Q, factors_.q.reciprocal());
    set(KINORA_FP8_K, factors_.k.reciprocal());
    set(KINORA_FP8_V, factors_.v.reciprocal());
    set(KINORA_FP8_P, at::full_like(factors_.q, 1 / kE4m3));
    set(KINORA_FP8_TO_P, at::full_like(factors_.q, kE4m3));
    set(KINORA_FP8_TO_OUT, plans_->fp8_backward ? at::ones_like(factors_.v) : factors_.v);
    set(KINORA_FP8_ONE, at::ones_like(factors_.q));
    kinora_tensor made[2] = {};
    const auto of = heads(q_, k_, v_);
    check(plans_->cuda.attention_forward(plans_->self, &of, made));
    out_ = adopt<Tensor>(made[0]);
    more_ = adopt<Tensor>(made[1]);
    if (!plans_->fp8_backward) out_ = decoded(out_, factors_.v);
    return {out_.to(types_[0]).detach()};  // a tensor of its own: the graph that it gets must not hold itself
  }

  std::vector<Tensor> backward(const Tensor& grad) {
    kinora_tensor made[3] = {};
    Tensor q = q_, k = k_, v = v_, g;
    if (plans_->fp8_backward) {
      const Tensor wide = grad.to(at::kFloat), factor = up_to(kE5m2, largest(wide.abs(), samples()));
      g = codes(grad, factor, at::kFloat8_e5m2);
      const Tensor rows = largest(norms(wide), samples()),
                   values = largest(norms(v_.to(at::kFloat)), samples()) / factors_.v,
                   to_s = up_to(kE5m2, rows * values * std::abs(scale_));
      set(KINORA_FP8_GRAD, factor.reciprocal());
      set(KINORA_FP8_TO_S, to_s);
      set(KINORA_FP8_S, to_s.reciprocal());
    } else {
      q = decoded(q_, factors_.q), k = decoded(k_, factors_.k), v = decoded(v_, factors_.v);
      g = grad.to(at::kBFloat16).contiguous();
    }
    const auto of = heads(q, k, v);
    check(plans_->cuda.attention_backward(plans_->self, &of, handle(g), handle(out_), handle(more_), made));
    std::vector<Tensor> out;
    for (size_t i = 0; i < 3; ++i) out.push_back(adopt<Tensor>(made[i]).to(types_[i]));
    return out;
  }

 private:
  int64_t samples() const { return factors_.q.size(0); }
  void set(uint32_t which, const Tensor& value) const {
    numbers_.select(1, which).select(1, 0).copy_(value.flatten());
  }
  kinora_cuda_heads heads(const Tensor& q, const Tensor& k, const Tensor& v) const {
    return {sizeof(kinora_cuda_heads),
            gradient_ ? 1u : 0u,
            q.size(0) / samples(),
            scale_,
            handle(q),
            handle(k),
            handle(v),
            handle(numbers_)};
  }

  std::shared_ptr<Fp8Attention::Plans> plans_;
  HeadFactors factors_;
  double scale_;
  bool gradient_;
  std::vector<at::ScalarType> types_;
  Tensor q_, k_, v_, numbers_, out_, more_;
};

}  // namespace

void Fp8Attention::tell(const std::string& why) {
  if (told_.insert(why).second) log(Log::info, "attention = \"fp8\": an attention runs in bfloat16: " + why);
}

// Opens the plans of the device that q is on; a run has one device.
bool Fp8Attention::open(const Tensor& q) {
  if (tried_) return plans_ != nullptr;
  tried_ = true;
  const kinora_cuda_api* const cuda = given_ ? given_ : library();
  if (!cuda) return tell("libkinora_cuda, which a build for CUDA has, is not open"), false;
  uint32_t fp8_backward = 0;
  kinora_cuda_attention* opened = nullptr;
  try {
    check(cuda->attention_open(std::max<int32_t>(q.device().index(), 0), &fp8_backward, &opened));
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_UNSUPPORTED) throw;
    return tell(e.what()), false;
  }
  plans_ = std::make_shared<Plans>(*cuda, opened, fp8_backward != 0);
  return true;
}

Tensor Fp8Attention::attend(const Tensor& q, const Tensor& k, const Tensor& v, const HeadFactors& factors,
                            double scale) {
  const bool gradient =
      at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  const std::vector<int64_t> sizes{q.size(0), q.size(1), k.size(1), q.size(2), q.size(3), gradient};
  if (q.numel() == 0 || k.numel() == 0 || refused_.count(sizes) || !open(q)) return {};
  const auto call = std::make_shared<Call>(plans_, factors, scale, gradient);
  try {
    return autograd_apply<Tensor>(
        {q, k, v}, 1, [call](const std::vector<Tensor>& in) { return call->forward(in); },
        [call](const std::vector<Tensor>& g) { return call->backward(g[0]); })[0];
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_UNSUPPORTED) throw;
    refused_.insert(sizes);
    tell(e.what());
    return {};
  }
}

}  // namespace kinora::gpu
