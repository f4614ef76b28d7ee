#include "plugins/engines/local/local_engine.hpp"

#include <algorithm>
#include <thread>

#include "kinora/memory.hpp"
#include "kinora/plugin.hpp"
#include "plugins/engines/common/coders.hpp"
#include "plugins/engines/common/isolation.hpp"
#include "plugins/engines/common/stage_state.hpp"
#include "plugins/engines/common/threads.hpp"

namespace kinora::local {
namespace {

// Without a device, stages that request one run one at a time, like all that need more than the total.
double coders(int64_t asked, double seen) {
  return std::max(1.0, asked >= 0 ? static_cast<double>(asked) : seen);
}

// Makes the instances, and calls them on its threads.
class Workshop final : public engines::Threads {
 public:
  explicit Workshop(const engines::Isolation& isolation) : isolation_(isolation) {}
  engines::FirstInstance first(const kinora_stage_spec& spec) override { return isolation_.first(spec); }
  void start(const engines::StageState& stage, const engines::Slot&, Started started) override {
    isolation_.start(*stage.spec, stage.isolated, started);
  }

 private:
  const engines::Isolation& isolation_;
};

}  // namespace

void LocalEngine::describe(Describe<Options>& d) {
  d.name("local").help("Runs the stages on this machine's cores, bounded in memory");
  engines::describe_common(d);
  d.option("gpus", &Options::gpus)
      .range(-1, 4096)
      .help(
          "GPUs that the stages share; a worker that uses part of a GPU stays on one device; -1: those that "
          "are seen");
  d.option("nvdec", &Options::nvdec)
      .range(-1, 4096)
      .help("hardware video decoders that the stages share; -1: those of the GPUs that are seen");
  d.option("nvenc", &Options::nvenc)
      .range(-1, 4096)
      .help("hardware video encoders that the stages share; -1: those of the GPUs that are seen");
  d.option("worker_memory", &Options::worker_memory)
      .bytes()
      .at_least(0)
      .help(
          "memory that stages and their processes may use together, next to the samples; the largest process "
          "is killed when they hold more; 0: three quarters of the machine's");
  d.option("isolate", &Options::isolate)
      .help(
          "stages that run in processes of their own: auto (those that read media or come from a third "
          "party's plugin), none, all, or their names");
  d.option("item_memory", &Options::item_memory)
      .bytes()
      .at_least(0)
      .help("most memory of a process before it is killed; 0: half of worker_memory");
}

void LocalEngine::run(const kinora_pipeline& pipeline, const Run& run) {
  engines::Settings settings = options_.settings();
  engines::Tokens& total = settings.nodes.front();
  const int32_t threads =
      run.threads() > 0 ? run.threads() : static_cast<int32_t>(std::thread::hardware_concurrency());
  total.cores = std::max(1, threads);
  const auto seen = engines::gpus_seen();
  engines::Coders all{0, 0};
  for (const std::string& model : seen) {
    const engines::Coders of = engines::coders_of(model);
    all.nvdec += of.nvdec, all.nvenc += of.nvenc;
  }
  total.gpus = options_.gpus >= 0 ? options_.gpus : static_cast<double>(seen.size());
  total.nvdec = coders(options_.nvdec, all.nvdec);
  total.nvenc = coders(options_.nvenc, all.nvenc);
  total.memory = options_.worker_memory > 0 ? static_cast<uint64_t>(options_.worker_memory)
                                            : memory_of_machine() / 4 * 3;
  const engines::Isolation isolation{
      options_.isolate,
      options_.item_timeout,
      options_.item_limit,
      options_.item_memory > 0 ? static_cast<uint64_t>(options_.item_memory) : total.memory / 2,
      total.memory,
      engines::workers_of_host()};
  isolation.check(pipeline);
  Workshop executor(isolation);
  engines::Runner runner(pipeline, run, settings, executor);
  engines::run_to_end(runner, [&] { executor.join(); });
}

KINORA_COMPONENT(LocalEngine)
KINORA_PLUGIN(LocalEngine)

}  // namespace kinora::local
