#include "plugins/jobs/training/checkpoint.hpp"

#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <set>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "core/base/log.hpp"
#include "core/io/fence.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "host/weights/weights.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/training/checkpoint_testing.hpp"
#include "plugins/jobs/training/checkpoint_writer.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CheckpointIn : public testing::Test {
 protected:
  CheckpointIn() : root_(fs::temp_directory_path() / ("kinora-checkpoint-" + std::to_string(getpid()))) {}
  ~CheckpointIn() override { fs::remove_all(root_); }
  static Checkpoint at_step(int64_t step) {
    Checkpoint c;
    c.state.step = step;
    c.state.samples_seen = step * 8;
    c.state.optimizer_steps = step;
    c.state.offsets = {{"loss", 1ull << 63}};
    c.state.config_hash = "abc";
    c.weights = {{"w", at::full({4, 4}, static_cast<double>(step))}};
    c.optimizer = {{"first.w", at::ones({4, 4})}, {"second.w", at::zeros({4, 4})}};
    return c;
  }
  size_t entries() {
    return static_cast<size_t>(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }
  fs::path root_;
};

TEST_F(CheckpointIn, GivesBackWhatWasSaved) {
  EXPECT_FALSE(latest_checkpoint(root_));
  EXPECT_EQ(test::save_checkpoint(root_, at_step(100)).filename(), "step-000100");
  auto c = load_checkpoint(*latest_checkpoint(root_), "abc");
  EXPECT_EQ(c.state.step, 100);
  EXPECT_EQ(c.state.samples_seen, 800);
  EXPECT_EQ(c.state.offsets.at("loss"), 1ull << 63);
  EXPECT_TRUE(at::equal(c.weights.at("w"), at::full({4, 4}, 100.)));
  EXPECT_TRUE(at::equal(taken(c.optimizer, "first.").at("w"), at::ones({4, 4})));
  EXPECT_EQ(c.optimizer.size(), 1u) << "second.w stays";
  EXPECT_TRUE(c.ema.empty());
}

TEST_F(CheckpointIn, TheLatestHasTheMostStepsAndIncompleteOnesAreNotSeen) {
  for (const int64_t step : {900, 1000000, 1000}) test::save_checkpoint(root_, at_step(step));
  fs::create_directories(root_ / "step-2000000");      // no state.json: not a checkpoint
  fs::create_directories(root_ / "step-00009999999");  // not in our number format
  fs::create_directories(root_ / ".step-3000000.tmp-x-1-1");
  EXPECT_EQ(latest_checkpoint(root_)->filename(), "step-1000000");
  prune_checkpoints(root_, 2);
  EXPECT_FALSE(fs::exists(root_ / "step-000900"));
  EXPECT_TRUE(fs::exists(root_ / "step-001000"));
  EXPECT_TRUE(fs::exists(root_ / ".step-3000000.tmp-x-1-1")) << "a temporary of another machine";
}

TEST_F(CheckpointIn, EveryNthStaysForEver) {
  for (int64_t step = 10; step <= 90; step += 10) {
    test::save_checkpoint(root_, at_step(step));
    prune_checkpoints(root_, 2, 40);
  }
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(root_)) left.insert(entry.path().filename());
  EXPECT_THAT(left, testing::ElementsAre("step-000040", "step-000080", "step-000090"));
}

TEST_F(CheckpointIn, HoldsTheAveragesOfEveryDecay) {
  auto c = at_step(3);
  c.ema[decay_name(0.99)] = {{"w", at::ones({2})}};
  c.ema[decay_name(0.9999)] = {{"w", at::zeros({2})}};
  c.state.by_sigma.sum[3] = 0.1, c.state.by_sigma.count[3] = 7;
  const auto back = load_checkpoint(test::save_checkpoint(root_, c));
  ASSERT_EQ(back.ema.size(), 2U);
  EXPECT_EQ(back.ema.at("0.99").at("w")[0].item<float>(), 1);
  EXPECT_EQ(back.ema.at("0.9999").at("w")[0].item<float>(), 0);
  EXPECT_EQ(back.state.by_sigma.sum, c.state.by_sigma.sum);
}

TEST_F(CheckpointIn, TheSameStepMayBeSavedAgain) {
  test::save_checkpoint(root_, at_step(5));
  auto c = at_step(5);
  c.weights["w"].fill_(-1);
  test::save_checkpoint(root_, c);
  EXPECT_EQ(load_checkpoint(root_ / "step-000005").weights.at("w")[0][0].item<float>(), -1);
  EXPECT_EQ(entries(), 1U);
}

