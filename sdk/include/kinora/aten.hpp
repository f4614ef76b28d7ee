// Tensors of the pinned tier: the handles of the ABI are at::Tensor*. Only for plugins built against the
// host's libtorch.
#pragma once
#include <ATen/core/Tensor.h>

#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

template <>
inline kinora_tensor handle<at::Tensor>(const at::Tensor& t) {
  return t.defined() ? reinterpret_cast<kinora_tensor>(const_cast<at::Tensor*>(&t)) : nullptr;
}
template <>
inline kinora_tensor give<at::Tensor>(at::Tensor t) {
  return t.defined() ? reinterpret_cast<kinora_tensor>(new at::Tensor(std::move(t))) : nullptr;
}
template <>
inline at::Tensor adopt<at::Tensor>(kinora_tensor h) {
  if (!h) return {};
  auto* p = reinterpret_cast<at::Tensor*>(h);
  at::Tensor t = std::move(*p);
  delete p;
  return t;
}
template <>
inline at::Tensor borrow<at::Tensor>(kinora_tensor h) {
  return h ? *reinterpret_cast<at::Tensor*>(h) : at::Tensor();
}

}  // namespace kinora

KINORA_SDK_END
