#include "plugins/parallel/pp/messages.hpp"

#include <ATen/ATen.h>

#include "kinora/error.hpp"

namespace kinora::pp {

using at::Tensor;

namespace {

constexpr int64_t kMicro = int64_t{1} << 16,
                  kBoundaries = 511;  // times 2 directions times 32 tensors: below 2^31
// Tag of a geometry that is sent ahead, with microbatch 0: the last number, which no tensor of a flow has
// (Geometry allows 8).
constexpr int64_t kHeader = Messages::kTensors - 1;

}  // namespace

// Unique for each (boundary, way, microbatch, number), and equal on both sides: ranks count nothing, so
// messages may come in any order.
int64_t Messages::tag(int64_t boundary, int64_t micro, Direction way, int64_t number) const {
  if (boundary >= kBoundaries || micro >= kMicro || number >= kTensors)
    throw Error(KINORA_ERROR_UNSUPPORTED, "pp: boundary " + std::to_string(boundary) + ", microbatch " +
                                              std::to_string(micro) + ", tensor " + std::to_string(number) +
                                              " exceeds the limits of a message: 511, 65536, 32");
  return ((boundary * 2 + (way == Direction::back)) * kMicro + micro) * kTensors + number;
}

// Stages are dealt to ranks in turn, so the stage after the last rank's is on rank 0 (virtual stages).
Messages::Transfer Messages::send(const Tensor& x, int64_t boundary, int64_t micro, Direction way,
                                  int64_t number) const {
  const int64_t step = way == Direction::forward ? 1 : group_.size() - 1;
  return group_.send(x, (group_.rank() + step) % group_.size(), tag(boundary, micro, way, number));
}

Messages::Transfer Messages::receive(const Tensor& like, int64_t boundary, int64_t micro, Direction way,
                                     int64_t number) const {
  const int64_t step = way == Direction::forward ? group_.size() - 1 : 1;
  return group_.receive(like, (group_.rank() + step) % group_.size(), tag(boundary, micro, way, number));
}

// A geometry crosses a boundary once for each key; afterwards both sides know it. Hence the refusal of a flow
// whose shape changes without its key: the receiver would not notice.
void Messages::tell(const std::vector<Tensor>& flow, int64_t boundary, const Key& key) {
  const Geometry now = Geometry::of(flow);
  const auto [known, fresh] = known_.try_emplace({boundary, key}, now);
  if (fresh)
    told_.push_back(send(now.encoded(flow.at(0).device()), boundary, 0, Direction::forward, kHeader));
  if (known->second == now) return;
  throw Error(KINORA_ERROR_INVALID,
              "pp: a tensor at boundary " + std::to_string(boundary) +
                  " has another shape or dtype than in an earlier pass over a sequence of the same shape; a "
                  "model's flow may depend only on its sequences");
}

Geometry Messages::ask(int64_t boundary, const Key& key, at::Device device) {
  const auto known = known_.find({boundary, key});
  if (known != known_.end()) return known->second;
  const Tensor like = at::empty({Geometry::kNumbers}, at::TensorOptions().dtype(at::kLong).device(device));
  return known_[{boundary, key}] =
             Geometry::decoded(receive(like, boundary, 0, Direction::forward, kHeader).finish());
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

Geometry Geometry::of(const std::vector<Tensor>& tensors) {
  Geometry out;
  for (const auto& t : tensors) out.tensors.push_back({t.scalar_type(), t.sizes().vec()});
  return out;
}

Tensor Geometry::encoded(at::Device device) const {
  std::vector<int64_t> numbers{static_cast<int64_t>(tensors.size())};
  for (const auto& t : tensors) {
    const auto dims = static_cast<int64_t>(t.shape.size());
    if (static_cast<int64_t>(tensors.size()) > kTensors || dims > kDims)
      throw Error(KINORA_ERROR_UNSUPPORTED,
                  "pp: a block returns " + std::to_string(tensors.size()) + " tensors of up to " +
                      std::to_string(dims) + " dimensions; at most 8 tensors of 8 dimensions are possible");
    numbers.push_back(static_cast<int64_t>(t.dtype));
    numbers.push_back(dims);
    numbers.insert(numbers.end(), t.shape.begin(), t.shape.end());
  }
  numbers.resize(kNumbers, 0);
  return at::tensor(numbers, at::kLong).to(device);
}

Geometry Geometry::decoded(const Tensor& numbers) {
  const Tensor here = numbers.cpu();
  const int64_t* at = here.const_data_ptr<int64_t>();
  Geometry out;
  out.tensors.resize(static_cast<size_t>(*at++));
  for (auto& t : out.tensors) {
    t.dtype = static_cast<at::ScalarType>(*at++);
    const int64_t dims = *at++;
    t.shape.assign(at, at + dims);
    at += dims;
  }
  return out;
}

std::vector<Tensor> Geometry::made(at::Device device) const {
  std::vector<Tensor> out;
  for (const auto& t : tensors)
    out.push_back(at::empty(t.shape, at::TensorOptions().dtype(t.dtype).device(device)));
  return out;
}

}  // namespace kinora::pp
