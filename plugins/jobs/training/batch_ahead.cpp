#include "plugins/jobs/training/batch_ahead.hpp"

#include <ATen/ATen.h>

#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

std::vector<kinora_tensor> handles(const NamedTensors& of) {
  std::vector<kinora_tensor> out;
  for (const auto& [name, tensor] : of) out.push_back(handle(tensor));
  return out;
}

}  // namespace

BatchAhead::BatchAhead(Make make, at::Device device, const kinora_cuda_api* cuda)
    : make_(std::move(make)), device_(device), cuda_(cuda), copier_(nullptr, Close{cuda}) {
  if (!cuda_) return;
  kinora_cuda_copier* made = nullptr;
  check(cuda_->copier_open(device_.index(), &made));
  copier_.reset(made);
}

NamedTensors BatchAhead::sent(const NamedTensors& from) {
  const auto in = handles(from);
  std::vector<kinora_tensor> out(in.size(), nullptr);
  check(cuda_->copier_send(copier_.get(), in.data(), in.size(), out.data()));
  NamedTensors made;
  size_t i = 0;
  for (const auto& [name, tensor] : from) made[name] = adopt<at::Tensor>(out[i++]);
  return made;
}

void BatchAhead::wait(const NamedTensors& sent) {
  const auto all = handles(sent);
  check(cuda_->copier_wait(copier_.get(), all.data(), all.size()));
}

void BatchAhead::prepare(int64_t first, int64_t count) {
  next_ = make_(first, count);
  if (copier_) next_ = sent(next_);
  first_ = first;
  count_ = count;
}

NamedTensors BatchAhead::take(int64_t first, int64_t count) {
  if (first != first_ || count != count_) prepare(first, count);
  first_ = -1;
  NamedTensors out = std::exchange(next_, {});
  if (copier_) wait(out);
  for (auto& [name, tensor] : out) tensor = tensor.to(device_);
  return out;
}

}  // namespace kinora::core