TEST_F(CheckpointIn, RefusesAnotherConfigurationAndDamageInWords) {
  const auto path = test::save_checkpoint(root_, at_step(5));
  EXPECT_THAT(test::refusal([&] { load_checkpoint(path, "abd"); }),
              HasSubstr("of another configuration (abc there, abd now)"));
  fs::resize_file(path / "weights.safetensors", fs::file_size(path / "weights.safetensors") - 1);
  EXPECT_THAT(test::refusal([&] { load_checkpoint(path); }),
              testing::AllOf(HasSubstr("weights.safetensors"), HasSubstr("truncated")));
  std::ofstream(path / "state.json") << "{";
  EXPECT_EQ(test::refusal([&] { load_checkpoint(path); }),
            path.string() +
                ": state.json is damaged: it is not valid JSON at byte 1 of 1; copy it again, "
                "or remove " +
                path.string() + " to continue from the checkpoint before");
  std::ofstream(path / "state.json") << R"({"format": 2, "step": "five"})";
  EXPECT_THAT(test::refusal([&] { load_checkpoint(path); }),
              testing::AllOf(HasSubstr("state.json is damaged: type must be number, but is string; copy it"),
                             testing::Not(HasSubstr("json.exception"))));
  std::ofstream(path / "state.json") << R"({"format": 9})";
  EXPECT_THAT(test::refusal([&] { load_checkpoint(path); }),
              HasSubstr("state.json has format 9, of another version; this Kinora reads 2; use the Kinora"));
  EXPECT_THAT(test::refusal([&] { load_checkpoint(root_); }), HasSubstr("not a checkpoint"));
}

TEST_F(CheckpointIn, OfManyTensorsIsShardsThatAFolderStandsFor) {
  auto c = at_step(5);
  c.weights["more"] = at::arange(16.);
  c.ema[decay_name(0.99)] = c.weights;
  const auto path = test::save_checkpoint(root_, c, 64);
  for (const char* file : {"weights-00001-of-00002.safetensors", "weights-00002-of-00002.safetensors",
                           "weights.safetensors.index.json", "ema-0.99.safetensors.index.json"})
    EXPECT_TRUE(fs::exists(path / file)) << file;
  const auto back = load_checkpoint(path);
  for (const auto& [name, t] : c.weights) {
    EXPECT_TRUE(at::equal(back.weights.at(name), t)) << name;
    EXPECT_TRUE(at::equal(back.ema.at("0.99").at(name), t)) << name;
  }
  EXPECT_EQ(back.ema.size(), 1U);
  EXPECT_EQ(back.optimizer.size(), 2U);
  for (const auto& given : {path, path / "weights.safetensors", path / "weights.safetensors.index.json"})
    EXPECT_EQ(read_tensors(given).size(), 2U) << given << " is accepted by --from and weights =";
}

TEST_F(CheckpointIn, NamesTheShardThatIsMissingOrDamagedAndWhatToDo) {
  const auto path = test::save_checkpoint(root_, at_step(5), 64);
  const auto shard = path / "optimizer-00002-of-00002.safetensors";
  const auto message = [&] { return test::refusal([&] { load_checkpoint(path); }); };
  const std::string remedy = "or remove " + path.string() + " to continue from the checkpoint before";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  EXPECT_THAT(message(), testing::AllOf(HasSubstr(shard.string() + ": truncated"), HasSubstr(remedy)));
  fs::remove(shard);
  EXPECT_THAT(message(), testing::AllOf(HasSubstr("1 of 2 shards are missing: " + shard.filename().string()),
                                        HasSubstr(remedy)));
}

std::string said_by(const std::string& command) {
  std::string out;
  FILE* from = popen(command.c_str(), "r");
  for (int c = 0; (c = fgetc(from)) != EOF;) out += static_cast<char>(c);
  EXPECT_EQ(pclose(from), 0) << command;
  return out;
}

