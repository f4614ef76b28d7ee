#include "plugins/precision/quantised/rounded_heads.hpp"

#include "kinora/autograd.hpp"

namespace kinora::quantised {
namespace {

constexpr int64_t kE4m3 = 24;  // c10::ScalarType::Float8_e4m3fn
constexpr double kLargest = 448;
constexpr double kLeast = 1.4e-36;  // a head's largest magnitude below which its factor would be infinite

// [B, 1, H, 1]; 1 for a head of zeros.
Tensor multiplier(const Tensor& x, const Tensor& table, const Group<Tensor>& shared) {
  Tensor magnitude = op("aten::abs", "", {x});
  if (table.defined()) {
    const Tensor is_token =
        op("aten::ge", "Scalar", {op("aten::select", "int", {table, 2, KINORA_TOKEN_INDEX}), 0});
    const int64_t rows = is_token.size(0), tokens = is_token.size(1);
    magnitude = magnitude * is_token.to(x.dtype()).reshape({rows, tokens, 1, 1});
  }
  Tensor most = op("aten::amax", "", {magnitude, std::vector<int64_t>{1, 3}, true});
  if (shared.get() && shared.size() > 1)
    most = shared.transfer({sizeof(kinora_transfer), KINORA_OP_ALL_REDUCE_MAX, 0, 0, 0, 0, most.get()});
  const Tensor by = op("aten::reciprocal", "", {op("aten::clamp_min", "", {most, kLeast}) * (1 / kLargest)});
  return op("aten::where", "self", {op("aten::eq", "Scalar", {most, 0.0}), full_like(by, 1), by});
}

}  // namespace

RoundedHeads rounded_heads(const Tensor& given, const Tensor& table, const Group<Tensor>& shared) {
  const Tensor x = given.detach().to(KINORA_DTYPE_FLOAT32);
  const Tensor by = multiplier(x, table, shared);
  const Tensor rounded = op("aten::to", "dtype", {x * by, kE4m3}).to(KINORA_DTYPE_FLOAT32) / by;
  return {autograd_apply<Tensor>(
              {given}, 1,
              [out = rounded.to(given.dtype())](const std::vector<Tensor>&) { return std::vector{out}; },
              [](const std::vector<Tensor>& g) { return g; })[0],
          by};
}

}  // namespace kinora::quantised
