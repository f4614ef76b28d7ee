// kinora data order: the samples that each rank takes at each step of a training, without training.
#include "plugins/jobs/loading/data_order.hpp"

#include <iostream>

#include <boost/program_options.hpp>
#include <fmt/ranges.h>

#include "apps/kinora/command.hpp"
#include "core/base/cancel.hpp"
#include "core/plugin/service.hpp"
#include "core/run/job.hpp"
#include "plugins/jobs/loading/data_state.hpp"
#include "plugins/jobs/loading/held_out.hpp"
#include "plugins/jobs/train/training_plans.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;
using nlohmann::json;

constexpr int64_t kMostBatch = 1'000'000;  // the slots and keys of a step are held in memory

constexpr const char* kOrderHelp = R"(usage: kinora data order FILE.toml JOB [options]

Prints which samples each rank takes at each step of a training from shards, without training: one line for
each step and rank, with the samples' keys. JOB has a table of data as its input, or trains on such a job. The
order depends on the run file, the data and the seed alone. A position saved with one number of ranks
continues with any other. For windows of several sizes (`sizes`) and more than one rank it reads the facts of
the samples, as the training does. It decodes nothing: training replaces a clip that cannot be decoded, or is
too short, by another one.

examples:
  kinora data order my.toml dit --ranks 8 --steps 3
  kinora data order my.toml dit --ranks 8 --steps 100 --save-state at.json --json > first.jsonl
  kinora data order my.toml dit --ranks 2 --steps 100 --state at.json --json    the next hundred, on two ranks

)";

}  // namespace

Flags order_flags() {
  using Texts = std::vector<std::string>;
  po::options_description out("options");
  out.add_options()("ranks", po::value<int64_t>()->default_value(1)->value_name("N"),
                    "ranks that hold different samples")(
      "steps", po::value<int64_t>()->default_value(1)->value_name("K"), "number of steps to print")(
      "batch", po::value<int64_t>()->value_name("B"),
      "samples a step on all ranks; default: the job's option batch")(
      "state", po::value<std::string>()->value_name("FILE"), "begin at the position in FILE")(
      "save-state", po::value<std::string>()->value_name("FILE"),
      "write the position after the last step to FILE")(
      "set", po::value<Texts>()->composing()->value_name("a.b=v"), "override a value of the run file")(
      "json", "print lines of JSON: {\"step\", \"rank\", \"keys\"}")("help,h", "this text");
  return out;
}

namespace {

const core::JobSpec& job_called(const core::RunFile& run, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& job : run.jobs) {
    if (job.name == name) return job;
    names.push_back(job.name);
  }
  throw Error(KINORA_ERROR_INVALID, fmt::format("there is no job '{}' in {}; its jobs: {}", name,
                                                run.file.string(), fmt::join(names, ", ")));
}

// The job's table of data, or that of the nearest job that it reads; null: there is none.
const core::JobSpec* with_data(const core::RunFile& run, const core::JobSpec& job) {
  if (job.data) return &job;
  for (const size_t input : job.inputs)
    if (const auto* found = with_data(run, run.jobs[input])) return found;
  return nullptr;
}

// How a training takes its samples: a step has `accumulate` microbatches, each of `micro` samples a rank.
struct Steps {
  uint64_t ranks, accumulate, micro;
  uint64_t batch() const { return ranks * accumulate * micro; }
};

// Throws Error(KINORA_ERROR_INVALID).
Steps steps_of(const core::JobSpec& job, const po::variables_map& given) {
  const auto ranks = given["ranks"].as<int64_t>(),
             batch =
                 given.count("batch") ? given["batch"].as<int64_t>() : job.options.value("batch", int64_t{0}),
             accumulate = job.options.value("accumulate", int64_t{1});
  if (const auto steps = given["steps"].as<int64_t>(); steps < 1)
    throw Error(KINORA_ERROR_INVALID, fmt::format("--steps {}: must be at least 1", steps));
  if (batch > kMostBatch)
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format("batch = {}: must be at most {} samples; give a smaller --batch", batch, kMostBatch));
  if (batch == 0)
    throw Error(KINORA_ERROR_INVALID, "job '" + job.name + "' has no option batch; give --batch");
  if (ranks < 1 || batch < 0 || ranks > batch || accumulate > batch || batch % (ranks * accumulate) != 0)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("batch = {} must be a multiple of accumulate ({}) times --ranks ({})", batch,
                            accumulate, ranks));
  return {static_cast<uint64_t>(ranks), static_cast<uint64_t>(accumulate),
          static_cast<uint64_t>(batch / (ranks * accumulate))};
}

double held_out_of(const core::JobSpec& job) { return job.options.value("validation", 0.0); }

using Slots = std::vector<uint64_t>;

