// kinora run FILE.toml and kinora check FILE.toml
#include <algorithm>
#include <iostream>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "apps/command/lease.hpp"
#include "apps/command/runner.hpp"
#include "apps/command/surroundings.hpp"
#include "apps/kinora/command.hpp"
#include "apps/kinora/run_studio.hpp"
#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/base/suggest.hpp"
#include "core/config/document.hpp"
#include "core/run/inputs.hpp"
#include "core/run/job_check.hpp"
#include "core/runtime/place.hpp"
#include "plugins/jobs/funnel/funnel.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;

constexpr const char* kRunHelp = R"(usage: kinora run FILE.toml [options]

Runs the jobs of a run file one after the other and writes to its output folder. Jobs that are finished and
unchanged are skipped. After an interruption, train and train-tokenizer jobs resume from their last
checkpoint; curate, shard, embed-text, encode and generate jobs process the remaining samples; dedup and
report jobs start again.

examples:
  kinora run configs/quickstart.toml                      the whole way, from a video to a video
  kinora run my.toml --set run.seed=7 --set dit.learning_rate=2e-4
                                                          other values for this time
  kinora run my.toml --only dit                           one job, and the jobs that it reads
  kinora run my.toml --set dit.steps=4000                 more steps: the training resumes
  kinora run my.toml --only dit --from-scratch            dit anew, even if it is finished
  kinora run my.toml --dry-run                            print what would be done
  kinora run my.toml --studio                             look at clips while they are made
  kinora run my.toml --retry-failed                       retry the failed inputs of curate
                                                          jobs, and run again what reads them

)";

constexpr const char* kCheckHelp = R"(usage: kinora check FILE.toml... [options]

Reads run files as `run` would and prints every error at once, as FILE:LINE:COL. Exit 0 if there is none, else 2.
With --ranks, also checks that its strategies and batches fit that number of ranks.

)";

}  // namespace

Flags run_flags() {
  po::options_description options("options");
  options.add_options()("set", po::value<std::vector<std::string>>()->composing()->value_name("a.b=v"),
                        "override a value: JOB.OPTION=VALUE or run.KEY=VALUE")(
      "only", po::value<std::string>()->default_value("")->value_name("JOB"),
      "run this job and the jobs that it reads")(
      "profile", "write trace.json into the folder of each job that an engine runs")(
      "out", po::value<std::string>()->value_name("DIR"), "output folder; default: the file's")(
      "studio", "open the studio beside the run, which shows the clips while they are made, and stay there")(
      "dry-run", "print what would be done")(
      "retry-failed", "retry the videos and clips that failed in finished curate jobs")(
      "from-scratch",
      "continue no earlier results of the jobs that run; with --only: of that job alone, which runs even if "
      "it is finished")(
      "replace",
      "replace the clips of another run file or input, or those with edits of people, where options differ")(
      "help,h", "this text");
  return options;
}

namespace {

struct Parsed {
  po::variables_map values;
  std::string file;  // the first of `files`
  std::vector<std::string> files;
  std::vector<std::string> sets;
};

// most: largest number of files; -1: any number.
Parsed parse_run(const Arguments& arguments, const po::options_description& visible, int most = 1) {
  po::options_description all;
  all.add(visible).add_options()("file", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("file", most);
  Parsed out;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), out.values);
  po::notify(out.values);
  if (out.values.count("file")) out.files = out.values["file"].as<std::vector<std::string>>();
  if (!out.files.empty()) out.file = out.files.front();
  if (out.values.count("set")) out.sets = out.values["set"].as<std::vector<std::string>>();
  return out;
}

std::optional<RunRequest> run_request_of(core::Runtime& runtime, const Parsed& given) {
  if (given.file.empty())
    return complain(kUsage, with_quickstart(
                                "run: a run file is missing; kinora run FILE.toml, for example kinora run "
                                "configs/quickstart.toml")),
           std::nullopt;
  const auto only = given.values["only"].as<std::string>();
  auto run = load_run(runtime, given.file, given.sets, {}, only);
  if (!run) return std::nullopt;
  if (given.values.count("out"))
    run->out = std::filesystem::absolute(given.values["out"].as<std::string>()).lexically_normal();
  if (given.values.count("profile")) core::profile_engines(*run, runtime.registry());
  RunOptions options;
  options.dry = given.values.count("dry-run") != 0;
  options.retry_failed = given.values.count("retry-failed") != 0;
  options.from_scratch = given.values.count("from-scratch") != 0;
  options.replaces = given.values.count("replace") != 0;
  options.only = only;
  std::vector<std::string> names;
  for (const auto& job : run->jobs) names.push_back(job.name);
  if (!options.only.empty() &&
      std::ranges::none_of(run->jobs, [&](const auto& job) { return job.is_called(only); }))
    return complain(kUsage, "run: no job is called '" + options.only + "'" +
                                core::did_you_mean_or_list(options.only, names, "there are")),
           std::nullopt;
  return RunRequest{std::move(*run), std::move(options)};
}

