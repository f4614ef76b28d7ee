// Work on libtorch's threads.
#pragma once
#include <cstdint>
#include <functional>

namespace kinora {

// f(begin, end) on pieces of [0, count) of at least `grain`; in this thread if it already belongs to a
// parallel loop.
void in_parallel(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& f);

}  // namespace kinora
