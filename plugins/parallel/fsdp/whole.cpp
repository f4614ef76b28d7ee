#include "plugins/parallel/fsdp/whole.hpp"

namespace kinora::fsdp {

void Whole::empty() {
  if (!numbers_.defined()) return;
  const c10::Storage& storage = numbers_.storage();
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(nullptr, numbers_.device()));
  storage.unsafeGetStorageImpl()->set_nbytes(0);
}

void Whole::fill(const at::Tensor& gathered) {
  if (!numbers_.defined()) return;
  auto *to = numbers_.storage().unsafeGetStorageImpl(), *from = gathered.storage().unsafeGetStorageImpl();
  const size_t bytes = from->nbytes();
  to->set_data_ptr_noswap(from->set_data_ptr(at::DataPtr(nullptr, gathered.device())));
  to->set_nbytes(bytes);
  from->set_nbytes(0);
}

}  // namespace kinora::fsdp
