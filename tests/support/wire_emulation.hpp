// One process that rounds what ranks would send in fewer bytes, by the formats' definitions (kernels/wire/wire.hpp)
// and no code of theirs: numbers that arrive over a wire are compared with it exactly.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/autograd.hpp"
#include "kinora/link.hpp"

namespace kinora::test {

// E2M1 of |x| <= 6, to the nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, ties to an even mantissa.
inline at::Tensor nearest_e2m1(const at::Tensor& x) {
  const at::Tensor a = x.abs().clamp_max(6);
  const at::Tensor coarse = at::where(a < 4, at::round(a), at::round(a / 2) * 2);
  return at::where(a < 2, at::round(a * 2) / 2, coarse) * x.sign();
}
inline at::Tensor nearest_e4m3(const at::Tensor& x) { return x.to(at::kFloat8_e4m3fn).to(at::kFloat); }

// FP8: a block of 1x128 numbers x with a = max |x| arrives as E4M3(x m) / m, m = 448 / a.
// NVFP4: a part with A = max |x| has g = 448 * 6 / A; a block of 1x16 numbers with a = max |x| has s =
// E4M3(a / 6 g) and arrives as E2M1(x / (s / g)) s / g. The last block of a row is shorter.
inline at::Tensor arrived_block(const at::Tensor& x, bool fp8, const at::Tensor& g) {
  const at::Tensor a = x.abs().amax(1, true), one = at::ones_like(a);
  if (fp8) {
    const at::Tensor m = at::where(a > 0, 448 / a, one);
    return nearest_e4m3(x * m) * (1 / m);
  }
  const at::Tensor s = nearest_e4m3(a / 6 * g);
  return nearest_e2m1(x * at::where(s > 0, 1 / (s * (1 / g)), at::zeros_like(s))) * (s / g);
}

// x [rows, cols], one part from one rank to another, as it arrives. format: a name of wire::format_names().
inline at::Tensor arrived(const at::Tensor& x, const std::string& format) {
  if (format == "auto") return x;
  if (format == "bfloat16") return x.to(at::kBFloat16).to(x.scalar_type());
  const bool fp8 = format == "fp8";
  const at::Tensor values = x.to(at::kFloat), largest = values.abs().max();
  const at::Tensor g = at::where(largest > 0, 448 * 6 / largest, at::ones_like(largest));
  std::vector<at::Tensor> blocks;
  for (const at::Tensor& block : values.split(fp8 ? 128 : 16, 1))
    blocks.push_back(arrived_block(block, fp8, g));
  return at::cat(blocks, 1).to(x.scalar_type());
}

// x [rows, cols], sent in the format `there`, and its gradient in the format `back`.
inline at::Tensor sent(const at::Tensor& x, const std::string& there, const std::string& back) {
  using Tensors = std::vector<at::Tensor>;
  return autograd_apply<at::Tensor>(
      {x}, 1, [there](const Tensors& in) { return Tensors{arrived(in[0], there)}; },
      [back](const Tensors& grad) { return Tensors{arrived(grad[0], back)}; })[0];
}

// Trial::more of a comparison: nothing for the network of all ranks, which is made first, and `L(args...)` for
// that of one process.
template <class L, class... Args>
std::function<std::unique_ptr<Link<at::Tensor>>()> of_one_process(Args... args) {
  return [made = std::make_shared<int>(0), args...]() -> std::unique_ptr<Link<at::Tensor>> {
    if ((*made)++ % 2 == 0) return std::make_unique<Link<at::Tensor>>(KINORA_LEVEL_PRECISION);
    return std::make_unique<L>(args...);
  };
}

}  // namespace kinora::test
