// Chooses a code from the logits of all codes.
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace kinora::core {

struct TokenSampling {
  double temperature = 1;  // divisor of the logits; 0: the likeliest code
  int64_t top_k = 0;       // keep this many of the likeliest codes; 0: all
  double top_p = 1;  // of these the fewest whose probabilities reach it (nucleus sampling, Holtzman et al.
                     // 2019, arXiv 1904.09751)
};

// logits [V], u in (0, 1): the code at which the cumulative probability, likeliest code first, exceeds u.
// Ties go to the lower code. Throws Error(KINORA_FAILED) if the greatest logit is not finite.
int64_t draw_token(const at::Tensor& logits, const TokenSampling& how, double u);

}  // namespace kinora::core
