#include "plugins/jobs/training/generating/token_sampling.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

int64_t draw_token(const at::Tensor& logits, const TokenSampling& how, double u) {
  const auto [sorted, codes] =
      at::sort(logits.to(at::kCPU, at::kDouble), /*stable=*/true, /*dim=*/0, /*descending=*/true);
  if (const double best = sorted[0].item<double>(); !std::isfinite(best))
    raise(KINORA_FAILED, "the model's greatest logit is {}; its weights or its precision are at fault", best);
  if (how.temperature == 0) return codes[0].item<int64_t>();
  const int64_t all = how.top_k > 0 ? std::min(how.top_k, sorted.size(0)) : sorted.size(0);
  const at::Tensor cumulative =
      at::softmax((sorted.narrow(0, 0, all) - sorted[0]) / how.temperature, 0).cumsum(0);
  // A code is kept while the codes before it do not reach top_p.
  const int64_t kept = 1 + (cumulative.narrow(0, 0, all - 1) < how.top_p).sum().item<int64_t>();
  const at::Tensor mine = cumulative.narrow(0, 0, kept);
  const int64_t passed = (mine <= u * mine[kept - 1]).sum().item<int64_t>();
  return codes[std::min(passed, kept - 1)].item<int64_t>();
}

}  // namespace kinora::core
