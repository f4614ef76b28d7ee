// Sharded data parallelism against one process: output, loss, every gradient, and the parameters after steps.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/torch/ranks/parallelism.hpp"
#include "kernels/wire/wire.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/rank_strategies.hpp"
#include "tests/support/training.hpp"
#include "tests/support/wire_emulation.hpp"

namespace kinora {
namespace {

namespace models = test::models;
using test::Rank;
using test::ScratchRun;
using test::Trial;

std::string fsdp(const std::string& more = "", const std::string& beside = "") {
  return "[{ use = 'fsdp'" + (more.empty() ? "" : ", " + more) + " }" + beside + "]";
}

void all(int ranks, const std::vector<Trial>& trials) {
  test::on_ranks(
      ranks,
      [&](const Rank& me) {
        for (const auto& t : trials) test::equals_one_process(me, t);
      },
      120);
}

core::Frames rule(int64_t chunk, int64_t streams = 1) {
  core::Frames out;
  out.causal = true;
  out.chunk = chunk;
  out.streams = streams;
  return out;
}

TEST(Fsdp, EqualsOneProcessAtEveryStage) {
  for (const int size : {2, 4})
    all(size, {{.parallel = fsdp(), .micro = 2, .frames = 1, .rows = 10, .cols = 14},
               {.parallel = fsdp("stage = 2"), .micro = 2, .rows = 2, .cols = 2},
               {.parallel = fsdp("stage = 1"), .micro = 2, .rows = 2, .cols = 2},
               {.parallel = fsdp("prefetch = 0"), .rows = 2, .cols = 2, .steps = 2},
               {.parallel = fsdp("prefetch = 7"), .rows = 2, .cols = 2, .text = 0, .steps = 2}});
}

TEST(Fsdp, EqualsOneProcessForEveryModelAndRule) {
  all(2, {{.parallel = fsdp(), .model = models::kStDit, .frames = 3, .rows = 2, .cols = 14, .steps = 2},
          {.parallel = fsdp(), .model = models::kWan, .frames = 5, .rows = 2, .cols = 6, .steps = 2},
          {.parallel = fsdp(), .model = models::kCosmos, .rule = rule(1), .frames = 3, .steps = 2},
          {.parallel = fsdp(), .rule = rule(1, 2), .each = 2, .steps = 2}});
}

TEST(Fsdp, EqualsOneProcessUnderRecompute) {
  all(2, {{.parallel = fsdp("", ", 'recompute'"), .micro = 2, .rows = 2, .cols = 2},
          {.parallel = fsdp("", ", { use = 'recompute', every = 2 }"), .rows = 2, .cols = 2},
          {.parallel = fsdp("stage = 2", ", 'recompute'"), .micro = 2, .rows = 2, .cols = 2}});
}

TEST(Fsdp, EqualsOneProcessWithCopiesAlongAnotherAxis) {
  all(4, {{.parallel = fsdp("size = 2", ", 'ddp'"), .micro = 2, .rows = 2, .cols = 2},
          {.parallel = fsdp("size = 2, stage = 1", ", 'ddp'"), .micro = 2, .rows = 2, .cols = 2}});
}

TEST(Fsdp, EqualsOneProcessOnEightRanks) { all(8, {{.parallel = fsdp(), .rows = 2, .cols = 2, .steps = 1}}); }

TEST(Fsdp, EqualsOneProcessInFloat32) {
  all(2, {{.parallel = fsdp(), .rows = 2, .cols = 2, .precision = "fp32", .steps = 1},
          {.parallel = fsdp("stage = 1"), .rows = 2, .cols = 2, .precision = "fp32", .steps = 1}});
}

// Includes blocks whose own parameters are all frozen, and whose data needs no gradient.
TEST(Fsdp, EqualsOneProcessForAdaptersOfAFrozenModel) {
  const core::LoraOptions some{.rank = 2, .targets = {"linear_q", "linear_fc1", "linear_proj"}};
  all(2, {{.parallel = fsdp(), .micro = 2, .rows = 2, .cols = 2, .lora = some},
          {.parallel = fsdp("stage = 1", ", 'recompute'"), .rows = 2, .cols = 2, .lora = some},
          {.parallel = fsdp("", ", 'recompute'"), .rows = 2, .cols = 2, .lora = some}});
}

TEST(Fsdp, TrainsAsOneProcessDoes) {
  test::on_ranks(2, [](const Rank& me) {
    for (const char* stage : {"3", "1"}) {
      me.launched();
      const auto lines =
          test::trained(me, fsdp(std::string("stage = ") + stage), "batch = 4\naccumulate = 2\n");
      if (me.rank != 0) continue;
      Rank::alone();
      const auto wanted = test::trained({0, 1, me.folder, 0}, "['single']", "batch = 4\naccumulate = 2\n");
      ASSERT_EQ(lines.size(), 3U);
      for (size_t i = 0; i < 3; ++i)
        for (const char* key : {"loss", "gradient_norm"})
          EXPECT_NEAR(lines[i].at(key).get<double>() / wanted[i].at(key).get<double>(), 1, 1e-10) << key << i;
    }
  });
}

TEST(Fsdp, OfOneRankIsNoLink) {
  test::on_ranks(1, [](const Rank&) {
    const ScratchRun run({{"dit", std::string("parallel = ['fsdp']")}});
    core::JobContext context = run.context("dit", false);
    EXPECT_TRUE(core::Parallelism(context).links().empty());
  });
}

// Every rank computes with the same rounded parameters: what each rank's part decodes to, its own too.
TEST(Fsdp, GathersInFewerBytesTheSameOnAllRanks) {
  test::on_ranks(2, [](const Rank& me) {
    for (const auto& [name, format] :
         {std::pair{"fp8", wire::Format::fp8}, std::pair{"nvfp4", wire::Format::nvfp4}}) {
      core::ChainOptions options;
      test::StrategyChain model(me, fsdp(std::string("stage = 2, gather_dtype = '") + name + "'"), options);
      const auto p = model.matrices({{9, 15}})[0];
      const at::Tensor shard = model.chain.leaves().at(0).tensor.detach();
      kinora_pass pass{};
      pass.struct_size = sizeof pass;
      pass.no_grad = 1;
      model.chain.begin(pass);
      const at::NoGradGuard off;
      at::Tensor seen;
      model.ctx.block(0, {at::ones({1})}, {}, 1, [&](const std::vector<at::Tensor>& in) {
        seen = model.ctx.value(p).clone();
        return in;
      });
      const Group<at::Tensor> group(&model.strategies.group("fsdp"));
      const at::Tensor parts = group.gather(shard.view({1, 1, -1}), 0);
      const at::Tensor want =
          wire::unpacked(wire::packed(parts, format, "shards"), 1, shard.numel(), format, at::kFloat);
      EXPECT_TRUE(at::equal(seen.flatten(), want.flatten().narrow(0, 0, 9 * 15))) << name;
      EXPECT_FALSE(at::equal(seen.flatten(), parts.flatten().narrow(0, 0, 9 * 15))) << name;
      EXPECT_TRUE(at::equal(shard, model.chain.leaves().at(0).tensor)) << "the optimizer's numbers";
    }
  });
}

// One process that computes with its parameters rounded as `ranks` send them: those of a block in the order of their
// declaration are one vector, filled up with zeros, of which each rank's equal part is one row.
class RoundsParameters final : public Link<at::Tensor> {
 public:
  RoundsParameters(int64_t ranks, std::string format)
      : Link(KINORA_LEVEL_PRECISION), ranks_(ranks), format_(std::move(format)) {
    skip_inherited<RoundsParameters>();
  }
  kinora_param parameter(const kinora_param_spec& s) override {
    const kinora_param p = next.parameter(s);
    blocks_[s.block].push_back(p);
    block_of_[p] = s.block;
    return p;
  }
  void begin(const kinora_pass&) override { arrived_.clear(); }
  at::Tensor value(kinora_param p) override {
    const int64_t block = block_of_.at(p);
    if (!arrived_.contains(block)) arrive(block);
    const at::Tensor exact = next.value(p);  // its gradient is that of the rounded numbers
    return exact + (arrived_.at(block).at(p) - exact.detach());
  }