// Ranks of the launch that a check is for; 0: not given.
int64_t ranks_of(const Parsed& given) {
  if (!given.values.count("ranks")) return core::or_throw(core::ranks_of(core::environment));
  const auto ranks = given.values["ranks"].as<int64_t>();
  if (ranks < 1) throw Error(KINORA_ERROR_INVALID, "check: --ranks must be 1 or more");
  return ranks;
}

// Rank 0 of a launch is displayed; of the other ranks only problems are. Every rank keeps a log file; under
// `kinora launch` the launcher already writes it. A process that shares its work has a file of its own.
core::Result<core::LogFile> open_log(const std::filesystem::path& out, const core::LaunchPlace& place,
                                     bool is_shared) {
  if (place.first() && !is_shared) return core::LogFile::open(out / "kinora.log");
  if (place.launcher == core::kOwnLauncher && !is_shared) return core::LogFile::open("/dev/null");
  std::error_code ignored;
  std::filesystem::create_directories(out / "logs", ignored);
  if (is_shared) {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    return core::LogFile::open(out / "logs" / fmt::format("{}-{}.log", host, getpid()));
  }
  core::quiet_terminal();
  return core::LogFile::open(out / "logs" / ("rank-" + std::to_string(place.rank) + ".log"));
}

// How much each job of a curation has kept, in a line; none for a run without one.
void print_funnel(const core::RunFile& run) {
  std::vector<std::filesystem::path> folders;
  for (const auto& job : run.jobs) folders.push_back(run.out / job.name);
  if (const auto line = core::funnel_line(core::funnel_in(folders)); !line.empty()) std::cout << line << "\n";
}

}  // namespace

std::optional<RunRequest> run_request(core::Runtime& runtime, const Arguments& of_run) {
  return run_request_of(runtime, parse_run(of_run, run_flags()));
}

namespace {

// Whether the clips of curate jobs are what the run is for: no other job makes a network or a video of them.
bool makes_clips(const core::RunFile& run) {
  return std::ranges::any_of(run.jobs, [](const auto& job) { return job.kind->name == "curate"; }) &&
         std::ranges::none_of(run.jobs, [](const auto& job) { return job.kind->is_spread(); });
}

bool has_shards(const core::RunFile& run) {
  return std::ranges::any_of(run.jobs, [](const auto& job) { return job.kind->name == "shard"; });
}

// Where the videos of generate jobs are. only: the one job that ran, or empty.
void print_videos(const core::RunFile& run, const std::string& only) {
  for (const auto& job : run.jobs) {
    if (job.kind->name != "generate" || !(only.empty() || only == job.name)) continue;
    const auto folder = run.out / job.name;
    const auto files =
        core::object_in_file(folder / "videos/000.json").value("files", nlohmann::json::array());
    if (files.empty() || !files[0].is_string()) continue;
    const auto count =
        static_cast<int64_t>(core::number_in(core::object_in_file(folder / "summary.json"), "videos"));
    std::cout << (count > 1 ? fmt::format("the first of {} videos: ", count) : "the video: ")
              << (folder / "videos" / files[0].get<std::string>()).string() << "\n";
  }
}

// Runs the jobs and says how that ended; the last line names what one wants next. Returns the exit code.
int run_and_say(core::Runtime&, const RunRequest&, const core::LaunchPlace&, bool has_studio);

}  // namespace

