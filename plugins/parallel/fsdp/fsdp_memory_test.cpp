// What a rank holds under stage 3, in bytes of libtorch's allocator: its shards, and the units that are in
// use.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include "core/torch/context/chain.hpp"
#include "core/torch/context/parallelism.hpp"
#include "kinora/aten.hpp"
#include "kinora/context.hpp"
#include "tests/support/training.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;
using test::ScratchRun;
using Tensors = std::vector<Tensor>;

// Counts what libtorch's allocator gave out and did not get back, on whatever thread, in whole blocks.
class Counting final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t n) override {
    void* block = std::aligned_alloc(64, (n + 63) / 64 * 64);
    const int64_t now = now_ += size_of(block);
    for (int64_t most = most_; most < now && !most_.compare_exchange_weak(most, now);) {
    }
    return {block, block, drop, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return drop; }
  void copy_data(void* to, const void* from, size_t n) const override { std::memcpy(to, from, n); }
  static int64_t now() { return now_; }
  // Since it was asked last.
  static int64_t take_most() { return most_.exchange(now_); }

 private:
  static int64_t size_of(void* block) { return static_cast<int64_t>(malloc_usable_size(block)); }
  static void drop(void* block) {
    now_ -= size_of(block);
    std::free(block);  // NOLINT(cppcoreguidelines-no-malloc)
  }
  static inline std::atomic<int64_t> now_ = 0, most_ = 0;
};

constexpr int64_t kSize = 256, kUnit = kSize * kSize * static_cast<int64_t>(sizeof(float)),
                  kLittle = kUnit / 2;

struct Bytes {
  int64_t start, no_grad, forward, after_forward, backward, after;
};

// Of a model whose blocks are a matrix each, and whose data are next to nothing.
Bytes bytes(const std::string& parallel, int64_t blocks) {
  const ScratchRun run({{"dit", "parallel = " + parallel}});
  core::JobContext context = run.context("dit", false);
  const core::Parallelism strategies(context);
  static Counting counting;
  c10::SetCPUAllocator(&counting, /*priority=*/100);
  const int64_t before = Counting::now();
  Counting::take_most();
  const auto most = [before] { return Counting::take_most() - before; };
  // A thread of Gloo lets the tensors of a transfer go a moment after it is over.
  const auto now = [before] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return Counting::now() - before;
  };
  core::Chain chain({}, strategies.links());
  const Context<Tensor> ctx(chain.head());
  std::vector<kinora_param> weights;
  for (int64_t b = 0; b < blocks; ++b)
    weights.push_back(ctx.parameter(
        {.name = "w" + std::to_string(b), .shape = {kSize, kSize}, .init = Init::normal(0.1), .block = b}));
  chain.ready();
  Bytes out{};
  out.start = most();
  const auto forward = [&](uint32_t no_grad) {
    chain.begin({sizeof(kinora_pass), 0, no_grad, 0, 0, 0, 0, 1});
    kinora_seq seq = 0;
    Tensor x = ctx.sequence(at::ones({1, 1, kSize}), 1, 1, 1, seq);
    for (int64_t b = 0; b < blocks; ++b)
      x = ctx.block(b, {x}, {}, 1, [&, b](const Tensors& in) {
        return Tensors{ctx.linear(in[0], weights[static_cast<size_t>(b)], 0, seq).tanh()};
      })[0];
    return x.sum();
  };
  {
    const at::NoGradGuard off;
    forward(1);
  }
  out.no_grad = most();
  Tensor loss = forward(0);
  out.forward = most();
  out.after_forward = now();
  loss.backward();
  loss = Tensor();
  out.backward = most();
  chain.reduce();
  out.after = now();
  return out;
}

TEST(FsdpMemory, ARankHoldsItsShardsAndTheUnitsInUse) {
  for (const int size : {2, 4})
    test::on_ranks(size, [](const Rank& me) {
      constexpr int64_t kBlocks = 16;
      const int64_t shards = kBlocks * kUnit / me.size;
      for (const int64_t prefetch : {0, 1, 2}) {
        test::place(me, me.file() + std::to_string(prefetch));
        const std::string use = "[{ use = 'fsdp', prefetch = " + std::to_string(prefetch) + " }]";
        const Bytes b = bytes(use, kBlocks);
        // Gloo keeps a copy of each gather that is under way, and may still have that of the last one.
        const int64_t units = (1 + prefetch + std::max<int64_t>(prefetch, 1) + 1) * kUnit;
        EXPECT_LE(b.start, shards + kUnit + kLittle) << "drawn one parameter at a time";
        for (const int64_t peak : {b.no_grad, b.forward}) {
          EXPECT_LE(peak, shards + units + kLittle) << prefetch;
          EXPECT_GE(peak, shards + (1 + prefetch) * kUnit) << "a bound that nothing comes near shows nothing";
        }
        EXPECT_LE(b.after_forward, shards + kLittle) << "a graph keeps no parameters";
        EXPECT_LE(b.after, 2 * shards + kLittle) << "shards and their gradients";
      }
    });
}

// Besides shards and their gradients, a backward holds some units and their gradients, of however many
// blocks.
TEST(FsdpMemory, ABackwardHoldsNoMoreForMoreBlocks) {
  test::on_ranks(2, [](const Rank& me) {
    int64_t beside[2];
    for (const int64_t twice : {0, 1}) {
      test::place(me, me.file() + std::to_string(twice));
      const int64_t blocks = 8 << twice;
      beside[twice] = bytes("['fsdp']", blocks).backward - 2 * blocks * kUnit / me.size;
    }
    EXPECT_LE(beside[0], 8 * kUnit);
    EXPECT_LE(beside[1], beside[0] + 3 * kUnit / 2 + kLittle);
  });
}

}  // namespace
}  // namespace kinora
