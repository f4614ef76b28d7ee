#include "core/torch/context/meeting.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/plugin/host.hpp"
#include "core/run/call.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {

std::unique_ptr<void, void (*)(void*)> joined(const Component& collective, const Options& options,
                                              const LaunchPlace& here, const kinora_run* run) {
  const auto& api = collective.table<kinora_collective>();
  std::unique_ptr<void, void (*)(void*)> out(made(api.create(host(), options.abi()), collective.spec->id),
                                             api.destroy);
  kinora_world world{};
  world.struct_size = sizeof world;
  world.timeout_ms = static_cast<int32_t>(here.timeout_ms);
  world.rank = here.rank;
  world.size = here.world;
  world.rendezvous = here.rendezvous.c_str();
  world.run = run;
  check(api.join(out.get(), &world));
  return out;
}

at::Tensor transferred(const kinora_group& group, uint32_t op, const at::Tensor& x) {
  if (group.size == 1) return x;
  return Group<at::Tensor>(&group).transfer({sizeof(kinora_transfer), op, 0, 0, 0, 0, handle(x)});
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
