#include "plugins/parallel/fsdp/flat.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include <ATen/ATen.h>

namespace kinora::fsdp {

using at::Tensor;

int64_t Declared::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

void Flat::take(std::vector<Declared> parameters, Group<Tensor> group, const Context<Tensor>& next) {
  parameters_ = std::move(parameters);
  group_ = group;
  // Stable, since all ranks must place the parameters equally and in the order of their declaration.
  std::stable_partition(parameters_.begin(), parameters_.end(), [](const Declared& p) { return p.split; });
  int64_t all = 0;
  for (const auto& p : parameters_) {
    offsets_.push_back(all);
    all += p.numel();
  }
  part_ = (all + group.size() - 1) / group.size();
  const int64_t begin = group.rank() * part_, end = begin + part_;
  for (size_t i = 0; i < count(); ++i) {
    const int64_t from = std::max(begin, offsets_[i]),
                  to = std::min(end, offsets_[i] + parameters_[i].numel());
    if (from >= to && (i > 0 || shard_.defined())) continue;  // the first one is needed for dtype and device
    const Tensor value = next.value(parameters_[i].id).detach();
    if (!shard_.defined()) shard_ = at::zeros({part_}, value.options());
    if (from < to)
      shard_.narrow(0, from - begin, to - from)
          .copy_(value.view({-1}).narrow(0, from - offsets_[i], to - from));
  }
  if (!empty()) shard_.set_requires_grad(!parameters_[0].frozen);
}

// Parameters that tp splits fill [0, all) of the whole vector, this rank stores [rank n, (rank + 1) n).
int64_t Flat::split() const {
  int64_t all = 0;
  for (const auto& p : parameters_)
    if (p.split) all += p.numel();
  return std::clamp<int64_t>(all - group_.rank() * part_, 0, part_);
}

std::vector<Link<Tensor>::Piece> Flat::pieces() const {
  std::vector<Link<Tensor>::Piece> out;
  const int64_t begin = group_.rank() * part_;
  for (size_t i = 0; i < count(); ++i) {
    const int64_t from = std::max(begin, offsets_[i]),
                  to = std::min(begin + part_, offsets_[i] + parameters_[i].numel());
    const bool some = from < to;
    out.push_back({parameters_[i].id, some ? from - offsets_[i] : 0, some ? to - from : 0, shard_,
                   some ? from - begin : 0});
  }
  return out;
}

Started<Tensor> Flat::start_gather(wire::Format format) const {
  const Tensor mine = shard_.detach();
  if (!wire::is_quantised(format))
    return group_.start_gather(format == wire::Format::same ? mine : mine.to(at::kBFloat16), 0);
  return group_.start_gather(wire::packed(mine.view({1, 1, part_}), format, "fsdp: parameters"), 0);
}

Tensor Flat::received(const Tensor& gathered, wire::Format format, wire::Meter* meter) const {
  if (!wire::is_quantised(format)) return gathered;
  const Tensor whole = wire::unpacked(gathered, 1, part_, format, shard_.scalar_type()).view({-1});
  if (meter)
    meter->add(shard_.detach(), gathered[group_.rank()], whole.narrow(0, group_.rank() * part_, part_));
  return whole;
}

// set_() instead of views: to autograd each value is a tensor of its own, with its own version counter, over
// the one storage that class Whole empties and fills.
std::vector<Tensor> Flat::values(const Tensor& whole) const {
  std::vector<Tensor> out;
  for (size_t i = 0; i < count(); ++i) {
    std::vector<int64_t> strides(parameters_[i].shape.size());
    int64_t stride = 1;
    for (size_t d = strides.size(); d-- > 0; stride *= parameters_[i].shape[d]) strides[d] = stride;
    out.push_back(
        at::empty({0}, whole.options())
            .set_(whole.storage(), whole.storage_offset() + offsets_[i], parameters_[i].shape, strides));
  }
  return out;
}

Tensor Flat::joined(const std::vector<Tensor>& values, at::ScalarType dtype) const {
  Tensor out = at::empty({padded()}, values.at(0).options().dtype(dtype));
  int64_t end = 0;
  for (size_t i = 0; i < count(); ++i) {
    end = offsets_[i] + parameters_[i].numel();
    out.narrow(0, offsets_[i], parameters_[i].numel()).copy_(values[i].reshape({-1}));
  }
  // The padding becomes part of the last ranks' gradients, and of their norm.
  out.narrow(0, end, padded() - end).zero_();
  return out;
}

// At once: the transfer of one microbatch overlaps with the computation of the next, and only one runs at a time.
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

// Changes the storage below the tensors; their sizes, strides and version counters stay. Between empty() and
// fill() no one may read them.
void Whole::empty() {
  if (!numbers_.defined()) return;
  const c10::Storage& storage = numbers_.storage();
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(nullptr, numbers_.device()));
  storage.unsafeGetStorageImpl()->set_nbytes(0);
}

// Takes the memory of `gathered` over, which is empty afterwards.
void Whole::fill(const at::Tensor& gathered) {
  if (!numbers_.defined()) return;
  auto *to = numbers_.storage().unsafeGetStorageImpl(), *from = gathered.storage().unsafeGetStorageImpl();
  const size_t bytes = from->nbytes();
  to->set_data_ptr_noswap(from->set_data_ptr(at::DataPtr(nullptr, gathered.device())));
  to->set_nbytes(bytes);
  from->set_nbytes(0);
}

}  // namespace kinora::fsdp
