#include "plugins/parallel/fsdp/gradient.hpp"

#include <ATen/ATen.h>

namespace kinora::fsdp {

using at::Tensor;

void FlatGradient::add(Tensor whole) {
  if (!at_once_) {
    whole_ = whole_.defined() ? whole_.add_(whole) : std::move(whole);
    return;
  }
  settle();
  coming_ = group_.start_scatter_sum(whole, 0);
}

void FlatGradient::settle() {
  if (!coming_.pending()) return;
  const Tensor one = coming_.finish();
  part_ = part_.defined() ? part_.add_(one) : one;
}

void FlatGradient::start() {
  if (!whole_.defined()) return;
  coming_ = group_.start_scatter_sum(whole_, 0);
  whole_ = Tensor();
}

Tensor FlatGradient::take(const Tensor& like, at::ScalarType dtype) {
  settle();
  return part_.defined() ? std::exchange(part_, Tensor())
                         : at::zeros(like.sizes(), like.options().dtype(dtype).requires_grad(false));
}

}  // namespace kinora::fsdp
