#include "core/torch/context/meeting.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"

namespace kinora::core {

at::Tensor transferred(const kinora_group& group, uint32_t op, const at::Tensor& x) {
  if (group.size == 1) return x;
  kinora_transfer transfer{};
  transfer.struct_size = sizeof transfer;
  transfer.op = op;
  transfer.in = handle(x);
  void* work = nullptr;
  kinora_tensor out = nullptr;
  check(group.start(group.self, &transfer, &work));
  check(group.finish(work, &out));
  return adopt<at::Tensor>(out);
}

at::Tensor gather_rows(const kinora_group& group, const std::vector<double>& mine) {
  return transferred(group, KINORA_GATHER, at::tensor(mine, at::kDouble).unsqueeze(0)).contiguous();
}

std::vector<std::string> gather_texts(const kinora_group& group, const std::string& mine) {
  const at::Tensor lengths = gather_rows(group, {static_cast<double>(mine.size())});
  at::Tensor row = at::zeros({1, std::max<int64_t>(1, lengths.max().item<int64_t>())}, at::kByte);
  std::copy(mine.begin(), mine.end(), row.data_ptr<uint8_t>());
  const at::Tensor all = transferred(group, KINORA_GATHER, row).contiguous();
  std::vector<std::string> out;
  for (int64_t r = 0; r < all.size(0); ++r) {
    const auto* bytes = all[r].data_ptr<uint8_t>();
    out.emplace_back(bytes, bytes + lengths[r].item<int64_t>());
  }
  return out;
}

}  // namespace kinora::core