// Held against sha256sum.
TEST_F(CheckpointIn, ListsItsFilesWithSizesAndDigests) {
  auto c = at_step(5);
  c.ema[decay_name(0.99)] = c.weights;
  c.more = c.weights;
  const auto path = test::save_checkpoint(root_, c, 64);
  const auto files = load_checkpoint(path).state.files;
  std::map<std::string, std::string> listed;
  for (const auto& f : files) {
    listed[f.name] = f.sha256;
    EXPECT_EQ(f.bytes, fs::file_size(path / f.name)) << f.name;
  }
  std::istringstream lines(said_by("cd '" + path.string() + "' && sha256sum *.safetensors *.json"));
  size_t seen = 0;
  for (std::string digest, name; lines >> digest >> name;) {
    if (name == "state.json") continue;
    EXPECT_EQ(listed[name], digest) << name;
    ++seen;
  }
  EXPECT_EQ(seen, files.size());
  EXPECT_EQ(seen, 6U) << "three files, two shards of the optimizer and their index";
}

void zero_bytes(const fs::path& file) {
  std::fstream at(file, std::ios::in | std::ios::out | std::ios::binary);
  at.seekp(-24, std::ios::end);
  at << std::string(16, '\0');
}

TEST_F(CheckpointIn, OfSeveralTheLatestWholeOneIsTakenAndTheOthersAreNamed) {
  struct Case {
    const char* said;
    std::function<void(const fs::path&)> damage;
  };
  const Case cases[] = {
      {"optimizer.safetensors is missing",
       [](const fs::path& p) { fs::remove(p / "optimizer.safetensors"); }},
      {"weights.safetensors is damaged: its SHA-256",
       [](const fs::path& p) { zero_bytes(p / "weights.safetensors"); }},
      {"weights.safetensors has ",
       [](const fs::path& p) { fs::resize_file(p / "weights.safetensors", 100); }},
      {"state.json is missing", [](const fs::path& p) { fs::remove(p / "state.json"); }},
      {": state.json is damaged: it is not valid JSON at byte 1 of 1; ",
       [](const fs::path& p) { std::ofstream(p / "state.json") << "{"; }},
      {": state.json is damaged: key 'step' not found; ",
       [](const fs::path& p) { std::ofstream(p / "state.json") << R"({"format": 2})"; }},
  };
  ASSERT_TRUE(start_log("info"));
  for (const auto& [said, damage] : cases) {
    SCOPED_TRACE(said);
    fs::remove_all(root_);
    EXPECT_FALSE(whole_checkpoint(root_, {}));
    for (const int64_t step : {5, 6, 7}) test::save_checkpoint(root_, at_step(step));
    EXPECT_EQ(whole_checkpoint(root_, {})->filename(), "step-000007");
    for (const char* name : {"step-000006", "step-000007"}) damage(root_ / name);
    testing::internal::CaptureStderr();
    EXPECT_EQ(whole_checkpoint(root_, {})->filename(), "step-000005");
    const std::string log = testing::internal::GetCapturedStderr();
    for (const char* name : {"step-000006", "step-000007"})
      EXPECT_THAT(
          log, testing::AllOf(HasSubstr(name), HasSubstr(said), HasSubstr(std::string(name) + ".damaged, "),
                              HasSubstr("the checkpoint before it is taken, step-000005")));
    prune_checkpoints(root_, 1);
    EXPECT_EQ(entries(), 3U) << "the damaged ones do not take the place of the last whole one";
    test::save_checkpoint(root_, at_step(6));
    prune_checkpoints(root_, 2);
    EXPECT_FALSE(fs::exists(root_ / "step-000006.damaged")) << "training has come that far again";
    EXPECT_TRUE(fs::exists(root_ / "step-000007.damaged"));
    fs::remove_all(root_ / "step-000006");
    damage(root_ / "step-000005");
    EXPECT_THAT(test::refusal([&] { whole_checkpoint(root_, {}); }),
                testing::AllOf(HasSubstr("step-000005"), HasSubstr(said),
                               HasSubstr("; no earlier checkpoint is whole; copy the folder again")));
    EXPECT_TRUE(fs::exists(root_ / "step-000005")) << "nothing is renamed then";
  }
}

// convert and what generate says of its weights; the digest is that of the whole file.
TEST_F(CheckpointIn, ReadersOfItsWeightsSeeDamage) {
  const auto path = test::save_checkpoint(root_, at_step(5));
  const auto file = path / "weights.safetensors";
  EXPECT_NO_THROW(require_as_listed(file));
  EXPECT_NO_THROW(weights_digest({file}, root_ / "digests.json"));
  zero_bytes(file);
  for (const auto& read :
       {std::function([&] { require_as_listed(file); }),
        std::function([&] { weights_digest({file}, root_ / "digests.json"); }), std::function([&] {
          convert_weights(nullptr, {{"in", path.string()}, {"out", (root_ / "x.safetensors").string()}});
        })})
    EXPECT_THAT(test::refusal(read), HasSubstr("weights.safetensors is damaged: its SHA-256"));
  std::ofstream(path / "state.json") << "{";
  EXPECT_THAT(
      test::refusal([&] { require_as_listed(file); }),
      HasSubstr("state.json: not valid JSON, so nothing says whether the checkpoint's files are whole"));
  fs::copy_file(file, root_ / "weights.safetensors");
  EXPECT_NO_THROW(require_as_listed(root_ / "weights.safetensors")) << "the file is outside of a checkpoint";
}

