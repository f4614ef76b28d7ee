// The command line: flags that all commands share, followed by one command.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include <boost/dll/shared_library.hpp>
#include <boost/program_options.hpp>

#include "apps/kinora/command.hpp"
#include "apps/kinora/end_guard.hpp"
#include "core/base/paths.hpp"
#include "core/base/suggest.hpp"
#include "core/build_info.hpp"
#include "core/commit.hpp"
#include "core/runtime/runtime.hpp"
#include "core/workers/service.hpp"
#include "kinora/abi/base.h"

namespace kinora {
namespace {

// The program does not link FFmpeg, so this asks the library that the video plugin will load.
std::string ffmpeg_version() {
  std::error_code error;
  boost::dll::shared_library library(
      "libavutil.so." KINORA_AVUTIL_MAJOR,
      boost::dll::load_mode::rtld_lazy | boost::dll::load_mode::search_system_folders, error);
  if (error || !library.has("av_version_info")) return "not found (libavutil.so." KINORA_AVUTIL_MAJOR ")";
  return library.get<const char*()>("av_version_info")();
}

// Versions of the program and of its source, of the libtorch it was built for, and of the FFmpeg that its
// plugins will load.
std::string version_text() {
  const std::string_view commit = KINORA_COMMIT;
  return std::string("kinora ") + KINORA_VERSION + (commit.empty() ? "" : "\ncommit   ") +
         std::string(commit) + "\nbuild    " + KINORA_BUILD + "\nabi      " +
         std::to_string(KINORA_ABI_MAJOR) + "." + std::to_string(KINORA_ABI_MINOR) + "\nlibtorch " +
         KINORA_TORCH_VERSION + "\nffmpeg   " + ffmpeg_version() + "\n";
}

constexpr const char* kMainHelp = R"(Kinora: from raw video to a video foundation model, and back to video.

usage: kinora [--plugins DIR]... [--plugins-lock FILE] [--log LEVEL] COMMAND ...

commands
  run FILE.toml          run the jobs of a file; resume unfinished ones
  launch -n N -- run ... the same on N ranks of this machine; torchrun, srun and mpirun start `run` themselves
  check FILE.toml        print every error of a run file at once, with its place and a suggestion
  generate FILE.toml     make a video with the networks of a run: --prompt, --image, --from VIDEO
  generate --pipeline D  the same with a published model in folder D, without a run file
  search DIR TEXT        find the clips nearest to a text, or to a clip with --like CLIP
  data PART PATH         folders of WebDataset shards: index, verify, inspect, preview, order
  plugins                manage components: list, inspect ID, validate FILE.so, new KIND NAME,
                         check-parallel ID, lock [FILE]
  apply ID [INPUT]       run one component alone on one input
  inspect ID|FOLDER      print parameters, bytes and operations of a model or tokenizer without creating it
  convert IN OUT         convert weights: one file or shards, naming schemes, dtypes, adapters
  plan FILE.toml         find the parallel layout for a cluster, its memory and time per step, and why
  studio DIR             serve a local page to browse clips, edit captions, keep and reject
  bench [NAME]           measure this machine: a table, or --json
  completion SHELL       print a script for bash, zsh or fish: source <(kinora completion bash)

first steps
  kinora run configs/quickstart.toml                   turn a video into a trained model and a generated clip
  kinora plugins inspect sampler/edm-heun              show the inputs, outputs and options of a component
  kinora apply stage/shots.content VIDEO --json        find the shots of a video
  kinora COMMAND --help                                more about a command, with examples

flags
  --plugins DIR          folder to search for plugins first; repeatable; also KINORA_PLUGIN_PATH
  --plugins-lock FILE    open only the plugins in FILE; default: plugins.lock next to the run file, if there is one
  --log LEVEL            trace, debug, info (default), warn, error
  --version              versions of Kinora, of the libtorch it is built for, and of the FFmpeg it finds
  --help

exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted
)";

const std::map<std::string, int (*)(core::Runtime&, const Arguments&)>& commands() {
  static const std::map<std::string, int (*)(core::Runtime&, const Arguments&)> all{
      {"run", run_command},
      {"check", check_command},
      {"apply", apply_command},
      {"bench", bench_command},
      {"convert", convert_command},
      {"inspect", inspect_command},
      {"generate", generate_command},
      {"launch", nullptr},  // receives the shared flags too
      {"plan", plan_command},
      {"search", search_command},
      {"data", data_command},
      {"studio", studio_command},
      {"plugins", [](core::Runtime& r, const Arguments& a) { return plugins_command(r, a); }},
      {"completion", [](core::Runtime&, const Arguments& a) { return completion_command(a); }}};
  return all;
}

// Removes the shared flags from the front; the rest is the command and its arguments.
int parse_globals(Arguments& arguments, Globals& globals) {
  while (!arguments.empty() && arguments.front().rfind("--", 0) == 0) {
    std::string flag = arguments.front(), value;
    arguments.erase(arguments.begin());
    if (const auto equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    } else if (flag != "--plugins" && flag != "--plugins-lock" && flag != "--log") {
      return complain(kUsage, "unknown flag '" + flag + "'" +
                                  core::did_you_mean(
                                      flag, {"--plugins", "--plugins-lock", "--log", "--version", "--help"}) +
                                  "; see kinora --help");
    } else if (arguments.empty()) {
      return complain(kUsage, flag + " needs a value");
    } else {
      value = arguments.front();
      arguments.erase(arguments.begin());
    }
    if (flag == "--plugins") globals.runtime.plugin_dirs.emplace_back(value);
    if (flag == "--plugins-lock") globals.runtime.plugins_lock = value;
    if (flag == "--log") globals.runtime.log_level = value;
  }
  return kDone;
}

int run(Arguments arguments) {
  if (arguments.empty() || arguments.front() == "--help" || arguments.front() == "-h" ||
      arguments.front() == "help") {
    std::cout << with_quickstart(kMainHelp);
    return arguments.empty() ? kUsage : kDone;
  }
  if (arguments.front() == "--version" || arguments.front() == "version") {
    std::cout << version_text();
    return kDone;
  }
  Globals globals;
  const Arguments all = arguments;
  if (const int code = parse_globals(arguments, globals)) return code;
  if (arguments.empty()) return complain(kUsage, "a command is missing; see kinora --help");
  if (arguments.front() == "worker") {  // internal
    auto runtime = core::Runtime::start(globals.runtime);
    if (!runtime) return complain(kUsage, runtime.failure().message);
    (*runtime)->torch_loader(core::open_torch_library);
    core::serve_worker(**runtime);  // the process that started it says how it ended
  }
  const EndGuard guard;
  if (const int code = require_command(arguments.front())) return code;
  const auto command = commands().at(arguments.front());
  auto runtime = core::Runtime::start(globals.runtime);
  if (!runtime) return complain(kUsage, runtime.failure().message);
  (*runtime)->torch_loader(core::open_torch_library);
  core::offer_workers({.program = core::executable_folder() / "kinora",
                       .plugin_dirs = globals.runtime.plugin_dirs,
                       .plugins_lock = globals.runtime.plugins_lock});
  const Arguments shared(all.begin(), all.end() - static_cast<ptrdiff_t>(arguments.size()));
  arguments.erase(arguments.begin());
  return command ? command(**runtime, arguments) : launch_command(**runtime, shared, arguments);
}

}  // namespace

