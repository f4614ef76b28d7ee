#include "plugins/tokenizers/cosmos/fsq.hpp"

#include <cmath>

#include "kinora/error.hpp"

namespace kinora::cosmos {

using at::Tensor;

Fsq::Fsq(std::vector<int64_t> levels) : levels_(std::move(levels)) {
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const int64_t level : levels_) {
    if (level < 2 || level > kMost / size_)
      throw Error(KINORA_ERROR_INVALID,
                  "tokenizer/cosmos: levels must each be 2 or more, and their product below 2^31");
    size_ *= level;
  }
  if (levels_.empty() || size_ == kMost)
    throw Error(KINORA_ERROR_INVALID, "tokenizer/cosmos: levels must be given, and their product below 2^31");
}

// tanh reaches its bounds only in the limit: a width of L - 1 plus a thousandth makes the outermost values
// reachable by rounding. An even L has no middle: the squashed number is shifted by half a step, and its
// argument such that 0 still maps to 0.
Tensor Fsq::vectors(const Tensor& z) const {
  const Tensor wide = z.to(at::promote_types(z.scalar_type(), at::kFloat));
  std::vector<Tensor> out;
  for (int64_t i = 0; i < dim(); ++i) {
    const int64_t level = levels_[static_cast<size_t>(i)];
    const double half = static_cast<double>(level - 1) * 1.001 / 2, offset = level % 2 ? 0 : 0.5;
    const Tensor bounded = (wide.select(-1, i) + std::atanh(offset / half)).tanh() * half - offset;
    const Tensor rounded = bounded + (bounded.round() - bounded).detach();
    out.push_back(rounded / static_cast<double>(level / 2));
  }
  return at::stack(out, -1).to(z.scalar_type());
}

Tensor Fsq::codes(const Tensor& vectors) const {
  Tensor out;
  int64_t basis = 1;
  for (int64_t i = 0; i < dim(); ++i) {
    const int64_t level = levels_[static_cast<size_t>(i)], half = level / 2;
    const Tensor v = vectors.detach().select(-1, i).to(at::kDouble);
    const Tensor digit = (v * static_cast<double>(half)).round().to(at::kInt) + half;
    out = out.defined() ? out + digit * basis : digit;
    basis *= level;
  }
  return out;
}

Tensor Fsq::vectors_of(const Tensor& codes, at::ScalarType dtype) const {
  // On an accelerator the check would wait for the device.
  if (codes.is_cpu() && codes.numel() > 0 &&
      (codes.min().item<int64_t>() < 0 || codes.max().item<int64_t>() >= size_))
    throw Error(KINORA_ERROR_INVALID, "tokenizer/cosmos: codes must be in [0, " + std::to_string(size_) +
                                          "), found " + std::to_string(codes.min().item<int64_t>()) + " to " +
                                          std::to_string(codes.max().item<int64_t>()));
  Tensor rest = codes.to(at::kLong);
  std::vector<Tensor> out;
  for (const int64_t level : levels_) {
    const double half = static_cast<double>(level / 2);
    out.push_back((rest.remainder(level).to(dtype) - half) / half);
    rest = rest.div(level, "floor");
  }
  return at::stack(out, -1);
}

}  // namespace kinora::cosmos
