#include "plugins/precision/quantised/rounded_heads.hpp"

#include "kinora/autograd.hpp"

namespace kinora::quantised {
namespace {

constexpr int64_t kE4m3 = 24;  // c10::ScalarType::Float8_e4m3fn
constexpr double kLargest = 448;
constexpr double kLeast = 1.4e-36;  // a head's largest magnitude below which its factor would be infinite

// The sample of each token, int64 [S].
Tensor samples_of(const Tensor& table) {
  return op("aten::clamp_min", "", {op("aten::select", "int", {table, 2, KINORA_TOKEN_SAMPLE})[0], 0});
}

// The largest of each sample's head: [B, samples, H, 1].
Tensor largest_of(const Tensor& magnitude, const Tensor& table, int64_t samples) {
  const Tensor of_token = op("aten::amax", "", {magnitude, std::vector<int64_t>{3}});
  const int64_t B = of_token.size(0), S = of_token.size(1), H = of_token.size(2);
  const Tensor index = op("aten::expand", "",
                          {samples_of(table).reshape({1, S, 1}), std::vector<int64_t>{B, S, H}}),
               zeros = op("aten::new_zeros", "", {of_token, std::vector<int64_t>{B, samples, H}});
  return op("aten::scatter_reduce", "two", {zeros, 1, index, of_token, "amax"}).reshape({B, samples, H, 1});
}

// [B, 1 or samples, H, 1]; 1 for a head of zeros.
Tensor multiplier(const Tensor& x, const Tensor& table, const Group<Tensor>& shared, int64_t samples) {
  Tensor magnitude = op("aten::abs", "", {x});
  if (table.defined()) {
    const Tensor is_token =
        op("aten::ge", "Scalar", {op("aten::select", "int", {table, 2, KINORA_TOKEN_INDEX}), 0});
    const int64_t rows = is_token.size(0), tokens = is_token.size(1);
    magnitude = magnitude * is_token.to(x.dtype()).reshape({rows, tokens, 1, 1});
  }
  Tensor most = samples > 1 ? largest_of(magnitude, table, samples)
                            : op("aten::amax", "", {magnitude, std::vector<int64_t>{1, 3}, true});
  if (shared.get() && shared.size() > 1)
    most = shared.transfer({sizeof(kinora_transfer), KINORA_OP_ALL_REDUCE_MAX, 0, 0, 0, 0, most.get()});
  const Tensor by = op("aten::reciprocal", "", {op("aten::clamp_min", "", {most, kLeast}) * (1 / kLargest)});
  return op("aten::where", "self", {op("aten::eq", "Scalar", {most, 0.0}), full_like(by, 1), by});
}

}  // namespace

RoundedHeads rounded_heads(const Tensor& given, const Tensor& table, const Group<Tensor>& shared,
                           int64_t samples) {
  const Tensor x = given.detach().to(KINORA_DTYPE_FLOAT32);
  const bool packed = samples > 1 && table.defined();
  const Tensor of_sample = multiplier(x, table, shared, packed ? samples : 1),
               by = packed ? op("aten::index_select", "", {of_sample, 1, samples_of(table)}) : of_sample;
  const Tensor rounded = op("aten::to", "dtype", {x * by, kE4m3}).to(KINORA_DTYPE_FLOAT32) / by;
  return {autograd_apply<Tensor>(
              {given}, 1,
              [out = rounded.to(given.dtype())](const std::vector<Tensor>&) { return std::vector{out}; },
              [](const std::vector<Tensor>& g) { return g; })[0],
          packed ? Tensor() : by};
}

}  // namespace kinora::quantised
