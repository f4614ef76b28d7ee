// Every transfer against its closed form, on as many ranks as there are GPUs, up to 4; with one rank NCCL is
// used too. A missing rank is named.
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/device.hpp"
#include "plugins/collectives/gloo/gloo_testing.hpp"

namespace kinora {
namespace {

using at::Tensor;
using namespace test;  // NOLINT(google-build-using-namespace)

int gpus() { return core::why_no_gpu().empty() ? at::detail::getCUDAHooks().deviceCount() : 0; }

// A group of all ranks of a world that this rank has joined.
struct NcclWorld {
  test::Instance<kinora_collective> nccl{"collective/nccl"};
  void* self = nullptr;
  kinora_group group{};
  std::vector<int64_t> members;
  explicit NcclWorld(const Rank& me, int32_t timeout_ms = 30000) {
    const std::string uri = me.file();
    const kinora_world w{sizeof w, timeout_ms, me.rank, me.size, uri.c_str(), nullptr, nullptr};
    check(nccl->join(nccl.self(), &w));
    for (int r = 0; r < me.size; ++r) members.push_back(r);
    check(nccl->group(nccl.self(), "dp", members.data(), members.size(), &self));
    group = {sizeof group, 0, me.rank, me.size, members.data(), self, nccl->start, nccl->finish};
  }
  ~NcclWorld() { nccl->release(self); }
  Tensor operator()(uint32_t op, const Tensor& x, int64_t dim = 0, int64_t dim2 = 0, int64_t peer = 0) const {
    return Pending(&group, transfer(op, x, dim, dim2, peer)).finish();
  }
};

void every_collective(const Rank& me, at::Device device) {
  const NcclWorld w(me);
  const int64_t n = me.size, r = me.rank;
  const Tensor x = numbered(r, 2 * n, 3 * n).to(device);
  const auto all = of_all(n, 2 * n, 3 * n);
  const Tensor total = at::stack(all).sum(0);
  const auto equal = [&](const Tensor& got, const Tensor& want) {
    EXPECT_EQ(got.device().type(), device.type());
    EXPECT_TRUE(got.cpu().equal(want));
  };
  equal(w(KINORA_OP_ALL_REDUCE, x), total);
  equal(w(KINORA_OP_ALL_REDUCE_MAX, x), all.back());
  for (const int64_t dim : {0, 1, -1}) {
    equal(w(KINORA_OP_ALL_GATHER, x, dim), at::cat(all, dim));
    equal(w(KINORA_OP_REDUCE_SCATTER, x, dim), total.chunk(n, dim)[size_t(r)]);
  }
  for (const auto& [split, join] : {std::pair<int64_t, int64_t>{0, 1}, {1, 0}, {0, 0}}) {
    std::vector<Tensor> pieces;
    for (const Tensor& t : all) pieces.push_back(t.chunk(n, split)[size_t(r)]);
    equal(w(KINORA_OP_ALL_TO_ALL, x, split, join), at::cat(pieces, join));
  }
  equal(w(KINORA_OP_BROADCAST, x, 0, 0, n - 1), all.back());
  EXPECT_FALSE(w(KINORA_OP_BARRIER, Tensor()).defined());
}

TEST(Nccl, MovesEveryCollectiveOfGpuAndCpuTensors) {
  if (gpus() == 0) GTEST_SKIP() << core::why_no_gpu();
  on_ranks(std::min(gpus(), 4), [](const Rank& me) {
    every_collective(me, at::Device(at::kCUDA, static_cast<at::DeviceIndex>(me.rank)));
  });
  on_ranks(std::min(gpus(), 4), [](const Rank& me) {
    if (core::why_no_gpu().empty()) every_collective(me, at::kCPU);
  });
}

TEST(Nccl, RanksThatSendFirstDoNotWaitForEver) {
  if (gpus() < 2) GTEST_SKIP() << "it needs two GPUs, and there are " << gpus();
  on_ranks(2, [](const Rank& me) {
    if (!core::why_no_gpu().empty()) return;
    const NcclWorld w(me);
    const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(me.rank));
    const Tensor x = at::full({1 << 22}, me.rank, at::TensorOptions(device));
    Pending send(&w.group, transfer(KINORA_OP_SEND, x, 0, 0, 1 - me.rank)),
        recv(&w.group, transfer(KINORA_OP_RECV, x, 0, 0, 1 - me.rank));
    EXPECT_EQ(recv.finish().mean().item<double>(), 1 - me.rank);
    send.finish();
  });
}

TEST(Nccl, AMissingRankIsATimeoutThatNamesTransferGroupAndRank) {
  if (gpus() < 2) GTEST_SKIP() << "it needs two GPUs, and there are " << gpus();
  on_ranks(2, [](const Rank& me) {
    if (!core::why_no_gpu().empty()) return;
    const NcclWorld w(me, 3000);
    const Tensor x = at::ones({4}, at::kDouble);
    w(KINORA_OP_ALL_REDUCE, x);
    if (me.rank == 1) return me.meet("end");
    const Failed f = failure_of([&] { w(KINORA_OP_ALL_GATHER, x); });
    me.meet("end");
    EXPECT_EQ(f.code, KINORA_ERROR_TIMEOUT) << f.message;
    for (const char* part : {"gather #2", "group 'dp'", "3000 ms", "rank 1 did not take part"})
      EXPECT_NE(f.message.find(part), std::string::npos) << part << " is missing in: " << f.message;
    EXPECT_LT(f.seconds, 15);
  });
}

}  // namespace
}  // namespace kinora
