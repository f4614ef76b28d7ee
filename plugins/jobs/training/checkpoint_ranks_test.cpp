// Checkpoints of runs with several processes: a kill leaves the last one intact, and a training resumes on
// another number of ranks.
#include <csignal>
#include <fstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "core/run/job.hpp"
#include "core/torch/weights/layouts_testing.hpp"
#include "plugins/collectives/gloo/gloo_testing.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/training/checkpoint_writer.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using test::Rank;
using test::ScratchRun;

// Runs in a child: writes one checkpoint after the other, all of whose numbers are its step, until it is
// killed.
[[noreturn]] void save_for_ever(const Rank& me, const std::string& rendezvous, bool background) {
  const test::World world(me, 5000, rendezvous);
  MeshOwner mesh(*world.gloo.operator->(), world.gloo.self(), me.rank, {{"fsdp", 2}});
  const Exchange both(*mesh.group("fsdp"));
  spread::OnRank model({.name = "fsdp2", .fsdp = 2}, me.rank);
  CheckpointWriter writer(fs::path(me.folder) / "checkpoints", both,
                          {.background = background, .shard_size = 300});
  const auto last = latest_checkpoint(fs::path(me.folder) / "checkpoints");
  both.agree(nullptr);
  for (int64_t step = last ? load_checkpoint(*last).state.step + 1 : 1;; ++step) {
    for (auto& l : model.leaves) l.tensor.fill_(static_cast<double>(step % 100));
    writer.start(
        {.step = step},
        checkpoint_files({{"weights", {held(model.parameters, model.leaves, values_of(model.leaves))}}}));
  }
}

TEST(ShardedCheckpoints, AKillOfAnyRankAtAnyMomentLeavesTheLastOneWhole) {
  test::on_ranks(
      2,
      [](const Rank& me) {
        const fs::path root = fs::path(me.folder) / "checkpoints";
        for (int round = 0; round < 6; ++round) {
          const std::string name = "round" + std::to_string(round);
          const auto before = latest_checkpoint(root);
          me.meet(name);
          const pid_t child = fork();
          if (child == 0) {
            try {
              save_for_ever(me, "file://" + me.folder + "/" + name + ".world", round % 3 != 0);
            } catch (const std::exception&) {  // the other rank is gone
            }
            _exit(0);
          }
          for (int i = 0; i < 4000 && latest_checkpoint(root) == before; ++i) usleep(2000);
          if (me.rank == round % 2) {
            usleep(static_cast<useconds_t>(1000 + 3571 * round));
            kill(child, SIGKILL);
          }
          waitpid(child, nullptr, 0);
          me.meet(name + ".end");
          const auto latest = latest_checkpoint(root);
          ASSERT_TRUE(latest);
          EXPECT_NE(latest, before);
          const auto c = load_checkpoint(*latest);
          EXPECT_EQ(c.weights.size(), spread::parameters().size());
          for (const auto& [key, t] : c.weights)
            EXPECT_TRUE(at::equal(t, at::full_like(t, static_cast<double>(c.state.step % 100)))) << key;
        }
        me.meet("over");
        if (me.rank != 0) return;
        prune_checkpoints(root, 1);
        EXPECT_EQ(std::distance(fs::directory_iterator(root), fs::directory_iterator()), 1)
            << "files of dead processes are removed";
      },
      120);
}

void place(int64_t rank, int64_t size, const std::string& rendezvous) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("KINORA_RENDEZVOUS", rendezvous.c_str(), 1);
  setenv("KINORA_TIMEOUT_MS", "30000", 1);
}

std::map<std::string, std::string> jobs(const std::string& more) {
  return {{"dit",
           "precision = 'fp64'\nparallel = ['ddp']\nsteps = 4\nbatch = 4\nwarmup = 0\nlearning_rate = 0.01\n"
           "optimizer = { use = 'adamw', eps = 1e-4 }\nema = [0.5, 0.9]\ncheckpoint_every = 2\nkeep = 10\n"
           "weights = 'FOLDER/start.safetensors'\n" +
               more}};
}

void prepare(const ScratchRun& run) {
  at::manual_seed(7);
  fs::create_directories(run.of("latents"));
  LatentCacheWriter cache(run.of("latents") / "latents.h5", "{}");
  for (int i = 0; i < 6; ++i)
    cache.add(std::to_string(i), {{"latent", at::randn({2, 2, 2, 4})}, {"text", at::randn({1 + i % 3, 12})}});
  cache.commit();
  LatentFacts facts;
  facts.scale = {{0.1, -0.2}, {1.5, 0.7}, 0.5};
  facts.shape = {2, 2, 2, 4};
  facts.text_size = 12;
  std::ofstream(run.of("latents") / "latents.json") << facts.to_json().dump();
  ScratchRun::save(*run.model("dit"), run.folder() / "start.safetensors");
}

void expect_near(const fs::path& a, const fs::path& b) {
  const auto got = read_tensors(a), want = read_tensors(b);
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, t] : want)
    EXPECT_LT(((got.at(name) - t).abs().max() / t.abs().max()).item<double>(), 1e-10) << name;
}

// Two ranks write shards after two of four steps; one process resumes from them. With LoRA: the adapter too.
void expect_to_go_on_alone(const std::string& more) {
  test::on_ranks(2, [&](const Rank& me) {
    const std::string sharded = "shard_size = 3000\n" + more;
    const ScratchRun together(jobs(sharded)), alone(jobs(more));
    place(me.rank, 2, me.file());
    prepare(together);
    JobContext context = together.context("dit", me.rank == 0);
    test::run_job(context);
    if (me.rank != 0) return;
    const auto half = together.of("dit") / "checkpoints/step-000002";
    EXPECT_TRUE(fs::exists(half / "optimizer.safetensors.index.json"));
    EXPECT_TRUE(fs::exists(together.of("dit") / "weights.safetensors.index.json"));
    place(0, 1, "");
    prepare(alone);
    fs::create_directories(alone.of("dit") / "checkpoints");
    fs::copy(half, alone.of("dit") / "checkpoints/step-000002", fs::copy_options::recursive);
    JobContext rest = alone.context("dit");
    test::run_job(rest);
    ASSERT_TRUE(fs::exists(alone.of("dit") / "weights.safetensors"));
    for (const char* file : {"weights.safetensors", "weights.ema-0.9.safetensors"})
      expect_near(alone.of("dit") / file, together.of("dit") / file);
    for (const char* file : {"weights.safetensors", "optimizer.safetensors", "ema-0.5.safetensors"})
      expect_near(alone.of("dit") / "checkpoints/step-000004" / file,
                  together.of("dit") / "checkpoints/step-000004" / file);
    if (more.empty()) return;
    for (const char* file : {"adapter_model.safetensors"})
      expect_near(alone.of("dit") / "adapter" / file, together.of("dit") / "adapter" / file);
  });
}

TEST(ShardedCheckpoints, ATrainingGoesOnAtAnotherNumberOfRanks) { expect_to_go_on_alone(""); }

TEST(ShardedCheckpoints, ATrainingOfAnAdapterGoesOnAtAnotherNumberOfRanks) {
  expect_to_go_on_alone("lora = 'rank=2 targets=linear_qkv,linear_fc1'\nasync_checkpoints = false\n");
}

}  // namespace
}  // namespace kinora::core
