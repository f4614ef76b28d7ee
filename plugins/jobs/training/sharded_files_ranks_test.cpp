// Files that ranks write together: the same bytes at every topology, and no rank holds the whole model.
#include <csignal>
#include <fstream>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "core/torch/weights/layouts_testing.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/collectives/gloo/gloo_testing.hpp"
#include "plugins/jobs/training/checkpoint_testing.hpp"
#include "plugins/jobs/training/checkpoint_writer.hpp"
#include "tests/support/metered.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using spread::Layout;
using spread::OnRank;
using spread::Some;
using test::Rank;
using testing::HasSubstr;

std::string bits_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
std::map<std::string, std::string> bits_in(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::directory_iterator(folder))
    out[entry.path().filename().string()] = bits_of(entry.path());
  return out;
}

// One rank's part of a training's parameters.
struct State {
  OnRank model;
  std::vector<at::Tensor> first, second, average;
  State(const Layout& layout, int64_t rank)
      : model(layout, rank), first(model.zeros()), second(model.zeros()), average(model.zeros()) {}
  std::vector<TensorFile> files() const {
    const auto part = [&](const auto& per_leaf, const std::string& prefix = "") {
      return held(model.parameters, model.leaves, per_leaf, prefix);
    };
    return checkpoint_files({{"weights", {part(values_of(model.leaves))}},
                             {"optimizer", {part(first, "first."), part(second, "second.")}},
                             {"ema-0.99", {part(average)}}});
  }
  void load(const Checkpoint& from) {
    NamedTensors v = from.optimizer;
    const NamedTensors m = taken(v, "first.");
    const auto put = [&](NamedTensors tensors, const std::vector<at::Tensor>& to) {
      std::vector<std::string> names;
      for (const auto& [name, t] : tensors) names.push_back(name);
      distribute(model.parameters, model.leaves, to, names, taking_from(tensors));
    };
    put(from.weights, values_of(model.leaves));
    put(m, first);
    put(taken(v, "second."), second);
    put(from.ema.at("0.99"), average);
  }
};

fs::path saved(const fs::path& root, const Layout& layout, const Exchange& exchange, const State& state,
               uint64_t shard_size, bool in_background) {
  CheckpointWriter writer(root / layout.name, exchange,
                          {.background = in_background, .shard_size = shard_size});
  TrainState about;
  about.step = 7;
  writer.start(about, state.files());
  writer.finish();
  return root / layout.name / "step-000007";
}

// From layout to layout and back, each from the previous one's files. Nothing written depends on ranks, so
// every folder equals the first, byte for byte.
TEST(ShardedFiles, ReshardToAnyMeshAndBackBitForBit) {
  test::on_ranks(4, [](const Rank& me) {
    const test::World world(me);
    std::map<int64_t, std::unique_ptr<Some>> some;
    for (const int64_t n : {1, 2, 4}) some[n] = std::make_unique<Some>(world, me, n);
    for (const uint64_t shard_size : {uint64_t{300}, kShardSize}) {
      const fs::path root = fs::path(me.folder) / std::to_string(shard_size);
      const auto all = spread::parameters();
      Checkpoint start;
      start.weights = spread::random_bits(all, 1, false);
      for (const auto& [name, t] : spread::random_bits(all, 2, true)) start.optimizer["first." + name] = t;
      for (const auto& [name, t] : spread::random_bits(all, 3, true)) start.optimizer["second." + name] = t;
      start.ema["0.99"] = spread::random_bits(all, 4, true);
      start.state.step = 7;
      fs::path from = root / "start" / "step-000007";
      if (me.rank == 0) test::save_checkpoint(root / "start", start, shard_size);
      int n = 0;
      for (const auto& layout : spread::layouts()) {
        me.meet(root.filename().string() + "-" + std::to_string(n++));
        fs::path to = root / std::to_string(n);
        if (some.at(layout.size())->in()) {
          State state(layout, me.rank);
          state.load(load_checkpoint(from));
          const auto& exchange = some.at(layout.size())->exchange();
          saved(to, layout, exchange, state, shard_size, n % 2 == 0);
        }
        from = to / layout.name / "step-000007";
      }
      me.meet(root.filename().string() + "-end");
      if (me.rank != 0) continue;
      const auto want = bits_in(root / "start" / "step-000007");
      EXPECT_EQ(want.size() > 4, shard_size == 300) << "one file each if the model is small";
      n = 0;
      for (const auto& layout : spread::layouts()) {
        const auto got = bits_in(root / std::to_string(++n) / layout.name / "step-000007");
        ASSERT_EQ(got.size(), want.size()) << layout.name;
        for (const auto& [file, bits] : want) EXPECT_TRUE(got.at(file) == bits) << layout.name << " " << file;
      }
      const auto back = load_checkpoint(root / "start" / "step-000007");
      for (const auto& [name, t] : start.weights)
        EXPECT_EQ(std::memcmp(back.weights.at(name).data_ptr(), t.contiguous().data_ptr(), t.nbytes()), 0)
            << name;
    }
  });
}

