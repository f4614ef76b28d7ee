// One call of a linear layer in a format of few bits, with its gradients. Operands are rounded to the format
// and multiplied in float32, or in float64 for a float64 stream.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kinora/strategy.hpp"
#include "plugins/precision/quantised/operands.hpp"

namespace kinora::quantised {

// The uses of operands.
inline constexpr Use kRows[] = {
    {Operand::activation, false}, {Operand::weight, false}, {Operand::gradient, false}};
inline constexpr Use kColumns[] = {
    {Operand::activation, true}, {Operand::weight, true}, {Operand::gradient, true}};
inline constexpr size_t kActivation = 0, kWeight = 1, kGradient = 2;

// Sums of a layer's operands, in the order of Operand.
struct Figures {
  Sums of[KINORA_OPERANDS] = {};
};

// The parts of a layer that all its calls share.
struct LowLayer {
  std::string name;
  std::shared_ptr<const Format> format;
  Group<Tensor> of_tokens,
      of_weight;                  // ranks that share the tensors of a sequence, and the weight; null: none
  std::vector<Channels> outputs;  // of the result
  bool gathers = false;           // x is kept as it is for the backward: a link above empties it
};

// A weight as rounded for all samples of a call. Filled by the first of them.
struct RoundedWeight {
  std::vector<float> amax;
  Packed packed;
  Tensor values;  // undefined: not filled
};

class LowLinear {
 public:
  // figures: null, or added to; must outlive the graph.
  LowLinear(const LowLayer& layer, std::shared_ptr<const Tokens> tokens, const NoiseSource& noise,
            Figures* figures)
      : layer_(layer), tokens_(std::move(tokens)), noise_(noise), figures_(figures) {}

  // x [B, S, K], w [N, K] -> [B, S, N], float32 or, for a float64 x, float64. Needs `rounded` for the call only.
  static Tensor apply(std::shared_ptr<LowLinear>, const Tensor& x, const Tensor& w, RoundedWeight& rounded);

 private:
  Tensor forward(const Tensor& x, const Tensor& w, RoundedWeight& rounded);
  void round(const Tensor& w, RoundedWeight& to) const;
  std::vector<Tensor> backward(const Tensor& g);
  Tensor input_gradient(const Tensor& g, const std::vector<float>& amax) const;
  Tensor weight_gradient(const std::vector<Packed>& g) const;
  std::vector<float> over(const Group<Tensor>&, const std::vector<float>& amax) const;
  Sums* sums(Operand o) const { return figures_ ? &figures_->of[static_cast<size_t>(o)] : nullptr; }
  Tensor wide(const Tensor& t) const { return t.to(exact_ ? KINORA_DTYPE_FLOAT64 : KINORA_DTYPE_FLOAT32); }

  const LowLayer layer_;
  std::shared_ptr<const Tokens> tokens_;
  NoiseSource noise_;
  Figures* figures_;
  bool needs_x_ = false, needs_w_ = false, exact_ = false;
  int32_t x_dtype_ = 0, w_dtype_ = 0;
  Tensor x_, w_;                   // as they are, if the backward rounds them
  std::vector<Packed> x_columns_;  // else
  Packed weight_;
  std::vector<float> weight_amax_;
};

}  // namespace kinora::quantised
