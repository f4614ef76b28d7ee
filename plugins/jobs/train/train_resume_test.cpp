// A training job that resumes equals one that never stopped, bit for bit.
#include <set>

#include "core/base/cancel.hpp"
#include "core/base/digest.hpp"
#include "host/weights/safetensors.hpp"
#include "plugins/jobs/training/train_job_testing.hpp"

namespace kinora::core {
namespace {

using namespace by_hand;

TEST(TrainJob, WritesACheckpointWhenItIsAskedTo) {
  Knobs k;
  k.steps = 3;
  const auto run = training(k, "checkpoint_every = 100\n");
  request_save();
  trained(*run);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(run->of("dit") / "checkpoints"))
    names.insert(entry.path().filename());
  EXPECT_THAT(names, testing::ElementsAre("step-000001", "step-000003"));
  EXPECT_FALSE(take_save_request());
}

TEST(TrainJob, KeepsEveryNthCheckpointNextToTheLast) {
  Knobs k;
  k.steps = 6;
  const auto run = training(k, "checkpoint_every = 1\nkeep = 1\nkeep_every = 4\nasync_checkpoints = false\n");
  trained(*run);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(run->of("dit") / "checkpoints"))
    names.insert(entry.path().filename());
  EXPECT_THAT(names, testing::ElementsAre("step-000004", "step-000006"));
}

// The files of a process that was killed after a checkpoint: they contain lines of later steps too.
void expect_resumed_equals_uninterrupted(const std::string& more) {
  Knobs k;
  k.steps = 6;
  const auto whole = training(k, "checkpoint_every = 2\nkeep = 10\n" + more);
  const json summary = trained(*whole);
  for (const auto& [left, lines] : {std::pair<std::string, size_t>{"step-000002", 5}, {"step-000006", 6}}) {
    const auto resumed = training(k, "checkpoint_every = 2\nkeep = 10\nasync_checkpoints = false\n" + more);
    fs::create_directories(resumed->of("dit") / "checkpoints");
    fs::copy(whole->of("dit") / "checkpoints" / left, resumed->of("dit") / "checkpoints" / left,
             fs::copy_options::recursive);
    std::ofstream curve(resumed->of("dit") / "metrics.jsonl");
    for (size_t i = 0; i < lines; ++i) curve << whole->metrics("dit")[i].dump() << "\n";
    curve.close();
    EXPECT_EQ(trained(*resumed).at("loss"), summary.at("loss")) << left;
    const auto a = whole->metrics("dit"), b = resumed->metrics("dit");
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      for (const char* key : {"step", "loss", "gradient_norm", "weight_norm", "loss_by_sigma"})
        EXPECT_EQ(a[i].at(key), b[i].at(key)) << i << key;
    const auto w = read_tensors(whole->of("dit") / "weights.safetensors"),
               r = read_tensors(resumed->of("dit") / "weights.safetensors");
    for (const auto& [name, t] : w) EXPECT_TRUE(at::equal(t, r.at(name))) << name;
  }
}
TEST(TrainJob, ResumedEqualsUninterrupted) { expect_resumed_equals_uninterrupted(""); }

TEST(TrainJob, ResumedFromShardsEqualsUninterrupted) {
  expect_resumed_equals_uninterrupted("shard_size = 2000\n");
}

TEST(TrainGiven, ResumedEqualsUninterrupted) {
  expect_resumed_equals_uninterrupted("condition_frames = [0, 1]\ncondition_noise = [-3.0, 2.0]\n");
}

// Never from moments of zero or from damaged numbers: the checkpoint before is as good as if it were the last.
TEST(TrainJob, ResumedFromADamagedCheckpointEqualsUninterrupted) {
  Knobs k;
  k.steps = 6;
  const std::string more = "checkpoint_every = 2\nkeep = 10\nasync_checkpoints = false\n";
  const auto whole = training(k, more);
  trained(*whole);
  const auto zeros_in = [](const fs::path& file) {
    std::fstream at(file, std::ios::in | std::ios::out | std::ios::binary);
    at.seekp(static_cast<std::streamoff>(fs::file_size(file) / 2));
    at << std::string(512, '\0');
  };
  const std::function<void(const fs::path&)> damages[] = {
      [](const fs::path& at) { fs::remove(at / "optimizer.safetensors"); },
      [&](const fs::path& at) { zeros_in(at / "optimizer.safetensors"); },
      [&](const fs::path& at) { zeros_in(at / "weights.safetensors"); }};
  for (const auto& damage : damages) {
    const auto resumed = training(k, more);
    fs::create_directories(resumed->of("dit") / "checkpoints");
    for (const char* step : {"step-000002", "step-000004"})
      fs::copy(whole->of("dit") / "checkpoints" / step, resumed->of("dit") / "checkpoints" / step,
               fs::copy_options::recursive);
    damage(resumed->of("dit") / "checkpoints" / "step-000004");
    trained(*resumed);
    EXPECT_FALSE(fs::exists(resumed->of("dit") / "checkpoints" / "step-000004.damaged"))
        << "removed at step 4";
    EXPECT_EQ(resumed->metrics("dit").at(0).at("step"), 3);
    const auto w = read_tensors(whole->of("dit") / "weights.safetensors"),
               r = read_tensors(resumed->of("dit") / "weights.safetensors");
    for (const auto& [name, t] : w) EXPECT_TRUE(at::equal(t, r.at(name))) << name;
  }
}

