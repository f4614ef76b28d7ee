// kinora data order: the samples that each rank takes at each step of a training, without training.
#include "plugins/jobs/loading/data_order.hpp"

#include <iostream>

#include <boost/program_options.hpp>
#include <fmt/ranges.h>

#include "apps/kinora/command.hpp"
#include "core/base/cancel.hpp"
#include "plugins/jobs/loading/data_state.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;
using nlohmann::json;

constexpr const char* kOrderHelp = R"(usage: kinora data order FILE.toml JOB [options]

Prints which samples each rank takes at each step of a job that trains from shards, without training: one line for each step and
rank, with the samples' keys. The order depends on the run file, the data and the seed alone. A position saved with one number of
ranks continues with any other.

examples:
  kinora data order my.toml dit --ranks 8 --steps 3
  kinora data order my.toml dit --ranks 8 --steps 100 --save-state at.json --json > first.jsonl
  kinora data order my.toml dit --ranks 2 --steps 100 --state at.json --json      the next hundred, on two ranks

)";

po::options_description order_flags() {
  using Texts = std::vector<std::string>;
  po::options_description out("options");
  out.add_options()("ranks", po::value<int64_t>()->default_value(1)->value_name("N"),
                    "ranks that hold different samples")(
      "steps", po::value<int64_t>()->default_value(1)->value_name("K"), "number of steps to print")(
      "state", po::value<std::string>()->value_name("FILE"), "begin at the position in FILE")(
      "save-state", po::value<std::string>()->value_name("FILE"),
      "write the position after the last step to FILE")(
      "set", po::value<Texts>()->composing()->value_name("a.b=v"), "override a value of the run file")(
      "json", "print lines of JSON: {\"step\", \"rank\", \"keys\"}")("help,h", "this text");
  return out;
}

const core::JobSpec& job_called(const core::RunFile& run, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& job : run.jobs) {
    if (job.name == name) return job;
    names.push_back(job.name);
  }
  throw Error(KINORA_ERROR_INVALID, fmt::format("there is no job '{}' in {}; its jobs: {}", name,
                                                run.file.string(), fmt::join(names, ", ")));
}

// The keys at the slots [first, first + count). A sample whose header is damaged is replaced as in training.
std::vector<std::string> keys(core::DataOrder& order, uint64_t first, uint64_t count) {
  std::vector<std::string> out;
  for (uint64_t slot = first; slot < first + count; ++slot) out.push_back(order.key(slot));
  return out;
}

int print_order(const core::RunFile& run, const core::JobSpec& job, const po::variables_map& given) {
  if (!job.data)
    throw Error(KINORA_ERROR_INVALID,
                "job '" + job.name +
                    "' reads no table of data, such as input = { path = \"shards/\", shuffle = 1000 }");
  const auto ranks = given["ranks"].as<int64_t>(), steps = given["steps"].as<int64_t>(),
             batch = job.options.value("batch", int64_t{0});
  if (ranks < 1 || steps < 1) return complain(kUsage, "data order: --ranks and --steps must be 1 or more");
  if (batch == 0 || batch % ranks != 0)
    return complain(kUsage, fmt::format("data order: batch = {} of job '{}' must be a multiple of --ranks {}",
                                        batch, job.name, ranks));
  core::DataOrder order(*job.data, static_cast<uint64_t>(run.seed));
  core::DataState state{0, order.digest()};
  if (given.count("state")) state = core::read_data_state(given["state"].as<std::string>(), order.digest());
  const auto of_step = static_cast<uint64_t>(batch), of_rank = of_step / static_cast<uint64_t>(ranks);
  for (int64_t i = 0; i < steps && !core::cancelled(); ++i) {
    const uint64_t step = state.slots / of_step + 1;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto taken = keys(order, state.slots + static_cast<uint64_t>(rank) * of_rank, of_rank);
      if (given.count("json"))
        std::cout << json{{"step", step}, {"rank", rank}, {"keys", taken}}.dump(
                         -1, ' ', false, json::error_handler_t::replace)
                  << "\n";
      else
        std::cout << fmt::format("step {} rank {}: {}\n", step, rank, fmt::join(taken, " "));
    }
    state.slots += of_step;
  }
  std::cout << std::flush;
  if (core::cancelled()) return kInterrupted;
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
    std::cout << kOrderHelp << visible;
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
  return print_order(*run, job_called(*run, given["job"].as<std::string>()), given);
}

}  // namespace kinora
