#include "plugins/tokenizers/cosmos/patch.hpp"

#include <bit>

namespace kinora::cosmos {
namespace {

// Row: band, column: pixel of the patch. A level halves each axis into sums (low) and differences (high); the
// first level works on neighbouring pixels, the next on its averages. A band's number has three bits a level,
// T H W, the coarsest level first. A wavelet coefficient is signs . pixels / 8^levels: 1/sqrt(2) an axis, and
// 1/sqrt(8) a level on top.
at::Tensor haar_signs(int64_t p) {
  const int64_t n = p * p * p, levels = std::countr_zero(static_cast<uint64_t>(p));
  at::Tensor out = at::empty({n, n}, at::kDouble);
  auto* at = out.data_ptr<double>();
  for (int64_t band = 0; band < n; ++band)
    for (int64_t pixel = 0; pixel < n; ++pixel) {
      const int64_t t = pixel / (p * p), h = pixel / p % p, w = pixel % p;
      int64_t odd = 0;
      for (int64_t l = 0; l < levels; ++l) {
        const int64_t bits = band >> (3 * l);
        odd += (bits >> 2 & t >> l & 1) + (bits >> 1 & h >> l & 1) + (bits & w >> l & 1);
      }
      at[band * n + pixel] = odd % 2 ? -1 : 1;
    }
  return out;
}

}  // namespace

Patcher::Patcher(int64_t size, const std::string& type) : p_(size), haar_(type == "haar" && size > 1) {
  if (haar_) signs_ = haar_signs(p_);
}

at::Tensor Patcher::patch(const at::Tensor& video) const {
  const auto B = video.size(0), C = video.size(1), t = video.size(2) / p_, h = video.size(3) / p_,
             w = video.size(4) / p_;
  const auto n = p_ * p_ * p_;
  at::Tensor x = video.reshape({B, C, t, p_, h, p_, w, p_})
                     .permute({0, 2, 4, 6, 1, 3, 5, 7})
                     .reshape({B, t, h, w, C, n});
  if (!haar_) return x.flatten(4);
  const at::Tensor analysis = (signs_ / static_cast<double>(n)).to(x.options());
  return at::matmul(x, analysis.t()).transpose(4, 5).flatten(4);  // band outermost
}

at::Tensor Patcher::unpatch(const at::Tensor& x) const {
  const auto B = x.size(0), t = x.size(1), h = x.size(2), w = x.size(3), n = p_ * p_ * p_, C = x.size(4) / n;
  at::Tensor y =
      haar_ ? at::matmul(x.reshape({B, t, h, w, n, C}).transpose(4, 5), signs_.to(x.options())) : x;
  y = y.reshape({B, t, h, w, C, p_, p_, p_}).permute({0, 4, 1, 5, 2, 6, 3, 7});
  return y.reshape({B, C, t * p_, h * p_, w * p_});
}

}  // namespace kinora::cosmos
