// Common parts of the row functions of this folder. They are written once for a team of threads: a warp or a
// block on the device, or a single thread on the CPU, where their mathematics is tested without a GPU.
#pragma once
#include <cstdint>

#include "kernels/host_device.hpp"

namespace kinora::cuda {

// A team of one thread.
struct Alone {
  KINORA_BOTH int64_t first() const { return 0; }
  KINORA_BOTH int64_t step() const { return 1; }
  template <class A>
  KINORA_BOTH A sum(A x) const {
    return x;
  }
};

// N numbers of a row that one instruction reads or writes.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T of[N];
};

template <int N, class T>
KINORA_BOTH const Pack<T, N>& pack(const T* from, int64_t i) {
  return reinterpret_cast<const Pack<T, N>*>(from)[i];
}
template <int N, class T>
KINORA_BOTH Pack<T, N>& pack(T* from, int64_t i) {
  return reinterpret_cast<Pack<T, N>*>(from)[i];
}

}  // namespace kinora::cuda