// A folder with one file that gets shards, and then one file again.
TEST_F(CheckpointIn, FilesOfAFolderAreReplacedByTheirShardsAndBack) {
  fs::create_directories(root_);
  const NamedTensors tensors{{"a", at::ones({16})}, {"b", at::zeros({16})}};
  const std::vector<TensorFile> files{{.name = "weights.safetensors", .holdings = {held(tensors)}}};
  write_tensors(root_ / "weights.ema-0.5.safetensors", tensors);
  for (const uint64_t shard_size : {1000, 64, 1, 1000}) {
    write_files(root_, files, {}, shard_size);
    EXPECT_EQ(entries(), shard_size == 1000 ? 2U : 4U);
    EXPECT_TRUE(at::equal(read_tensors(root_ / "weights.safetensors").at("a"), tensors.at("a")));
  }
}

TEST_F(CheckpointIn, AWriterHasOneInFlightAndItsErrorsSurface) {
  BackgroundWriter writer(true);
  std::atomic<int> running{0}, most{0}, done{0};
  for (int i = 0; i < 5; ++i)
    writer.start([&] {
      most = std::max<int>(most, ++running);
      usleep(2000);
      --running, ++done;
    });
  EXPECT_GE(done, 4);
  writer.finish();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(done, 5);
  std::atomic<bool> go{false};
  writer.start([&] {
    while (!go) usleep(100);
    throw Error(KINORA_ERROR_NO_MEMORY, "the disk is full");
  });
  EXPECT_NO_THROW(writer.check()) << "check() does not wait";
  go = true;
  EXPECT_THAT(test::refusal([&] {
                for (int i = 0; i < 10000; ++i) writer.check(), usleep(100);
              }),
              HasSubstr("the disk is full"));
  EXPECT_NO_THROW(writer.finish()) << "an error is thrown once";
  std::ofstream(root_.string()) << "a file where the folder should be";
  writer.start([&] { test::save_checkpoint(root_, at_step(1)); });
  EXPECT_THAT(test::refusal([&] { writer.start([] {}); }), HasSubstr("cannot be created"));
}

TEST_F(CheckpointIn, AWritersErrorAfterALossOfTheRunIsThatLoss) {
  CheckpointWriter writer(root_, {}, {});
  const auto fail_to_write = [&] {
    writer.start({.step = 1}, checkpoint_files({{"no/such/folder", {held({{"w", at::ones({2})}})}}}));
    return test::refusal([&] { writer.finish(); });
  };
  EXPECT_THAT(fail_to_write(), HasSubstr("its folder does not exist"));
  const Fence fence(root_, [] { return Failure{KINORA_ERROR_CANCELLED, "another copy has taken over"}; });
  EXPECT_EQ(fail_to_write(), "another copy has taken over");
}

// Whenever the process is killed, only whole checkpoints remain.
TEST_F(CheckpointIn, AKillAtAnyMomentLeavesOnlyWholeCheckpoints) {
  test::save_checkpoint(root_, at_step(1));
  auto big = at_step(0);
  big.weights["w"] = at::ones({200, 1000});
  for (int round = 0; round < 12; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      BackgroundWriter writer(round % 2 == 0);
      for (int64_t step = 2;; ++step) {
        big.state.step = step;
        writer.start([&, big] {
          test::save_checkpoint(root_, big);
          prune_checkpoints(root_, 2);
        });
      }
    }
    usleep(static_cast<useconds_t>(3000 + 2711 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto latest = latest_checkpoint(root_);
    ASSERT_TRUE(latest);
    const auto c = load_checkpoint(*latest, "abc");
    EXPECT_EQ(
        latest->filename().string(),
        "step-" + std::string(6 - std::to_string(c.state.step).size(), '0') + std::to_string(c.state.step));
  }
  prune_checkpoints(root_, 1);
  EXPECT_EQ(entries(), 1U) << "temporaries of dead processes are removed";
}

}  // namespace
}  // namespace kinora::core
