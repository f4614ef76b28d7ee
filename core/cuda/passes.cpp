#include "core/cuda/kernels.hpp"
#include "core/cuda/launch.hpp"
#include "kernels/cuda/adamw.hpp"
#include "kernels/cuda/merge.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

void require_float(const Tensor& t, const char* kernel) {
  if (number_of(t, kernel) != cuda::Number::float32)
    raise(KINORA_ERROR_UNSUPPORTED, "{}: expected float32, got {}", kernel, c10::str(t.scalar_type()));
}

template <class F>
cuda::Attended<F> attended(const Tensor& out, const Tensor& log_sum) {
  return {out.data_ptr<float>(),
          log_sum.data_ptr<float>(),
          {out.stride(0), out.stride(1), out.stride(2)},
          {log_sum.stride(0), log_sum.stride(1), log_sum.stride(2)}};
}

}  // namespace

void merge_attention_on_gpu(const Tensor& out, const Tensor& log_sum, const Tensor& more,
                            const Tensor& more_log_sum) {
  constexpr auto kName = "merge_attention";
  require_float(out, kName);
  if (out.dim() != 4 || out.stride(3) != 1)
    raise(KINORA_ERROR_INVALID, "{}: x {} is not [B, S, H, d] with d contiguous", kName,
          c10::str(out.sizes()));
  const auto rows = out.sizes().slice(0, 3);
  check_like(log_sum, out, log_sum.sizes() == rows, kName, "log_sum");
  check_like(more, out, more.sizes() == out.sizes(), kName, "more");
  check_like(more_log_sum, out, more_log_sum.sizes() == rows, kName, "more_log_sum");
  const c10::cuda::CUDAGuard device(out.device());
  const Tensor other = dense(more);
  C10_CUDA_CHECK(cuda::merge_attention({rows[0], rows[1], rows[2], out.size(3)},
                                       attended<float>(out, log_sum),
                                       attended<const float>(other, more_log_sum), stream_of(out)));
}

void adamw_on_gpu(const Tensor& weight, const Tensor& gradient, const Tensor& first, const Tensor& second,
                  const std::vector<Tensor>& averages, const kinora_cuda_adamw& n) {
  constexpr auto kName = "adamw";
  require_float(weight, kName);
  if (averages.size() > cuda::kMostAverages)
    raise(KINORA_ERROR_UNSUPPORTED, "{}: {} averages, at most {} are supported", kName, averages.size(),
          cuda::kMostAverages);
  const auto numbers = [&](const Tensor& t, const char* name) {
    check_like(t, weight, t.numel() == weight.numel() && t.is_contiguous(), kName, name);
    return t.data_ptr<float>();
  };
  cuda::AdamWRange r{numbers(weight, "weight"),
                     numbers(gradient, "gradient"),
                     numbers(first, "the first moment"),
                     numbers(second, "the second moment"),
                     weight.numel(),
                     static_cast<int>(averages.size()),
                     {},
                     {}};
  for (size_t k = 0; k < averages.size(); ++k)
    r.a[k] = numbers(averages[k], "an average"), r.share[k] = static_cast<float>(n.shares[k]);
  const auto as = [](double x) { return static_cast<float>(x); };
  const c10::cuda::CUDAGuard device(weight.device());
  C10_CUDA_CHECK(cuda::adamw(
      r, {as(n.gradient_factor), as(n.keep), as(n.beta1), as(n.beta2), as(n.root2), as(n.eps), as(n.step)},
      stream_of(weight)));
}

}  // namespace kinora::core