 private:
  void arrive(int64_t block) {
    std::vector<at::Tensor> all, rows;
    int64_t end = 0;
    for (const kinora_param p : blocks_.at(block)) {
      all.push_back(next.value(p).detach().flatten());
      end += all.back().numel();
    }
    const int64_t part = (end + ranks_ - 1) / ranks_;
    all.push_back(at::zeros({part * ranks_ - end}, all[0].options()));
    for (const at::Tensor& row : at::cat(all).view({ranks_, 1, part}).unbind())
      rows.push_back(test::arrived(row, format_).flatten());
    const at::Tensor whole = at::cat(rows);
    int64_t from = 0;
    for (const kinora_param p : blocks_.at(block)) {
      const at::Tensor exact = next.value(p);
      arrived_[block][p] = whole.narrow(0, from, exact.numel()).view(exact.sizes());
      from += exact.numel();
    }
  }
  int64_t ranks_;
  std::string format_;
  std::map<int64_t, std::vector<kinora_param>> blocks_;
  std::map<kinora_param, int64_t> block_of_;
  std::map<int64_t, std::map<kinora_param, at::Tensor>> arrived_;
};

// Also where a block runs again.
TEST(Fsdp, EqualsOneProcessThatRoundsWhatIsGatheredInFewerBytes) {
  test::on_ranks(2, [](const Rank& me) {
    for (const char* format : {"auto", "fp8", "nvfp4"})
      for (const char* beside : {"", ", 'recompute'"}) {
        Trial t{.parallel = fsdp(std::string("gather_dtype = '") + format + "'", beside), .steps = 2};
        t.more = test::of_one_process<RoundsParameters>(int64_t{me.size}, std::string(format));
        test::equals_one_process(me, t);
      }
  });
}

// Parameters stay bfloat16 after the gather, so each of the two ranks rounds its part of a gradient once: by half a
// step of 8 bits, 2^-9. What the forward computes is exact.
TEST(Fsdp, EqualsOneProcessOfBfloat16ParametersUpToTheirGradientsRounding) {
  using Kind = core::Compared::Kind;
  test::on_ranks(2, [](const Rank& me) {
    Trial t{.parallel = fsdp("gather_dtype = 'bfloat16'"), .steps = 1};
    t.more = test::of_one_process<RoundsParameters>(int64_t{me.size}, std::string("bfloat16"));
    me.launched();
    core::Equality(test::runtime(), t).run([&](const core::Compared& c) {
      const bool rounded = c.kind == Kind::gradient || c.kind == Kind::norm;
      if (c.kind == Kind::parameter) return;
      EXPECT_LE(c.off, rounded ? 2 * 0x1p-9 : 1e-10) << c.what() << ", rank " << me.rank;
    });
  });
}

}  // namespace
}  // namespace kinora
