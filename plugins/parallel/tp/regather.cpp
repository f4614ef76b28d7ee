#include "plugins/parallel/tp/regather.hpp"

#include <ATen/ATen.h>

namespace kinora {

Regather::Regather(Group<at::Tensor> group, const at::Tensor& own, const at::Tensor& all)
    : group_(group), own_(own.detach()), version_(own._version()), all_(all.storage().getWeakStorageImpl()) {}

void Regather::empty() {
  const auto all = all_.lock();
  if (!all) return;
  all->set_data_ptr_noswap(at::DataPtr(nullptr, all->device()));
  all->set_nbytes(0);
}

void Regather::start() {
  const auto all = all_.lock();
  if (!all || all->nbytes() > 0 || !own_.defined() || arriving_.pending()) return;
  if (own_._version() != version_)
    throw Error(KINORA_ERROR_FAILED,
                "tp: tokens that a COLUMN linear read were written to before its backward; write to a copy");
  arriving_ = group_.start_gather(own_, 1);
}

void Regather::finish() {
  start();
  if (!arriving_.pending()) return;
  const at::Tensor again = arriving_.finish();  // has the same memory layout as the first gather's result
  own_.reset();
  const auto all = all_.lock();
  if (!all) return;
  auto* from = again.storage().unsafeGetStorageImpl();
  const size_t bytes = from->nbytes();
  all->set_data_ptr_noswap(from->set_data_ptr(at::DataPtr(nullptr, again.device())));
  all->set_nbytes(bytes);
  from->set_nbytes(0);
}

}  // namespace kinora
