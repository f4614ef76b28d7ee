// The command line: flags that all commands share, followed by one command.
#include <algorithm>
#include <iostream>
#include <string>

#include <boost/dll/shared_library.hpp>
#include <boost/program_options.hpp>

#include "apps/command/program.hpp"
#include "apps/kinora/command.hpp"
#include "apps/kinora/commands.hpp"
#include "apps/kinora/end_guard.hpp"
#include "core/base/paths.hpp"
#include "core/base/suggest.hpp"
#include "core/build_info.hpp"
#include "core/commit.hpp"
#include "core/runtime/runtime.hpp"
#include "host/workers/service.hpp"
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

constexpr const char* kQuickstart = "configs/quickstart.toml";

constexpr const char* kMainHelp = R"(Kinora: from raw video to a video foundation model, and back to video.

usage: kinora [--plugins DIR]... [--plugins-lock FILE] [--log LEVEL] COMMAND ...

@COMMANDS@

first steps:
  kinora curate FOLDER                       videos into good clips, shards and a report
  kinora run configs/quickstart.toml         turn a video into a trained model and a generated clip
  kinora plugins inspect sampler/edm-heun    show the inputs, outputs and options of a component
  kinora apply stage/shots.adaptive VIDEO --json    its cuts, by a detector that needs no weights
  kinora COMMAND --help                      more about a command, with examples

flags:
  --plugins DIR          folder to search for plugins first; repeatable; also KINORA_PLUGIN_PATH
  --plugins-lock FILE    open only the plugins in FILE; default: a plugins.lock next to the run file
  --log LEVEL            trace, debug, info (default), warn, error, off
  --version              versions of Kinora, of the libtorch it is built for, and of its FFmpeg
  --help                 this text

exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted
)";

std::string main_help() {
  std::string out = wrapped_prose(kMainHelp);
  constexpr std::string_view place = "@COMMANDS@\n";
  return out.replace(out.find(place), place.size(), commands_help());
}

// Removes the shared flags from the front; the rest is the command and its arguments.
int parse_flags(Arguments& arguments, core::RuntimeOptions& flags) {
  std::vector<std::string> names, with_values;
  for (const auto& flag : program_flags()) {
    names.push_back(flag.name);
    if (!flag.value.empty()) with_values.push_back(flag.name);
  }
  while (!arguments.empty() && arguments.front().rfind("--", 0) == 0) {
    std::string flag = arguments.front(), value;
    arguments.erase(arguments.begin());
    if (const auto equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    } else if (std::ranges::find(with_values, flag) == with_values.end()) {
      return complain(
          kUsage, "unknown flag '" + flag + "'" + core::did_you_mean(flag, names) + "; see kinora --help");
    } else if (arguments.empty()) {
      return complain(kUsage, flag + " needs a value");
    } else {
      value = arguments.front();
      arguments.erase(arguments.begin());
    }
    if (flag == "--plugins") flags.plugin_dirs.emplace_back(value);
    if (flag == "--plugins-lock") flags.plugins_lock = value;
    if (flag == "--log") flags.log_level = value;
  }
  return kDone;
}

int run(Arguments arguments) {
  if (arguments.empty() || arguments.front() == "--help" || arguments.front() == "-h" ||
      arguments.front() == "help") {
    std::cout << with_quickstart(main_help());
    return arguments.empty() ? kUsage : kDone;
  }
  if (arguments.front() == "--version" || arguments.front() == "version") {
    std::cout << version_text();
    return kDone;
  }
  core::RuntimeOptions flags;
  const Arguments all = arguments;
  if (const int code = parse_flags(arguments, flags)) return code;
  if (arguments.empty()) return complain(kUsage, "a command is missing; see kinora --help");
  if (arguments.front() == "worker") {  // internal
    auto runtime = core::Runtime::start(flags);
    if (!runtime) return complain(kUsage, runtime.failure().message);
    (*runtime)->torch_loader(core::open_torch_library);
    core::serve_worker(**runtime);  // the process that started it says how it ended
  }
  const EndGuard guard;
  if (const int code = require_command(arguments.front())) return code;
  const Command& command = *find_command(arguments.front());
  const auto runtime = start_runtime(flags);
  if (!runtime) return kUsage;
  const Arguments before(all.begin(), all.end() - static_cast<ptrdiff_t>(arguments.size()));
  arguments.erase(arguments.begin());
  return run_and_report(
      [&] {
        return command.run ? command.run(*runtime, arguments) : command.start(*runtime, before, arguments);
      },
      std::string("kinora ") + command.name + " --help");
}

}  // namespace

bool is_installed() {
  std::error_code none;
  return std::filesystem::exists(core::executable_folder() / "../share/kinora" / kQuickstart, none);
}

std::string with_quickstart(std::string text) {
  constexpr std::string_view name = kQuickstart;
  const auto share = (core::executable_folder() / "../share/kinora").lexically_normal();
  if (!is_installed()) return text;
  return text.replace(text.find(name), name.size(), (share / name).string());
}

int require_command(const std::string& name) {
  if (find_command(name)) return kDone;
  if (auto runtime = core::Runtime::start({}); runtime && (*runtime)->registry().find("job/" + name))
    return complain(kUsage, "'" + name + "' is not a command but a kind of job, [[job]] kind = \"" + name +
                                "\" in a run file; kinora plugins inspect job/" + name + " describes it");
  std::vector<std::string> names;
  for (const auto* command : commands()) names.emplace_back(command->name);
  return complain(kUsage,
                  "unknown command '" + name + "'" + core::did_you_mean(name, names) + "; see kinora --help");
}

}  // namespace kinora

int main(int argc, char** argv) {
  using namespace kinora;
  return end_with(run_and_report([&] { return run({argv + 1, argv + argc}); }));
}