// The runner stores the list in summary.json; a later training compares the file that it starts from with it.
TEST(TrainJob, ListsItsWeightsWithSizesAndDigests) {
  Knobs k;
  k.steps = 1;
  for (const std::string more : {"", "shard_size = 2000\n", kLora}) {
    SCOPED_TRACE(more);
    const auto first = training(k, more);
    const fs::path folder = first->of("dit");
    json summary = trained(*first);
    json found = json::object();
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().lexically_relative(folder).string();
      if (name.ends_with(".safetensors") && !name.starts_with("checkpoints"))
        found[name] = {{"bytes", entry.file_size()}, {"sha256", sha256_of_file(entry.path())}};
    }
    EXPECT_EQ(summary.at("files"), found);
    EXPECT_GT(found.size(), more.empty() ? 1u : 2u)
        << "the weights, the average; their shards or the adapter";
    summary.update({{"status", "done"}, {"job", "dit"}});
    std::ofstream(folder / "summary.json") << summary.dump();
    const ScratchRun later({{"dit", k.toml() + "ema = 0\nweights = '" +
                                        file_or_index(folder / "weights.safetensors").string() + "'\n"}});
    write_latents(later.of("latents"), samples());
    const auto damaged = Safetensors::open(file_or_index(folder / "weights.safetensors"))->files().back();
    std::fstream(damaged, std::ios::in | std::ios::out | std::ios::binary).seekp(-4, std::ios::end) << "####";
    EXPECT_THAT(failure(later),
                testing::AllOf(HasSubstr(damaged.filename().string() + " is damaged: its SHA-256"),
                               HasSubstr("take a checkpoint in")));
  }
}

// With `steps` raised, training continues with the moments, averages and samples that it has. A constant
// learning rate does not depend on the end, so the result is that of a training that had the steps from the
// beginning.
TEST(TrainJob, ContinuedBeyondItsLastStepEqualsOneOfAllSteps) {
  Knobs k;
  k.steps = 6;
  const std::string more = "schedule = 'constant'\ncheckpoint_every = 100\nasync_checkpoints = false\n";
  const auto all = training(k, more);
  trained(*all);
  k.steps = 4;
  const auto first = training(k, more);
  trained(*first);
  k.steps = 6;
  const auto then = training(k, more);
  fs::copy(first->of("dit"), then->of("dit"), fs::copy_options::recursive);
  testing::internal::CaptureStderr();
  trained(*then);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(then->metrics("dit").size(), 6u);
  const auto a = all->metrics("dit"), b = then->metrics("dit");
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].at("loss"), b[i].at("loss")) << i;
  const auto w = read_tensors(all->of("dit") / "weights.safetensors"),
             r = read_tensors(then->of("dit") / "weights.safetensors");
  for (const auto& [name, t] : w) EXPECT_TRUE(at::equal(t, r.at(name))) << name;
}

// The summary of a resumed training says what that of an uninterrupted one says, also if nothing was left to do.
TEST(TrainJob, AResumedSummaryHasTheValidationBeforeIt) {
  Knobs k;
  const std::string more = "validation_every = 4\nvalidation_samples = 2\n";
  const auto whole = training(k, more);
  const json summary = trained(*whole);
  ASSERT_TRUE(summary.contains("validation_loss"));
  const auto resumed = training(k, more);
  fs::create_directories(resumed->of("dit"));
  fs::copy(whole->of("dit") / "checkpoints", resumed->of("dit") / "checkpoints", fs::copy_options::recursive);
  EXPECT_EQ(trained(*resumed).value("validation_loss", json()), summary.at("validation_loss"));
}

TEST(LoraJob, ResumedEqualsUninterrupted) { expect_resumed_equals_uninterrupted(kLora); }

TEST(LoraJob, ResumedWithDropoutEqualsUninterrupted) {
  expect_resumed_equals_uninterrupted("lora = 'rank=2 dropout=0.3 targets=linear_qkv,linear_fc1'\n");
}

}  // namespace
}  // namespace kinora::core
