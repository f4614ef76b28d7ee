// MM-SP with a small vision encoder and a small language model, against one process.
#include "plugins/parallel/mm-sp/mm_shard.hpp"

#include <cstdlib>
#include <map>

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include "core/torch/ranks/parallelism.hpp"
#include "kinora/transfers.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/run_file.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;
constexpr int64_t kWidth = 16, kPixels = 6, kHeads = 4, kWords = 11;

// A world of these ranks, in a job that is never run.
class World {
 public:
  explicit World(const Rank& me) {
    static int made = 0;
    setenv("RANK", std::to_string(me.rank).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(me.size).c_str(), 1);
    setenv("KINORA_RENDEZVOUS", (me.file() + std::to_string(made++)).c_str(), 1);
    setenv("KINORA_TIMEOUT_MS", "60000", 1);
    run_ =
        std::make_unique<test::ScratchRun>(std::map<std::string, std::string>{{"dit", "parallel = ['ddp']"}});
    context_ = std::make_unique<core::JobContext>(run_->context("dit", false));
    parallel_ = std::make_unique<core::Parallelism>(*context_);
  }
  Group<Tensor> group() const { return Group<Tensor>(&parallel_->group("world")); }

 private:
  std::unique_ptr<test::ScratchRun> run_;
  std::unique_ptr<core::JobContext> context_;
  std::unique_ptr<core::Parallelism> parallel_;
};

// One rank, which transfers nothing.
class Alone {
 public:
  Group<Tensor> group() { return Group<Tensor>(mesh_.group("world")); }

 private:
  core::MeshOwner mesh_;
};

// A batch: the layout of the sequence, the pixels of the images' tokens, and the words.
struct Batch {
  std::vector<MmSegment> sequence;
  std::vector<Tensor> images;  // [tokens, kPixels] each
  Tensor words;                // int64
};

Batch batch(const std::vector<MmSegment>& sequence) {
  at::manual_seed(5);
  Batch out{sequence, {}, {}};
  int64_t words = 0;
  for (const auto& s : sequence) {
    if (s.image < 0) {
      words += s.tokens;
      continue;
    }
    out.images.resize(std::max(out.images.size(), static_cast<size_t>(s.image) + 1));
    out.images[static_cast<size_t>(s.image)] =
        at::randn({s.tokens, kPixels}, at::kDouble).set_requires_grad(true);
  }
  out.words = at::randint(kWords, {words}, at::kLong);
  return out;
}

using Weights = std::map<std::string, Tensor>;
Weights weights() {
  at::manual_seed(9);
  Weights out;
  const auto add = [&](const char* name, int64_t rows, int64_t columns) {
    out[name] = (at::randn({rows, columns}, at::kDouble) / 4).set_requires_grad(true);
  };
  add("patch", kWidth, kPixels), add("mix", kWidth, kWidth), add("words", kWords, kWidth);
  for (const char* name : {"q", "k", "v", "out"}) add(name, kWidth, kWidth);
  return out;
}

// Each image by itself: its tokens see their mean.
Tensor encode(const Tensor& image, const Weights& w) {
  const Tensor x = at::gelu(at::linear(image, w.at("patch")));
  return x + at::gelu(at::linear(x.mean(0, true), w.at("mix")));
}

// Causal attention over the joined sequence, as in Ulysses: all positions and some heads on a rank.
// positions: of this rank's rows, -1 for padding.
Tensor language(const Group<Tensor>& group, const Tensor& x, const Tensor& positions, const Weights& w) {
  const auto heads = [&](const char* name) {
    return exchanged(group, at::linear(x, w.at(name)).view({1, -1, kHeads, kWidth / kHeads}), 2, 1)
        .transpose(1, 2);
  };
  const Tensor all = group.gather(positions, 0);
  const Tensor hidden = (all.unsqueeze(0) > all.unsqueeze(1)) | (all < 0).unsqueeze(0);
  const Tensor score = at::matmul(heads("q"), heads("k").transpose(2, 3)).masked_fill(hidden, -1e9);
  const Tensor seen = exchanged(group, at::matmul(score.softmax(-1), heads("v")).transpose(1, 2), 1, 2);
  return x + at::linear(seen.reshape({-1, kWidth}), w.at("out"));
}

// A number for each position and channel; the number and the count are those of the whole sequence.
Tensor loss_of(const Tensor& x, const Tensor& positions, int64_t tokens) {
  const Tensor weight =
      (at::arange(kWidth, at::kDouble).unsqueeze(0) + positions.to(at::kDouble).unsqueeze(1)).cos();
  return (x * weight).square().masked_fill((positions < 0).unsqueeze(1), 0).sum() /
         static_cast<double>(tokens);
}

int64_t length(const Batch& b) {
  int64_t n = 0;
  for (const auto& s : b.sequence) n += s.tokens;
  return n;
}

Tensor sharded(const Group<Tensor>& group, const Batch& b, const Weights& w,
               const std::vector<double>& costs = {}) {
  const MmShard shard(group, b.sequence, costs);
  std::vector<Tensor> made{at::zeros({0, kWidth}, at::kDouble).set_requires_grad(true)};
  for (const int64_t i : shard.mine()) made.push_back(encode(b.images[static_cast<size_t>(i)], w));
  const Tensor text = at::embedding(w.at("words"), b.words.index_select(0, shard.text()));
  const Tensor x = shard.repack(at::cat(made), text);
  return loss_of(language(group, x, shard.positions(), w), shard.positions(), length(b));
}

