// kinora launch -n N -- run FILE.toml
#include <cmath>
#include <ctime>
#include <iostream>

#include <boost/program_options.hpp>

#include "apps/command/world.hpp"
#include "apps/kinora/command.hpp"
#include "core/base/log.hpp"
#include "core/run/run_folder.hpp"
#include "core/runtime/place.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

constexpr const char* kLaunchHelp = R"(usage: kinora launch -n N [options] -- run FILE.toml [options of run]

Starts N ranks of this program on this machine, which compute one run together. Shows the output of rank 0 and
writes the output of every rank to a file. If a rank fails, stops the others and prints the failed rank, its
last lines and its log; with --restarts, all ranks then start again from the last checkpoint. Ctrl-C stops all
ranks after a checkpoint, a second Ctrl-C at once; the same command resumes. On SIGUSR1, training writes a
checkpoint. The exit code is that of the rank that failed first, with the meanings that `run` has.

On several machines, torchrun, srun and mpirun start the ranks: give them `kinora run FILE.toml`, which reads
their variables (packaging/slurm has scripts).

examples:
  kinora launch -n 2 -- run my.toml                       two ranks, for example under parallel = ["ddp"]
  kinora launch -n 8 --restarts 3 -- run my.toml          restarts after up to three failures
  torchrun --nnodes 2 --nproc-per-node 8 --no-python kinora run my.toml
  srun --ntasks 16 kinora run my.toml

)";

}  // namespace

Flags launch_flags() {
  po::options_description options("options");
  options.add_options()("ranks,n", po::value<int>()->value_name("N"), "number of ranks to start")(
      "restarts", po::value<int>()->default_value(0)->value_name("R"),
      "how often a failed world is started again")(
      "logs", po::value<std::string>()->value_name("DIR"),
      "folder for rank-0.log ...; default: logs in the run's folder")(
      "timeout", po::value<double>()->value_name("S"), "seconds that a rank waits for another; default: 600")(
      "grace", po::value<double>()->default_value(10)->value_name("S"),
      "seconds that a rank has to stop after another failed")("help,h", "this text");
  return options;
}