// The slots of a rank at the step that begins with slot `first`, if all windows have one size.
Slots slots_of(const Steps& steps, uint64_t first, uint64_t rank) {
  Slots out;
  for (uint64_t micro = 0; micro < steps.accumulate; ++micro)
    for (uint64_t i = 0; i < steps.micro; ++i)
      out.push_back(first + (micro * steps.ranks + rank) * steps.micro + i);
  return out;
}

// A request to print steps of a job.
struct OrderRequest {
  core::Runtime& runtime;
  const core::RunFile& run;
  const core::JobSpec& job;
  const core::JobSpec& source;  // with the table of data
  const po::variables_map& given;
  Steps steps;

  int64_t count() const { return given["steps"].as<int64_t>(); }
};

// The slots of each step and rank, if windows have several sizes.
std::vector<std::vector<Slots>> divided_slots(const OrderRequest& asked, uint64_t first) {
  const core::JobView encode(asked.runtime, asked.run, asked.source);
  return core::service<core::TrainingPlans>(asked.runtime.registry())
      .divided_steps(encode, {.held_out = held_out_of(asked.job),
                              .first = first,
                              .steps = static_cast<size_t>(asked.count()),
                              .ranks = asked.steps.ranks,
                              .accumulate = asked.steps.accumulate,
                              .batch = asked.steps.batch(),
                              .buckets = asked.job.options.value("batches", "packed") == "buckets"});
}

void print_rank(core::DataOrder& order, const core::JobSpec& job, uint64_t step, uint64_t rank,
                const Slots& slots, bool as_json, core::LostSamples& damaged) {
  const auto accepts = [&](const std::string& key) { return core::hash_share(key) >= held_out_of(job); };
  std::vector<std::string> taken;
  for (const uint64_t slot : slots) taken.push_back(order.key(slot, accepts, &damaged));
  if (as_json)
    std::cout << json{{"step", step}, {"rank", rank}, {"keys", taken}}.dump(-1, ' ', false,
                                                                            json::error_handler_t::replace)
              << "\n";
  else
    std::cout << fmt::format("step {} rank {}: {}\n", step, rank, fmt::join(taken, " "));
}

int print_order(core::Runtime& runtime, const core::RunFile& run, const core::JobSpec& job,
                const po::variables_map& given) {
  const core::JobSpec* const source = with_data(run, job);
  if (!source)
    throw Error(KINORA_ERROR_INVALID,
                "neither job '" + job.name +
                    "' nor one that it reads has a table of data, such as input = { path = "
                    "\"shards/\", shuffle = 1000 }");
  const OrderRequest asked{runtime, run, job, *source, given, steps_of(job, given)};
  const Steps& steps = asked.steps;
  core::DataOrder order(*source->data, static_cast<uint64_t>(run.seed));
  core::DataState state{0, order.digest()};
  if (given.count("state")) state = core::read_data_state(given["state"].as<std::string>(), order.digest());
  const bool are_divided = steps.ranks > 1 && !source->options.value("sizes", json::array()).empty();
  const auto divided = are_divided ? divided_slots(asked, state.slots) : std::vector<std::vector<Slots>>();
  core::LostSamples damaged(job.name, {.max_failed_share = 1});  // any number
  order.count_unread(damaged);
  for (int64_t i = 0; i < asked.count(); ++i) {
    if (core::cancelled()) return kInterrupted;
    for (uint64_t rank = 0; rank < steps.ranks; ++rank)
      print_rank(
          order, job, state.slots / steps.batch() + 1, rank,
          are_divided ? divided.at(static_cast<size_t>(i)).at(rank) : slots_of(steps, state.slots, rank),
          given.count("json") > 0, damaged);
    state.slots += steps.batch();
  }
  std::cout << std::flush;
  if (given.count("save-state")) core::write_data_state(given["save-state"].as<std::string>(), state);
  return kDone;
}

}  // namespace

int data_order(core::Runtime& runtime, const Arguments& arguments) {
  const auto visible = order_flags();
  po::options_description all;
  all.add(visible).add_options()("file", po::value<std::string>())("job", po::value<std::string>());
  po::positional_options_description positional;
  positional.add("file", 1).add("job", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  po::notify(given);
  if (given.count("help")) {
    std::cout << help_of(kOrderHelp, visible);
    return kDone;
  }
  if (!given.count("file") || !given.count("job"))
    return complain(kUsage,
                    "data order: expected a run file and the name of a job; see kinora data order --help");
  const auto sets =
      given.count("set") ? given["set"].as<std::vector<std::string>>() : std::vector<std::string>();
  const auto run =
      load_run(runtime, given["file"].as<std::string>(), sets, {}, given["job"].as<std::string>());
  if (!run) return kUsage;
  return print_order(runtime, *run, job_called(*run, given["job"].as<std::string>()), given);
}

}  // namespace kinora
