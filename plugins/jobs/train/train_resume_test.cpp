// A training job that resumes equals one that never stopped, bit for bit.
#include <set>

#include "core/base/cancel.hpp"
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

TEST(LoraJob, ResumedEqualsUninterrupted) { expect_resumed_equals_uninterrupted(kLora); }

TEST(LoraJob, ResumedWithDropoutEqualsUninterrupted) {
  expect_resumed_equals_uninterrupted("lora = 'rank=2 dropout=0.3 targets=linear_qkv,linear_fc1'\n");
}

}  // namespace
}  // namespace kinora::core
