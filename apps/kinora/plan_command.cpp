// kinora plan FILE.toml: the parallel layout for a train job, its cost, and why; or the hours of a curate job.
#include <iostream>

#include <boost/program_options.hpp>

#include "apps/kinora/command.hpp"
#include "apps/planner/calibrate.hpp"
#include "apps/planner/curation.hpp"
#include "apps/planner/search.hpp"
#include "apps/planner/train_job.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/config/document.hpp"
#include "core/io/atomic_file.hpp"
#include "core/plugin/service.hpp"
#include "core/runtime/runtime.hpp"
#include "host/stages/stage_check.hpp"
#include "plugins/jobs/train/training_plans.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;
namespace plan = core::plan;
using nlohmann::json;

constexpr const char* kPlanHelp = R"(usage: kinora plan FILE.toml [options]

Examines every legal parallel layout of a train job on a cluster and prints the fastest ones that fit in
memory: step time, MFU, memory of the fullest GPU, where the time goes, the cost of leaving out each strategy,
and how many GPUs would be as fast. Nothing is run. Times come from a simulation of the step. Its two
constants are fitted to published H100 runs, which it matches within 13 %.

A layout is written tp=2,cp=4,pp=4: sizes of pp, dp, fsdp, cp, tp; and stage=1|2|3 of fsdp;
sequence=cp-ring|cp-ulysses|cp-2d|stdit-hybrid|balanced-sp and ulysses of cp;
schedule=gpipe|1f1b|interleaved, virtual and conditioning=recompute|send of pp; recompute=1 (every block), 2
(every other) ...; micro, samples per microbatch. A layout that the file gives is explained too.

With --curate: the hours and node-hours of a curate job on a cluster, what limits it, and a bound that nothing
exceeds. Its stages' costs are those of a finished run of the job on some videos.

examples:
  kinora plan my.toml --cluster 8x8xH100                       the best five layouts on 8 nodes of 8 H100
  kinora plan my.toml --cluster 8x8xH100 --latent 36x96x84     for longer videos than the encode job has
  kinora plan my.toml --cluster 8x8xH100 --write planned.toml  the run file with the best layout in it
  kinora plan my.toml --cluster 8x8xH100 --explain tp=2,cp=4,pp=4,dp=2
  kinora plan --calibrate                                      measure this machine, for --cluster 1x2xhere
  kinora plan my.toml --curate --cluster "1000x{cpus=64,gpus=8,memory=512GiB}" --failures 0.02

)";

}  // namespace

Flags plan_flags() {
  using Texts = std::vector<std::string>;
  po::options_description out("options");
  out.add_options()("cluster", po::value<std::string>()->default_value("1x8xH100")->value_name("NxMxGPU"),
                    "number of nodes, GPUs per node, and GPU: A100, H100, H200, B200, GB200, cpu, here")(
      "job", po::value<std::string>()->default_value("")->value_name("JOB"),
      "train job to plan, if there are several")("latent", po::value<std::string>()->value_name("TxHxW"),
                                                 "size of a sample's latent; default: the encode job's")(
      "explain", po::value<std::string>()->value_name("LAYOUT"),
      "explain this layout instead of the best one")(
      "best", po::value<int64_t>()->default_value(5)->value_name("N"), "number of layouts to print")(
      "set", po::value<Texts>()->composing()->value_name("a.b=v"), "override a value of the run file")(
      "write", po::value<std::string>()->value_name("OUT.toml"), "write the run file with the best layout")(
      "force", "let --write replace an existing file")(
      "calibrate", "measure a core of this machine and store it as the GPU \"here\"")(
      "curate", "plan a curate job on a cluster such as 1000x{cpus=64,gpus=8,memory=512GiB}")(
      "inputs", po::value<int64_t>()->value_name("N"), "with --curate: videos; default: as many as were run")(
      "price", po::value<double>()->default_value(0)->value_name("P"), "with --curate: price of a node-hour")(
      "failures", po::value<double>()->default_value(0)->value_name("SHARE"),
      "with --curate: share of the nodes that fail a day")(
      "drains", po::value<double>()->default_value(0)->value_name("SHARE"),
      "with --curate: share of the nodes that are taken away for an hour a day, with notice")(
      "store", po::value<std::string>()->value_name("SIZE"),
      "with --curate: most bytes a second that all nodes read and write together")(
      "json", "print the result as JSON")("help,h", "this text");
  return out;
}

