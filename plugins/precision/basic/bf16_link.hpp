// Products of bfloat16 operands, summed and returned in float32: for the output of a linear layer, for the
// gradient of its input, and for that of its weight. So no value that ranks still have to sum is rounded to 8
// bits before.
#pragma once
#include <set>

#include "kinora/autograd.hpp"
#include "kinora/link.hpp"

namespace kinora {

class Bf16Link final : public Link<Tensor> {
 public:
  Bf16Link() : Link(KINORA_LEVEL_PRECISION) {}

  kinora_param parameter(const kinora_param_spec& spec) override;
  // The weight is head's (a link above may provide it); the bias is added in float32. The result has x's dtype,
  // except that of a split ROW weight, which is at least float32, because the tensor link has yet to sum it.
  Tensor linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override;

 private:
  std::set<kinora_param> partial_;  // ROW weights of which this rank holds a piece
  // COLUMN weights. The tensor link keeps only this rank's part of the tokens that they read; a copy would keep those of
  // all ranks.
  std::set<kinora_param> gathering_;
};

}  // namespace kinora
