// One step of UniPC on flow matching. Zhao et al. 2023 (arXiv 2302.04867), predicting x0,
// with alpha = 1 - s, sigma = s, lambda = ln((1 - s) / s).
#pragma once
#include <deque>

#include "kinora/tensor.hpp"

namespace kinora {

struct Prediction {
  double s;
  Tensor x0;
};

// x at history[0].s -> x at `to`. history: newest first, at least `order` entries. Without `at_end` this is the
// predictor UniP, otherwise the corrector UniC, which also uses the prediction at `to`. bh1: B(h) is h, else
// e^h - 1.
Tensor unipc_step(const Tensor& x, double to, const std::deque<Prediction>& history, int64_t order, bool bh1,
                  const Tensor& at_end = {});

}  // namespace kinora
