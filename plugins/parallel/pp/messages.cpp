#include "plugins/parallel/pp/messages.hpp"

#include <ATen/ATen.h>

namespace kinora::pp {

using at::Tensor;

namespace {

constexpr int64_t kMicro = int64_t{1} << 16, kBoundaries = 511;  // times 2 directions times 32 tensors: below 2^31
constexpr int64_t kHeader = Messages::kTensors - 1;

}  // namespace

int64_t Messages::tag(int64_t boundary, int64_t micro, Way way, int64_t number) const {
  if (boundary >= kBoundaries || micro >= kMicro || number >= kTensors)
    throw Error(KINORA_UNSUPPORTED, "pp: boundary " + std::to_string(boundary) + ", microbatch " +
                                        std::to_string(micro) + ", tensor " + std::to_string(number) +
                                        " exceeds the limits of a message: 511, 65536, 32");
  return ((boundary * 2 + (way == Way::back)) * kMicro + micro) * kTensors + number;
}

Messages::Transfer Messages::send(const Tensor& x, int64_t boundary, int64_t micro, Way way,
                                  int64_t number) const {
  const int64_t step = way == Way::forward ? 1 : group_.size() - 1;
  return group_.send(x, (group_.rank() + step) % group_.size(), tag(boundary, micro, way, number));
}

Messages::Transfer Messages::receive(const Tensor& like, int64_t boundary, int64_t micro, Way way,
                                     int64_t number) const {
  const int64_t step = way == Way::forward ? group_.size() - 1 : 1;
  return group_.receive(like, (group_.rank() + step) % group_.size(), tag(boundary, micro, way, number));
}

void Messages::tell(const std::vector<Tensor>& flow, int64_t boundary, const Key& key) {
  const Geometry now = Geometry::of(flow);
  const auto [known, fresh] = known_.try_emplace({boundary, key}, now);
  if (fresh) told_.push_back(send(now.encoded(flow.at(0).device()), boundary, 0, Way::forward, kHeader));
  if (known->second == now) return;
  throw Error(KINORA_INVALID,
              "pp: a tensor at boundary " + std::to_string(boundary) +
                  " has another shape or dtype than in an earlier pass over a sequence of the same shape; a "
                  "model's flow may depend only on its sequences");
}

Geometry Messages::ask(int64_t boundary, const Key& key, at::Device device) {
  const auto known = known_.find({boundary, key});
  if (known != known_.end()) return known->second;
  const Tensor like = at::empty({Geometry::kNumbers}, at::TensorOptions().dtype(at::kLong).device(device));
  return known_[{boundary, key}] =
             Geometry::decoded(receive(like, boundary, 0, Way::forward, kHeader).finish());
}

std::vector<Tensor> Messages::broadcast(std::vector<Tensor> tensors, int64_t from, int64_t boundary,
                                        const Key& key, at::Device device) {
  auto known = known_.find({boundary, key});
  if (known == known_.end()) {
    const Tensor numbers =
        group_.rank() == from
            ? Geometry::of(tensors).encoded(device)
            : at::empty({Geometry::kNumbers}, at::TensorOptions().dtype(at::kLong).device(device));
    known =
        known_.emplace(std::pair{boundary, key}, Geometry::decoded(group_.broadcast(numbers, from))).first;
  }
  if (group_.rank() != from) tensors = known->second.made(device);
  for (auto& t : tensors) t = group_.broadcast(t, from);
  return tensors;
}

}  // namespace kinora::pp
