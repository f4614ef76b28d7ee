// Work on libtorch's threads.
#pragma once
#include "kernels/torch/parallel.hpp"

namespace kinora::core {
using kinora::in_parallel;
}  // namespace kinora::core