int run_command(core::Runtime& runtime, const Arguments& arguments) {
  const auto visible = run_flags();
  const Parsed given = parse_run(arguments, visible);
  if (given.values.count("help")) {
    std::cout << help_of(with_quickstart(kRunHelp), visible);
    return kDone;
  }
  const auto asked = run_request_of(runtime, given);
  if (!asked) return kUsage;
  const core::RunFile& run = asked->file;
  const RunOptions& options = asked->options;
  if (!runtime.has_log_level()) core::or_throw(core::set_log_level(run.log_level));
  const bool has_studio = given.values.count("studio") != 0;
  if (has_studio && (options.dry || !core::here().alone()))
    return complain(kUsage, std::string("run: --studio is not for ") +
                                (options.dry ? "--dry-run" : "ranks of a launch") +
                                "; start it beside: kinora studio " + shell_word(run.out.string()));
  if (options.dry) {
    const auto result = run_jobs(runtime, run, options);
    return result.ok ? kDone : result.was_refused ? kUsage : kFailed;
  }
  std::error_code error;
  std::filesystem::create_directories(run.out, error);
  if (error)
    return complain(kFailed, "cannot create the output folder " + run.out.string() + ": " + error.message() +
                                 "; choose another with --out");
  own_process();
  const core::LaunchPlace place = core::here();
  // Another run at work in this folder owns its log. If it takes the lease of run_jobs() after this check, its
  // log has one line of ours.
  const bool shares = is_shared(run, options);
  if (place.first())
    if (const auto free = shares ? core::Lease::may_share(run.out) : core::Lease::may_take(run.out, place);
        !free)
      return complain(free.failure().code == KINORA_ERROR_INVALID ? kUsage : kFailed, free.failure().message);
  auto log = open_log(run.out, place, shares);
  if (!log) return complain(kFailed, log.failure().message);
  std::optional<RunStudio> studio;
  if (has_studio) studio.emplace(runtime, run);
  const int code = run_and_say(runtime, *asked, place, has_studio);
  if (studio && code != kUsage && !core::cancelled()) studio->stay();
  return code;
}

namespace {

int run_and_say(core::Runtime& runtime, const RunRequest& asked, const core::LaunchPlace& place,
                bool has_studio) {
  const core::RunFile& run = asked.file;
  const RunOptions& options = asked.options;
  const RunResult result = run_jobs(runtime, run, options);
  if (result.was_cancelled) {  // `kinora launch` prints this once for all of its ranks
    core::log_to_files("interrupted");
    return place.launcher == core::kOwnLauncher
               ? kInterrupted
               : complain(kInterrupted, std::string("interrupted; run the same command ") +
                                            (options.from_scratch ? "without --from-scratch" : "again") +
                                            " to continue");
  }
  if (!result.ok) return result.was_refused ? kUsage : kFailed;
  if (!result.is_elsewhere && (place.first() || place.launcher == core::kOwnLauncher)) {
    print_funnel(run);
    // With --only, a page of an earlier run may lie there.
    const bool has_page = std::ranges::any_of(run.jobs, [&](const core::JobSpec& job) {
      return job.kind->name == "report" && (options.only.empty() || options.only == job.name);
    });
    std::cout << "results are in " << run.out.string()
              << (has_page ? "; open " + (run.out / "report.html").string() : "") << "\n";
    print_videos(run, options.only);
    if (!has_studio && makes_clips(run))
      std::cout << "look at the clips: kinora studio " << shell_word(run.out.string()) << "\n";
    if (makes_clips(run) && has_shards(run))
      std::cout << "train on them: kinora init " << shell_word(run.out.string()) << "\n";
  }
  return kDone;
}

}  // namespace

Flags check_flags() {
  Flags options("options");
  options.add_options()("set", po::value<std::vector<std::string>>()->composing()->value_name("a.b=v"),
                        "override a value")(
      "ranks", po::value<int64_t>()->value_name("N"),
      "number of ranks that the file is for; default: from a launcher's variables, else any number")(
      "help,h", "this text");
  return options;
}

int check_command(core::Runtime& runtime, const Arguments& arguments) {
  const auto visible = check_flags();
  const Parsed given = parse_run(arguments, visible, -1);
  if (given.values.count("help")) {
    std::cout << help_of(kCheckHelp, visible);
    return kDone;
  }
  if (given.file.empty()) return complain(kUsage, "check: a run file is missing; kinora check FILE.toml");
  int code = kDone;
  for (const auto& file : given.files) {
    auto run = load_run(runtime, file, given.sets, ranks_of(given));
    if (run && !run->storages.empty() && given.files.size() > 1) {
      complain(
          kUsage,
          file + ": configures storages, which would also apply to the other files; check this file alone");
      run.reset();
    }
    if (!run) {
      code = kUsage;
      continue;
    }
    std::cout << file << ": " << run->jobs.size() << (run->jobs.size() == 1 ? " job" : " jobs")
              << ", no errors\n";
  }
  return code;
}

}  // namespace kinora
