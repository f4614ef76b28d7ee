#include "plugins/tokenizers/cosmos/patch.hpp"

#include <bit>
#include <vector>

namespace kinora::cosmos {

Patcher::Patcher(int64_t size, const std::string& type, bool image)
    : p_(size),
      time_(image ? 1 : size),
      levels_(type == "haar" ? std::countr_zero(static_cast<uint64_t>(size)) : 0),
      image_(image) {}

// Row: band, column: pixel of the patch. A level splits each axis into sums (low) and differences (high); the
// first level works on neighbouring pixels, the next on its averages. A band's index has one bit per axis and
// level, T H W (for an image W H), the coarsest level first; a pixel's index has T's bits, then H's, then W's.
// A wavelet coefficient is signs . pixels / pixels of the patch: 1/sqrt(2) per axis, and the same again per
// level. Made on the device of `like`, so that no device waits for a copy.
at::Tensor Patcher::signs(const at::Tensor& like) const {
  const at::Tensor bit = at::arange(2, like.options());
  const at::Tensor one = 1 - 2 * at::outer(bit, bit);  // [[1, 1], [1, -1]]
  at::Tensor all = one;
  std::vector<int64_t> bits{-1}, order{0};
  const std::vector<int64_t> letters = image_ ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 1, 2};
  const auto axes = static_cast<int64_t>(letters.size());
  for (int64_t i = 1; i < axes * levels_; ++i) all = at::kron(all, one);
  for (const int64_t letter : letters)
    for (int64_t level = 0; level < levels_; ++level) {
      bits.push_back(2);
      order.push_back(1 + axes * level + letter);
    }
  return all.view(bits).permute(order).flatten(1);
}

at::Tensor Patcher::patch(const at::Tensor& video) const {
  const auto B = video.size(0), C = video.size(1), t = video.size(2) / time_, h = video.size(3) / p_,
             w = video.size(4) / p_;
  const auto n = pixels();
  at::Tensor x = video.reshape({B, C, t, time_, h, p_, w, p_})
                     .permute({0, 2, 4, 6, 1, 3, 5, 7})
                     .reshape({B, t, h, w, C, n});
  if (levels_ == 0) return x.flatten(4);
  return at::matmul(x, (signs(x) / static_cast<double>(n)).t()).transpose(4, 5).flatten(4);  // band outermost
}

at::Tensor Patcher::unpatch(const at::Tensor& x) const {
  const auto B = x.size(0), t = x.size(1), h = x.size(2), w = x.size(3), n = pixels(), C = x.size(4) / n;
  at::Tensor y = levels_ > 0 ? at::matmul(x.reshape({B, t, h, w, n, C}).transpose(4, 5), signs(x)) : x;
  y = y.reshape({B, t, h, w, C, time_, p_, p_}).permute({0, 4, 1, 5, 2, 6, 3, 7});
  return y.reshape({B, C, t * time_, h * p_, w * p_});
}

}  // namespace kinora::cosmos