namespace {

// The measurement of matrix products needs tensors; the other ones do not.
int calibrate(core::Runtime& runtime, bool as_json) {
  const auto [product, share] = core::service<core::TrainingPlans>(runtime.registry()).step_rate(runtime);
  const plan::Machine machine = plan::measure(product, share);
  const auto file = plan::machine_file();
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  core::or_throw(core::write_file_atomically(file, plan::json_of(machine).dump(2) + "\n"));
  if (as_json)
    std::cout << plan::json_of(machine).dump() << "\n";
  else
    std::cout << fmt::format(
        "a core: {:.1f} GFLOP/s of products, {:.1f} GB/s of copies, {:.1f} GB/s and {:.0f} us between "
        "processes\nstored in {}; use it as --cluster 1xNxhere\n",
        machine.gpu.peak / 1e9, machine.gpu.memory_bandwidth / 1e9, machine.gpu.link / 1e9,
        machine.latency * 1e6, file.string());
  return kDone;
}

plan::Problem problem_of(const core::JobView& job, const po::variables_map& given) {
  const auto& name = given["cluster"].as<std::string>();
  std::optional<plan::Machine> here;
  if (name.ends_with("here")) here = core::or_throw(plan::read_machine(plan::machine_file()));
  plan::Cluster cluster = core::or_throw(plan::parse_cluster(name, here ? &here->gpu : nullptr));
  if (here) cluster.link_latency = cluster.network_latency = here->latency;
  std::optional<core::LatentSize> latent;
  if (given.count("latent")) latent = core::or_throw(plan::parse_latent(given["latent"].as<std::string>()));
  auto problem = core::or_throw(plan::problem_of(job, cluster, latent));
  if (here) problem.efficiency = here->efficiency;
  return problem;
}

int explain(const plan::Layout& layout, const plan::Problem& problem, bool as_json) {
  const plan::Plan priced = core::or_throw(plan::price(layout, problem));
  if (as_json)
    std::cout << plan::json_of(priced, problem).dump() << "\n";
  else
    std::cout << plan::heading(problem) << plan::text_of(priced, problem);
  return kDone;
}

// Checks the written file: unchanged parts may not suit the cluster, and in another folder relative paths
// differ.
void say_what_is_left(core::Runtime& runtime, const std::string& file, int64_t ranks) {
  const auto planned = load_run(runtime, file, {});
  if (!planned) return;  // load_run has printed the problems
  const auto problems = core::check_jobs(runtime, *planned, ranks);
  for (const auto& p : problems) core::log_warn("{}", core::format(p));
  if (!problems.empty())
    core::log_warn(
        "plan: {} cannot run on {} ranks until this is fixed; then rerun kinora check {} --ranks {}", file,
        ranks, file, ranks);
}

void write(const std::string& from, const std::string& to, const std::string& job, const plan::Plan& best,
           const plan::Problem& problem) {
  const std::string text = core::or_throw(core::read_toml(from));
  const auto planned = core::or_throw(plan::with_values(
      text, job,
      {{"parallel", best.layout.toml()},
       {"accumulate", fmt::format("accumulate = {}", best.layout.accumulate(problem.batch))}}));
  core::or_throw(core::write_file_atomically(to, planned));
  std::cerr << "wrote " << to << "\n";
}

// Names the mistake in the flags of --curate; "" if there is none.
std::string mistake_in_curation(const po::variables_map& given) {
  if (given["cluster"].defaulted())
    return "--curate needs a cluster; --cluster \"1000x{cpus=64,gpus=8,memory=512GiB}\"";
  for (const char* name : {"latent", "explain", "write"})
    if (given.count(name)) return fmt::format("--{} is for train jobs; leave it out, or --curate", name);
  constexpr int64_t kMost = 1'000'000'000'000'000;
  if (const int64_t n = given.count("inputs") ? given["inputs"].as<int64_t>() : 1; n < 1 || n > kMost)
    return "--inputs must be a number from 1 to 10^15";
  for (const char* name : {"failures", "drains"})
    if (const double share = given[name].as<double>(); !(share >= 0 && share <= 1))
      return fmt::format("--{} is a share of the nodes a day, from 0 to 1, such as 0.02", name);
  return given["price"].as<double>() >= 0 ? "" : "--price must be 0 or more";
}

int plan_curation(const core::RunFile& run, const po::variables_map& given) {
  const core::JobSpec& job =
      *core::or_throw(plan::planned_job(run, "curate", given["job"].as<std::string>()));
  plan::MeasuredJob measured = core::or_throw(plan::measured_job(run, job));
  const int64_t inputs = given.count("inputs") ? given["inputs"].as<int64_t>() : measured.job.inputs;
  engines::simulated::Surroundings around;
  around.failures = given["failures"].as<double>();
  around.drains = given["drains"].as<double>();
  if (given.count("store"))
    around.store = static_cast<double>(core::or_throw(core::parse_size(given["store"].as<std::string>())));
  plan::CurationPlan found = core::or_throw(
      plan::plan_curation(std::move(measured), inputs, given["cluster"].as<std::string>(), around));
  found.price = given["price"].as<double>();
  std::cout << (given.count("json") ? plan::json_of(found).dump() + "\n" : plan::text_of(found));
  return kDone;
}

// Names the mistake in the flags; "" if there is none.
std::string mistake_in(const po::variables_map& given) {
  if (given["file"].as<std::string>().empty())
    return "a run file is missing; kinora plan FILE.toml --cluster 8x8xH100";
  if (const auto to = given.count("write") ? given["write"].as<std::string>() : "";
      !given.count("force") && std::filesystem::exists(to))
    return to + " exists already; give --write another name, or --force";
  if (given.count("write") && given.count("explain"))
    return "--write writes the best layout, and --explain explains another; give one of them";
  if (given.count("curate")) return mistake_in_curation(given);
  return given["best"].as<int64_t>() < 1 ? "--best must be 1 or more" : "";
}

int plan_training(core::Runtime& runtime, const core::RunFile& run, const po::variables_map& given) {
  const std::string file = given["file"].as<std::string>();
  const bool as_json = given.count("json") != 0;
  const core::JobSpec& job = *core::or_throw(plan::train_job(run, given["job"].as<std::string>()));
  const plan::Problem problem = problem_of({runtime, run, job}, given);
  if (given.count("explain"))
    return explain(core::or_throw(plan::parse_layout(given["explain"].as<std::string>())), problem, as_json);
  const auto own = plan::layout_of(job, problem);
  const plan::Found found =
      core::or_throw(plan::search(problem, given["best"].as<int64_t>(), own ? *own : std::nullopt));
  json out = plan::json_of(found, problem);
  std::string text = plan::heading(problem) + plan::text_of(found, problem);
  if (const auto fewer = plan::as_fast_with_fewer(problem, found.best.front().step.seconds)) {
    out["fewer"] = plan::json_of(*fewer);
    text += plan::text_of(*fewer);
  }
  // A layout that is not legal on this cluster gets a message, and the best one is still printed.
  const auto refuse = [&](const core::Failure& why) {
    out["file"] = {{"error", why.message}};
    text += fmt::format("\nthe file's own layout {}: {}\n",
                        why.code == KINORA_ERROR_UNSUPPORTED ? "cannot be simulated" : "is not legal",
                        why.message);
  };
  if (!own) {
    refuse(own.failure());
  } else if (*own) {
    if (const auto priced = plan::price(**own, problem)) {
      out["file"] = plan::json_of(*priced, problem);
      text += "\nthe file's own layout\n" + plan::text_of(*priced, problem);
    } else {
      refuse(priced.failure());
    }
  }
  std::cout << (as_json ? out.dump() + "\n" : text);
  if (given.count("write"))
    write(file, given["write"].as<std::string>(), job.name, found.best.front(), problem);
  if (given.count("write") && given.count("set"))
    core::log_warn(
        "plan: {} has the values of {}, not those of --set, for which the layout is; add them to it",
        given["write"].as<std::string>(), file);
  if (given.count("write"))
    say_what_is_left(runtime, given["write"].as<std::string>(), problem.cluster.size());
  return kDone;
}

}  // namespace

int plan_command(core::Runtime& runtime, const Arguments& arguments) {
  po::options_description all = plan_flags();
  all.add_options()("file", po::value<std::string>()->default_value(""));
  po::positional_options_description positional;
  positional.add("file", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  if (given.count("help")) {
    std::cout << help_of(kPlanHelp, plan_flags());
    return kDone;
  }
  if (given.count("calibrate")) return calibrate(runtime, given.count("json") != 0);
  if (const std::string wrong = mistake_in(given); !wrong.empty()) return complain(kUsage, "plan: " + wrong);
  const auto run =
      load_run(runtime, given["file"].as<std::string>(),
               given.count("set") ? given["set"].as<std::vector<std::string>>() : std::vector<std::string>());
  if (!run) return kUsage;
  if (given.count("curate")) return plan_curation(*run, given);
  return plan_training(runtime, *run, given);
}

}  // namespace kinora