TEST(ShardedFiles, NoRankHoldsTheWholeModelToWriteIt) {
  test::on_ranks(4, [](const Rank& me) {
    const test::World world(me);
    Some all(world, me, 4);
    const OnRank model({.name = "fsdp4", .fsdp = 4}, me.rank, spread::large());
    const std::vector<TensorFile> files{
        {.name = "w.safetensors",
         .holdings = {held(model.parameters, model.leaves, values_of(model.leaves))}}};
    const auto most = [](auto f) {
      test::Metered::begin();
      f();
      return test::Metered::most();
    };
    // One tensor being assembled, its arriving parts, and the parts sent to three others.
    std::vector<ListedFile> listed;
    EXPECT_LE(most([&] { listed = write_files(me.folder, files, all.exchange(), 2 * spread::kLargeBytes); }),
              4 * spread::kLargeBytes);
    EXPECT_EQ(listed.size(), static_cast<size_t>(spread::kLargeCount / 2)) << "those of all ranks";
    for (const auto& file : listed) EXPECT_EQ(fault_of(me.folder, file, /*with_digest=*/true), "");
    ShardedFiles kept(files, all.exchange(), 2 * spread::kLargeBytes);
    const auto share = most([&] { kept.keep(); });
    EXPECT_GE(share, spread::kLargeCount / 4 * spread::kLargeBytes);
    EXPECT_LE(share, (spread::kLargeCount / 4 + 4) * spread::kLargeBytes);
  });
}

// Simulates a full disk on one rank.
class NoSpace {
 public:
  NoSpace() {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{64, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoSpace() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(ShardedFiles, WhatFailsOnOneRankFailsOnAllWithItsError) {
  test::on_ranks(2, [](const Rank& me) {
    const test::World world(me);
    Some both(world, me, 2);
    const fs::path root = fs::path(me.folder) / "checkpoints";
    for (const bool background : {false, true}) {
      State state({.name = "fsdp2", .fsdp = 2}, me.rank);
      CheckpointWriter writer(root, both.exchange(), {.background = background, .shard_size = 300});
      {
        std::optional<NoSpace> full;
        if (me.rank == 1) full.emplace();
        EXPECT_THAT(test::refusal([&] { writer.start({.step = 3}, state.files()), writer.finish(); }),
                    testing::AllOf(HasSubstr("rank 1: "), HasSubstr("File too large")));
      }
      both.exchange().agree(nullptr);
      if (me.rank == 0) {
        EXPECT_TRUE(fs::is_empty(root)) << "no files remain";
      }
      writer.start({.step = 4}, state.files());
      writer.finish();
      EXPECT_EQ(latest_checkpoint(root)->filename(), "step-000004");
      both.exchange().agree(nullptr);
      if (me.rank == 0) fs::remove_all(root / "step-000004");
      both.exchange().agree(nullptr);
    }
    std::ofstream(fs::path(me.folder) / "file").put('x');
    EXPECT_THAT(test::refusal([&] {
                  CheckpointWriter(fs::path(me.folder) / "file", both.exchange(), {}).start({}, {});
                }),
                testing::AllOf(HasSubstr("rank 0: "), HasSubstr("cannot be created")));
  });
}

// Each file is read by one of the ranks, and what one finds holds for all.
TEST(ShardedFiles, DamageInAnyOfThemIsSeenByAllRanks) {
  test::on_ranks(2, [](const Rank& me) {
    const test::World world(me);
    Some both(world, me, 2);
    const fs::path root = fs::path(me.folder) / "checkpoints";
    State state({.name = "fsdp2", .fsdp = 2}, me.rank);
    CheckpointWriter writer(root, both.exchange(), {.background = false, .shard_size = 300, .keep = 9});
    writer.start({.step = 1}, state.files());
    std::vector<std::string> names;
    for (size_t i = 0; i == 0 || i < names.size(); ++i) {
      writer.start({.step = 2}, state.files());
      if (i == 0)
        for (const auto& f : load_checkpoint(root / "step-000002").state.files) names.push_back(f.name);
      EXPECT_EQ(whole_checkpoint(root, both.exchange())->filename(), "step-000002");
      both.exchange().agree(nullptr);
      if (me.rank == 0) {
        std::fstream file(root / "step-000002" / names[i], std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-2, std::ios::end);
        file << "##";
      }
      both.exchange().agree(nullptr);
      EXPECT_EQ(whole_checkpoint(root, both.exchange())->filename(), "step-000001") << names[i];
      both.exchange().agree(nullptr);
    }
    EXPECT_GT(names.size(), 3U) << "so that each rank reads some";
  });
}

// The files have the values at start(), and none has its final name before all ranks call check().
TEST(ShardedFiles, InTheBackgroundAreOfTheMomentTheyWereStarted) {
  test::on_ranks(2, [](const Rank& me) {
    const test::World world(me);
    Some both(world, me, 2);
    const fs::path root = fs::path(me.folder) / "checkpoints";
    OnRank model({.name = "dp2", .dp = 2}, me.rank);
    CheckpointWriter writer(root, both.exchange(), {.keep = 1});
    for (int64_t step = 1; step <= 3; ++step) {
      for (auto& l : model.leaves) l.tensor.fill_(static_cast<double>(step));
      writer.start(
          {.step = step},
          checkpoint_files({{"weights", {held(model.parameters, model.leaves, values_of(model.leaves))}}}));
      for (auto& l : model.leaves) l.tensor.fill_(-1);
    }
    me.meet("started");
    EXPECT_EQ(latest_checkpoint(root)->filename(), "step-000002") << "start() waits for the previous one";
    me.meet("seen");
    for (int i = 0; i < 1000 && latest_checkpoint(root)->filename() != "step-000003"; ++i) {
      writer.check();
      both.exchange().agree(nullptr);
      usleep(1000);
    }
    writer.finish();
    both.exchange().agree(nullptr);
    for (const auto& [name, t] : load_checkpoint(*latest_checkpoint(root)).weights)
      EXPECT_TRUE(at::equal(t, at::full_like(t, 3))) << name;
    EXPECT_FALSE(fs::exists(root / "step-000001"));
  });
}

}  // namespace
}  // namespace kinora::core
