// AdamW's update of a range of numbers.
#pragma once
#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/optimizer.hpp"

namespace kinora::adamw {

struct Constants {
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-8;

  // The options of an optimizer that has them.
  template <class O>
  static void describe(Describe<O>& d) {
    d.option("beta1", &O::beta1).at_least(0).below(1).help("AdamW's decay of the first moment");
    d.option("beta2", &O::beta2).at_least(0).below(1).help("AdamW's decay of the second moment");
    d.option("eps", &O::eps).above(0).help("AdamW's epsilon, added to the root of the second moment");
  }
};

// Changes the weight, the two states (moments) and the averages in place: on the CPU, and in float32 on a GPU
// with libkinora_cuda, in one pass over memory and with the same bits; elsewhere by libtorch's kernel.
void step(const Update<at::Tensor>&, const Constants&);

// Whether a loop over plain numbers can do it: on the CPU, in float32 or float64.
bool is_plain(const at::Tensor& weight);

constexpr int64_t kGrain = 1 << 14;  // minimum of numbers per thread

}  // namespace kinora::adamw
