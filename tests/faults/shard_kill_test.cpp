// Packing shards through the real host with several writers, killed at random points: the final folder equals
// that of an uninterrupted run with one writer.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "core/plugin/options.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/abi/engine.h"
#include "kinora/sample.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
constexpr int kSamples = 120;

// The owner of a pipeline, as a job does it: feeds the inputs that are not recorded yet, and records every
// outcome at once.
struct Owner {
  std::set<std::string> recorded;
  std::ofstream record;
  int next = 0, records_to_live = 0;

  explicit Owner(const fs::path& file) {
    std::ifstream before(file);
    for (std::string key; std::getline(before, key) && !before.eof();) recorded.insert(key);
    record.open(file, std::ios::app);
  }
  int32_t give(kinora_sample** out) {
    while (next < kSamples && recorded.contains("film-" + std::to_string(next))) ++next;
    if (next == kSamples) return KINORA_SIGNAL_END;
    Sample s("film-" + std::to_string(next));
    s.set("mp4", std::string(static_cast<size_t>(next * 7919 % 20000), static_cast<char>(next)));
    s.set("json", "{\"n\": " + std::to_string(next) + "}");
    ++next;
    *out = s.release();
    return KINORA_OK;
  }
};

void pack(const fs::path& folder, int32_t writers, int records_to_live) {
  auto runtime = or_throw(Runtime::start({.plugin_dirs = {}, .log_level = "error"}));
  const auto engine = or_throw(runtime->registry().open("engine/local"));
  const auto shard = or_throw(runtime->registry().open("stage/shard.webdataset"));
  const Options engine_options = or_throw(Options::make(*engine.spec, json::object()));
  const Options shard_options = or_throw(Options::make(*shard.spec, {{"max_count", 7}, {"max_size", 50000}}));
  kinora_stage_spec spec{};
  spec.struct_size = sizeof spec;
  spec.name = "shard";
  spec.id = "stage/shard.webdataset";
  spec.options_json = shard_options.canonical().c_str();
  spec.stage = &shard.table<kinora_stage>();
  spec.options = shard_options.abi();
  Owner owner(folder / "record.txt");
  owner.records_to_live = records_to_live;
  const kinora_stage_spec* stages = &spec;
  const kinora_pipeline pipeline{
      sizeof(kinora_pipeline),
      1,
      &stages,
      1 << 20,
      &owner,
      [](void* self, kinora_sample** out) { return static_cast<Owner*>(self)->give(out); },
      [](void* self, const kinora_outcome* o) {
        if (o->end != KINORA_OUTCOME_KEPT)
          return kinora::set_error(KINORA_ERROR_FAILED, o->reason ? o->reason : "not kept");
        auto& owner = *static_cast<Owner*>(self);
        owner.record << Sample::borrow(o->sample).key() << std::endl;
        if (--owner.records_to_live == 0) ::raise(SIGKILL);
        return int32_t{KINORA_OK};
      },
      nullptr,
      nullptr};
  const std::string out = (folder / "shards").string();
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  run.n_threads = writers;
  run.out = str(out);
  void* self = engine.table<kinora_engine>().create(host(), engine_options.abi());
  check(self ? KINORA_OK : KINORA_ERROR_FAILED);
  const int32_t status = engine.table<kinora_engine>().run(self, &pipeline, &run);
  engine.table<kinora_engine>().destroy(self);
  check(status);
}

// Runs in a separate process that is killed after a time in microseconds, or kills itself after a number of
// records (0: never). Returns whether it ended by itself and successfully.
bool pack_until(const fs::path& folder, int32_t writers, useconds_t kill_after, int records_to_live = 0) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      pack(folder, writers, records_to_live);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  if (kill_after > 0) {
    ::usleep(kill_after);
    ::kill(child, SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

std::map<std::string, std::string> tree(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& e : fs::recursive_directory_iterator(folder)) {
    std::ifstream in(e.path(), std::ios::binary);
    const bool leftover = e.path().filename().string().starts_with(".kinora-tmp-");
    if (e.is_regular_file() && !leftover)
      out[fs::relative(e.path(), folder).string()] = {std::istreambuf_iterator<char>(in), {}};
  }
  return out;
}

TEST(ShardsKilled, AreAfterwardsThoseOfAnUninterruptedRun) {
  std::string name = (fs::temp_directory_path() / "kinora-kill-XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const fs::path root = name;
  fs::create_directory(root / "whole");
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(pack_until(root / "whole", 1, 0));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto whole = tree(root / "whole" / "shards");
  ASSERT_GT(whole.size(), 30u);
  int kills = 0;
  for (int round = 0; round < 4; ++round) {
    const fs::path folder = root / std::to_string(round);
    const int32_t writers = round == 0 ? 1 : round == 1 ? 2 : 5;
    fs::create_directory(folder);
    for (int attempt = 1; attempt < 40; ++attempt) {
      const double share = (round * 13 + attempt * 29) % 97 / 97.0;  // of an uninterrupted run's time
      // The first kill is at a record, whatever the machine's speed; later ones at any moment.
      const bool ended =
          attempt == 1 ? pack_until(folder, writers, 0, 1 + 5 * round)
                       : pack_until(folder, writers, static_cast<useconds_t>(seconds * share * 1e6) + 1);
      if (ended) break;
      ++kills;
    }
    ASSERT_TRUE(pack_until(folder, writers, 0));
    EXPECT_EQ(tree(folder / "shards"), whole) << "round " << round << ", " << writers << " writers";
  }
  EXPECT_GE(kills, 4);
  fs::remove_all(root);
}

}  // namespace
}  // namespace kinora::core
