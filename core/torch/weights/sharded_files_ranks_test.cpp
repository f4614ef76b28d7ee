// Files that ranks write together: the same bytes at every topology, and no rank holds the whole model.
#include <csignal>
#include <fstream>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/torch/weights/checkpoint_writer.hpp"
#include "core/torch/weights/layouts_testing.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/collectives/gloo/gloo_testing.hpp"
#include "tests/support/checkpoint.hpp"
#include "tests/support/metered.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using spread::Layout;
using spread::OnRank;
using test::Rank;
using testing::HasSubstr;

// An exchange among the first `size` ranks of a world.
class Some {
 public:
  Some(const test::World& world, const Rank& me, int64_t size)
      : in_(me.rank < size),
        mesh_(*world.gloo.operator->(), world.gloo.self(), me.rank, {{"dp", me.size / size}, {"tp", size}}),
        exchange_(*mesh_.group("tp")) {}
  bool in() const { return in_; }
  const Exchange& exchange() const { return exchange_; }

 private:
  bool in_;
  MeshOwner mesh_;
  Exchange exchange_;
};

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
    auto out =
        checkpoint_files(part(values_of(model.leaves)), {part(first, "first."), part(second, "second.")});
    out.push_back(checkpoint_file("ema-0.99", part(average)));
    return out;
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

TEST(ShardedFiles, AssembleGivesEveryRankTheWhole) {
  test::on_ranks(4, [](const Rank& me) {
    const test::World world(me);
    Some all(world, me, 4);
    const auto want = spread::random_bits(spread::parameters(), 5, false);
    for (const auto& layout : spread::layouts()) {
      if (layout.size() != 4) continue;
      const OnRank model(layout, me.rank);
      load_values(model.parameters, model.leaves, want);
      const auto got = assemble(model.parameters, model.leaves, all.exchange());
      ASSERT_EQ(got.size(), want.size());
      for (const auto& [name, t] : want)
        EXPECT_EQ(std::memcmp(got.at(name).data_ptr(), t.contiguous().data_ptr(), t.nbytes()), 0)
            << layout.name << " " << name;
    }
  });
}

// Elements that no rank holds, and a rank with another dtype, are errors on all ranks.
TEST(ShardedFiles, RefuseWhatIsNotWhole) {
  test::on_ranks(2, [](const Rank& me) {
    const test::World world(me);
    Some both(world, me, 2);
    OnRank model({.name = "tp2", .tp = 2}, me.rank);
    if (me.rank == 1) model.leaves[0].tensor.reset();
    EXPECT_THAT(test::refusal([&] { assemble(model.parameters, model.leaves, both.exchange()); }),
                HasSubstr("'blocks.0.qkv': the ranks hold 40 of its 80 numbers"));
    OnRank other({.name = "dp2", .dp = 2}, me.rank);
    if (me.rank == 1) other.leaves[4].tensor = other.leaves[4].tensor.to(at::kDouble);
    EXPECT_THAT(test::refusal([&] { assemble(other.parameters, other.leaves, both.exchange()); }),
                HasSubstr("'blocks.1.norm' is of dtype Float on one rank and Double on rank 1"));
  });
}

constexpr int64_t kCount = 16, kEach = 1 << 19, kBytes = 4 * kEach;  // 2 MiB each

Parameters large() {
  Parameters out;
  for (int64_t i = 0; i < kCount; ++i) {
    Parameter p;
    p.name = "blocks." + std::to_string(i) + ".w", p.shape = {64, kEach / 64}, p.parts = {64}, p.block = i;
    p.role = KINORA_ROLE_COLUMN;
    out.push_back(p);
  }
  return out;
}

TEST(ShardedFiles, NoRankHoldsTheWholeModelToWriteIt) {
  test::on_ranks(4, [](const Rank& me) {
    const test::World world(me);
    Some all(world, me, 4);
    const OnRank model({.name = "fsdp4", .fsdp = 4}, me.rank, large());
    const std::vector<TensorFile> files{
        {.name = "w.safetensors",
         .holdings = {held(model.parameters, model.leaves, values_of(model.leaves))}}};
    const auto most = [](auto f) {
      test::Metered::begin();
      f();
      return test::Metered::most();
    };
    // One tensor being assembled, its arriving parts, and the parts sent to three others.
    EXPECT_LE(most([&] { write_files(me.folder, files, all.exchange(), 2 * kBytes); }), 4 * kBytes);
    ShardedFiles kept(files, all.exchange(), 2 * kBytes);
    const auto share = most([&] { kept.keep(); });
    EXPECT_GE(share, kCount / 4 * kBytes);
    EXPECT_LE(share, (kCount / 4 + 4) * kBytes);
  });
}

// A tensor of which this rank may only read its quarter: any other access ends the process.
at::Tensor quarter_of(int64_t bytes, int64_t rank, at::ScalarType dtype, const std::vector<int64_t>& shape) {
  auto* data = static_cast<char*>(
      mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(data + rank * bytes / 4, static_cast<size_t>(bytes / 4), PROT_READ);
  const auto unmap = [bytes](void* at) { munmap(at, static_cast<size_t>(bytes)); };
  return at::from_blob(data, shape, unmap, at::TensorOptions().dtype(dtype));
}

TEST(ShardedFiles, ARankReadsItsOwnNumbersOnly) {
  for (int64_t rank = 0; rank < 4; ++rank)
    for (const Layout& layout : {Layout{.name = "fsdp4", .fsdp = 4}, Layout{.name = "tp4", .tp = 4}})
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {
        const OnRank model(layout, rank, large());
        for (const auto& l : model.leaves) l.tensor.fill_(1);
        std::vector<std::string> names;
        for (const auto& p : model.parameters) names.push_back(p.name);
        test::Metered::begin();
        load_values(model.parameters, model.leaves, names, [&](const std::string&) {
          return quarter_of(kEach * static_cast<int64_t>(c10::elementSize(dtype)), rank, dtype,
                            {64, kEach / 64});
        });
        EXPECT_LE(test::Metered::most(), kBytes / 4) << "a piece";
        for (const auto& l : model.leaves) EXPECT_EQ(l.tensor.abs().max().item<float>(), 0);
      }
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
          {checkpoint_file("weights", held(model.parameters, model.leaves, values_of(model.leaves)))});
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