int require_command(const std::string& name) {
  if (commands().contains(name)) return kDone;
  if (auto runtime = core::Runtime::start({}); runtime && (*runtime)->registry().find("job/" + name))
    return complain(kUsage, "'" + name + "' is not a command but a kind of job, [[job]] kind = \"" + name +
                                "\" in a run file; kinora plugins inspect job/" + name + " describes it");
  std::vector<std::string> names;
  for (const auto& [known, f] : commands()) names.push_back(known);
  return complain(kUsage,
                  "unknown command '" + name + "'" + core::did_you_mean(name, names) + "; see kinora --help");
}

// The command's exit code; every error is printed.
int run_and_report(const Arguments& arguments) {
  try {
    return run(arguments);
  } catch (const boost::program_options::error& e) {
    for (const char* flag : {"--plugins", "--plugins-lock", "--log"})
      if (std::string(e.what()).find("'" + std::string(flag) + "'") != std::string::npos)
        return complain(
            kUsage, std::string(flag) + " comes before the command: kinora " + flag + " VALUE COMMAND ...");
    return complain(kUsage, std::string(e.what()) + "; see --help");
  } catch (const Error& e) {
    return complain(e.code() == KINORA_ERROR_INVALID     ? kUsage
                    : e.code() == KINORA_ERROR_CANCELLED ? kInterrupted
                                                         : kFailed,
                    e.what());
  } catch (const std::exception& e) {
    return complain(kFailed, e.what());
  }
}

}  // namespace kinora

int main(int argc, char** argv) {
  const int code = kinora::run_and_report({argv + 1, argv + argc});
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return code;  // a sanitizer reports as the program exits
#else
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);  // without the destructors of libtorch's tables, which take 0.1 s
#endif
}
