// How a code is chosen from the logits of all codes.
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace kinora::core {

struct TokenSampling {
  double temperature = 1;  // logits are divided by it; 0: the likeliest code
  int64_t top_k = 0;       // only so many of the likeliest codes; 0: all
  double top_p = 1;  // of these the fewest whose probabilities reach it (nucleus sampling, Holtzman et al.
                     // 2019, arXiv 1904.09751)
};

// logits [V], u in (0, 1): the code at which the cumulative probability, likeliest code first, passes u. Of
// equal logits the lower code comes first. Throws Error(KINORA_FAILED) if the greatest logit is not finite.
int64_t draw_token(const at::Tensor& logits, const TokenSampling& how, double u);

}  // namespace kinora::core