// The joined sequence in one process, without any of the operations under test.
Tensor one_process(const Batch& b, const Weights& w) {
  static Alone alone;
  std::vector<Tensor> rows;
  int64_t words = 0;
  for (const auto& s : b.sequence) {
    rows.push_back(s.image < 0 ? at::embedding(w.at("words"), b.words.narrow(0, words, s.tokens))
                               : encode(b.images[static_cast<size_t>(s.image)], w));
    words += s.image < 0 ? s.tokens : 0;
  }
  const Tensor positions = at::arange(length(b), at::kLong);
  return loss_of(language(alone.group(), at::cat(rows), positions, w), positions, length(b));
}

double worst(const Tensor& have, const Tensor& want) {
  return ((have - want).abs().max() / want.abs().max()).item<double>();
}

void equals_one_process(const World& world, const std::vector<MmSegment>& sequence,
                        const std::vector<double>& costs = {}) {
  const auto group = world.group();
  const Batch mine = batch(sequence), whole = batch(sequence);
  const Weights w = weights(), w_whole = weights();
  const Tensor loss = sharded(group, mine, w, costs), want = one_process(whole, w_whole);
  loss.backward();
  want.backward();
  EXPECT_LT(worst(group.sum(loss.detach()), want.detach()), 1e-10);
  const auto sum = [&](const Tensor& t) {
    return group.sum(t.grad().defined() ? t.grad() : at::zeros_like(t));
  };
  for (const auto& [name, tensor] : w) EXPECT_LT(worst(sum(tensor), w_whole.at(name).grad()), 1e-10) << name;
  for (size_t i = 0; i < mine.images.size(); ++i)
    EXPECT_LT(worst(sum(mine.images[i]), whole.images[i].grad()), 1e-10) << "image " << i;
}

TEST(MmShard, EqualsOneProcessInTheGradientsOfBothModels) {
  for (const int size : {2, 4})
    test::on_ranks(size, [](const Rank& me) {
      const World world(me);
      equals_one_process(world, {{3}, {5, 1}, {2}, {7, 0}, {1, 2}, {4}, {6, 3}, {5, 4}});
      equals_one_process(world, {{9, 0}, {4}});          // ranks without an image
      equals_one_process(world, {{1}, {1, 0}, {1, 1}});  // and without tokens
      equals_one_process(world, {{8, 0}, {8, 1}, {2}, {8, 2}, {8, 3}}, {9, 1, 1, 1});  // given costs
    });
}

TEST(MmShard, SharesImagesByCostAndTheSequenceByTokens) {
  EXPECT_EQ(share_by_cost({1, 1, 1, 1, 4}, 2), (std::vector<int64_t>{1, 1, 1, 1, 0}));
  EXPECT_EQ(share_by_cost({5, 5, 5}, 4), (std::vector<int64_t>{0, 1, 2}));
  test::on_ranks(4, [](const Rank& me) {
    const World world(me);
    const MmShard shard(world.group(), {{10}, {40, 0}, {20, 1}, {20, 2}, {10, 3}, {30, 4}, {7}});
    EXPECT_EQ(shard.positions().size(0), 35);  // 137 tokens and 3 of padding
    int64_t made = 0;
    for (const int64_t i : shard.mine())
      made += std::vector<int64_t>{40, 20, 20, 10, 30}[static_cast<size_t>(i)];
    EXPECT_GE(made, 20);
    EXPECT_LE(made, 40);
    world.group().barrier();  // no rank leaves before all have met
  });
}

// Peak bytes of tensors, from the allocator's reports.
class Metered final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    live += bytes;
    peak = std::max<int64_t>(peak, live);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t live = 0, peak = 0;
};

template <class Fn>
int64_t peak_of(Fn fn) {
  const auto meter = std::make_shared<Metered>();
  const c10::DebugInfoGuard on(c10::DebugInfoKind::PROFILER_STATE, meter);
  fn().backward();
  return meter->peak;
}

// Both passes, from the pixels to the tokens that the language model reads.
TEST(MmShard, NeedsMemoryOfItsShareOnly) {
  test::on_ranks(4, [](const Rank& me) {
    const World world(me);
    std::vector<MmSegment> sequence;
    for (int64_t i = 0; i < 16; ++i) sequence.insert(sequence.end(), {{20 + i % 3}, {100 + i % 5, i}});
    const Batch b = batch(sequence);
    const Weights w = weights();
    Alone alone;
    const auto repacked = [&](const Group<Tensor>& group) {
      const MmShard shard(group, b.sequence);
      std::vector<Tensor> made;
      for (const int64_t i : shard.mine()) made.push_back(encode(b.images[static_cast<size_t>(i)], w));
      return shard.repack(at::cat(made), at::embedding(w.at("words"), b.words.index_select(0, shard.text())))
          .square()
          .sum();
    };
    const int64_t share = peak_of([&] { return repacked(world.group()); }),
                  whole = peak_of([&] { return repacked(alone.group()); });
    EXPECT_LT(static_cast<double>(share), 1.25 * static_cast<double>(whole) / 4);
  });
}

TEST(MmShard, RefusesASequenceThatIsNone) {
  Alone alone;
  const auto group = alone.group();
  const auto refusal = [&](const std::vector<MmSegment>& s, const std::vector<double>& costs = {}) {
    return test::refusal([&] { MmShard(group, s, costs); });
  };
  EXPECT_NE(refusal({{1, 0}, {1, 0}}).find("image 0 has two places"), std::string::npos);
  EXPECT_NE(refusal({{1, 1}}).find("image 0 has no place"), std::string::npos);
  EXPECT_NE(refusal({{1, 0}}, {1, 2}).find("2 costs are given for 1 images"), std::string::npos);
}

}  // namespace
}  // namespace kinora
