#include "kernels/torch/parallel.hpp"

#include <ATen/Parallel.h>

namespace kinora {

void in_parallel(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& f) {
  at::parallel_for(0, count, grain, f);
}

}  // namespace kinora
