// Computes AdamW updates range by range. Every number is computed by the same few operations, each
// rounded on its own (no fused multiply-add), whether eight at a time or alone: the result has the same bits
// for any split into ranges, any number of threads and any processor.
#pragma once
#include <cstdint>
#include <vector>

namespace kinora::adamw {

// Loshchilov and Hutter 2019, algorithm 2, with the schedule in `rate`; T is float or double.
template <class T>
struct AdamWNumbers {
  T gradient_factor;  // factor from gradient clipping
  T keep;             // 1 - rate * weight decay
  T beta1, beta2;
  T root2;  // 1 / sqrt(1 - beta2^t)
  T eps;
  T step;  // rate / (1 - beta1^t)
};
template <class T>
struct AdamWRange {
  T* w;
  const T* g;
  T *m, *v;
  int64_t count;
};
// Moves an average of the weights by `share` towards their new values.
template <class T>
struct AverageRange {
  T* a;
  T share;
};

template <class T>
void adamw_pass(const AdamWRange<T>&, const AdamWNumbers<T>&, const std::vector<AverageRange<T>>&);

}  // namespace kinora::adamw