namespace {

std::string now() {
  const std::time_t time = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %T", std::localtime(&time));
  return text;
}

// A folder for the ranks' rendezvous file; it is removed with the object.
class MeetingPlace {
 public:
  MeetingPlace() {
    std::string name = (fs::temp_directory_path() / "kinora-launch-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error(KINORA_ERROR_IO, name + ": cannot be created; set TMPDIR to a writable folder");
    folder_ = name;
  }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;
  ~MeetingPlace() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string uri(int attempt) const { return "file://" + (folder_ / std::to_string(attempt)).string(); }

 private:
  fs::path folder_;
};

// Each rank has a process and a log; KINORA_TIMEOUT_MS is an int32_t.
constexpr int kMostRanks = 512;
constexpr double kMostSeconds = 1e6;

// A message about the first value out of range; empty if there is none.
std::string out_of_range(const po::variables_map& given) {
  const auto within = [](double x, double most) { return x >= 0 && x <= most; };
  if (const int n = given["ranks"].as<int>(); n < 1 || n > kMostRanks)
    return fmt::format("-n {}: must be 1 to {} ranks on one machine", n, kMostRanks);
  if (const int n = given["restarts"].as<int>(); n < 0)
    return fmt::format("--restarts {}: must be 0 or more", n);
  if (const double s = given["grace"].as<double>(); !within(s, kMostSeconds))
    return fmt::format("--grace {}: must be 0 to {} seconds", s, kMostSeconds);
  if (const double s = given.count("timeout") ? given["timeout"].as<double>() : 1;
      !within(s, kMostSeconds) || s < 1e-3)
    return fmt::format("--timeout {}: must be 0.001 to {} seconds", s, kMostSeconds);
  return "";
}

int launch(WorldPlan plan, int restarts) {
  const MeetingPlace meeting;
  const Signals signals;
  for (int attempt = 0;; ++attempt) {
    plan.rendezvous = meeting.uri(attempt);
    plan.restart = attempt;
    plan.headline = fmt::format("=== kinora launch, {}, {} ranks, {} ===", now(), plan.size,
                                attempt ? fmt::format("restart {} of {}", attempt, restarts) : "start");
    const WorldEnd end = run_world(plan, signals);
    if (end.interrupted || end.code == kInterrupted)
      return complain(kInterrupted, "interrupted; run the same command again to continue");
    // A configuration that was refused once is refused again.
    if (end.code == kDone || end.code == kUsage || attempt == restarts) return end.code;
    core::log_warn("launch: all ranks are started again (restart {} of {}), from the last checkpoint",
                   attempt + 1, restarts);
  }
}

}  // namespace

int launch_command(core::Runtime& runtime, const Arguments& flags, const Arguments& arguments) {
  const auto visible = launch_flags();
  const auto split = std::find(arguments.begin(), arguments.end(), "--");
  po::variables_map given;
  try {
    po::store(po::command_line_parser(Arguments(arguments.begin(), split)).options(visible).run(), given);
  } catch (const po::unknown_option& e) {
    if (split != arguments.end()) throw;
    return complain(kUsage,
                    std::string("launch: ") + e.what() +
                        "; give the command of the ranks after --: kinora launch -n N -- run FILE.toml");
  }
  po::notify(given);
  if (given.count("help")) {
    std::cout << help_of(kLaunchHelp, visible);
    return kDone;
  }
  const Arguments rest(split == arguments.end() ? split : split + 1, arguments.end());
  if (!given.count("ranks"))
    return complain(kUsage, "launch: the number of ranks is missing; kinora launch -n N -- run FILE.toml");
  if (const auto wrong = out_of_range(given); !wrong.empty()) return complain(kUsage, "launch: " + wrong);
  if (rest.empty())
    return complain(kUsage,
                    "launch: the command of the ranks is missing; give it after --, as in -- run FILE.toml");
  if (rest[0].rfind("--", 0) != 0)
    if (const int code = require_command(rest[0])) return code;
  if (const auto place = core::here(); !place.launcher.empty() && !place.alone())
    return complain(kUsage, "launch: " + place.launcher + " started " + std::to_string(place.world) +
                                " ranks already; use kinora run instead of kinora launch");
  WorldPlan plan{.size = given["ranks"].as<int>(), .arguments = flags};
  plan.arguments.insert(plan.arguments.end(), rest.begin(), rest.end());
  if (given.count("timeout")) plan.timeout_ms = std::llround(given["timeout"].as<double>() * 1e3);
  plan.grace = std::chrono::milliseconds(std::llround(given["grace"].as<double>() * 1e3));
  if (given.count("logs")) plan.logs = given["logs"].as<std::string>();
  if (rest[0] == "run") {  // errors that every rank would report are reported once, here
    const auto asked = run_request(runtime, {rest.begin() + 1, rest.end()});
    if (!asked || !may_begin(runtime, asked->file, asked->options, plan.size)) return kUsage;
    if (plan.logs.empty()) plan.logs = asked->file.out / "logs";
  } else if (plan.logs.empty()) {
    return complain(kUsage,
                    "launch: --logs DIR is required; only the command `run` has a default folder for logs");
  }
  std::error_code error;
  fs::create_directories(plan.logs, error);
  if (error)
    return complain(kFailed, plan.logs.string() + ": " + error.message() + "; choose another with --logs");
  // Rank 0 takes the run's folder, but each rank's log gets its first line before that. The attempt of a Slurm job that
  // was lost may still hold the lock; its ranks end when rank 0 takes over.
  const auto lock = core::FolderLock::take(plan.logs);
  if (!lock && (lock.failure().code == KINORA_ERROR_IO || core::here().requeues == 0))
    return complain(kFailed, lock.failure().code == KINORA_ERROR_IO
                                 ? lock.failure().message
                                 : "launch: another kinora launch is writing its logs to " +
                                       plan.logs.string() +
                                       "; wait for it, or choose another folder with --out or --logs");
  core::log_info("launch: {} ranks; their logs are in {}", plan.size, plan.logs.string());
  return launch(std::move(plan), given["restarts"].as<int>());
}

}  // namespace kinora
