// Ring attention by itself: shared keys in addition to those of the ring, and its memory.
#include "kinora/ring_attention.hpp"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include "kernels/torch/attention_block.hpp"
#include "tests/support/rank_strategies.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;

Tensor random(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }
Tensor leaf(const Tensor& x) { return x.detach().clone().set_requires_grad(true); }
double worst(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

// Every query of a rank sees every key of every rank.
std::shared_ptr<const RingPlan> everything(int64_t ranks, int64_t S, int64_t L) {
  return std::make_shared<RingPlan>(static_cast<size_t>(ranks), VisibleTiles{{0, S, 0, L, {}}});
}

TEST(RingAttention, KeysThatAllRanksHaveAreSeenBesideThoseThatGoRound) {
  test::on_ranks(4, [](const Rank& me) {
    const test::RankGroups world(me, "['cp-ring']");
    const auto group = world.group("cp");
    at::manual_seed(5);
    const int64_t S = 3, L = 5, H = 4, K = 2, d = 6, E = 4, R = me.size;
    const Tensor q = random({2, R * S, H, d}), k = random({2, R * L, K, d}), v = random({2, R * L, K, 5}),
                 ks = random({2, E, K, d}), vs = random({2, E, K, 5}), weight = random({2, R * S, H, 5});
    const Tensor valid = at::arange(E).unsqueeze(0) < at::tensor({4, 2}).unsqueeze(1);

    const auto of = [&](const Tensor& x) { return leaf(x.chunk(R, 1)[static_cast<size_t>(me.rank)]); };
    const std::vector<Tensor> mine{of(q), of(k), of(v), leaf(ks), leaf(vs)};
    const Tensor out = RingAttention<AttentionKernel>(group, true)(
        mine[0], mine[1], mine[2], 0.4, everything(R, S, L), {mine[3], mine[4], valid});
    (out * weight.chunk(R, 1)[static_cast<size_t>(me.rank)]).sum().backward();

    const std::vector<Tensor> whole{leaf(q), leaf(k), leaf(v), leaf(ks), leaf(vs)};
    const auto heads = [&](const Tensor& x) { return x.repeat_interleave(H / K, 2); };
    const Tensor s =
        (at::einsum("bshd,blhd->bhsl", {whole[0], heads(at::cat({whole[1], whole[3]}, 1))}) * 0.4)
            .masked_fill(~at::cat({at::ones({2, R * L}, at::kBool), valid}, 1).unsqueeze(1).unsqueeze(1),
                         -INFINITY);
    const Tensor want =
        at::einsum("bhsl,blhd->bshd", {s.softmax(3), heads(at::cat({whole[2], whole[4]}, 1))});
    (want * weight).sum().backward();

    EXPECT_LT(worst(out, want.chunk(R, 1)[static_cast<size_t>(me.rank)]), 1e-12);
    for (size_t i = 0; i < 5; ++i) {
      const Tensor part = mine[i].grad(), all = i < 3 ? group.gather(part, 1) : group.sum(part);
      EXPECT_LT(worst(all, whole[i].grad()), 1e-12) << i;
    }
  });
}

// Peak bytes of this thread's CPU tensors, above those at the start.
class Peak final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    now_ += bytes;
    most_ = std::max<int64_t>(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most() const { return most_; }

 private:
  int64_t now_ = 0, most_ = 0;
};

// For one forward and backward; every rank has the same number of queries and keys, in any ring.
int64_t peak(const Group<Tensor>& group) {
  at::manual_seed(5);
  const int64_t N = 256, H = 2, d = 16;
  const Tensor q = leaf(random({1, N, H, d})), k = leaf(random({1, N, H, d})), v = leaf(random({1, N, H, d})),
               weight = random({1, N, H, d});
  const auto plan = everything(group.size(), N, N);
  const auto seen = std::make_shared<Peak>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, seen);
  RingAttention<AttentionKernel>(group, true)(q, k, v, 0.25, plan).backward(weight);
  return seen->most();
}

TEST(RingAttention, MemoryDoesNotGrowWithTheRing) {
  test::on_ranks(4, [](const Rank& me) {
    const test::RankGroups world(me, "['cp-ring']");
    const int64_t two = peak(world.group("cp/2")), four = peak(world.group("cp"));
    const int64_t keys = 2 * 256 * 2 * 16 * 8;  // bytes of a block of keys and values
    EXPECT_GT(two, 2 * keys) << "what is here and what arrives";
    // A ring of two transfers no keys in its backward's last step; a ring of four has one block more.
    EXPECT_LE(four, two + keys) << "a block that stays alive is two more in a ring of four";
  });
}

}  // namespace
}  // namespace kinora
