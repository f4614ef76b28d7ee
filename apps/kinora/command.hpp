// The commands of the program.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command/command_line.hpp"
#include "apps/command/flags.hpp"
#include "apps/command/runner.hpp"
#include "core/run/run_file.hpp"
#include "core/run/source_instance.hpp"
#include "core/runtime/runtime.hpp"
#include "host/apply/apply.hpp"
#include "kinora/sample.hpp"

namespace kinora {

// The text with the path of quickstart.toml, where it is installed, in place of configs/quickstart.toml.
std::string with_quickstart(std::string text);

// Whether this program is one of an installation, not of a source tree.
bool is_installed();

// kDone if there is a command of this name, else prints a message and returns its code.
int require_command(const std::string& name);

// Parses the arguments of `run` into a file and options; fails as load_run does.
struct RunRequest {
  core::RunFile file;
  RunOptions options;
};
std::optional<RunRequest> run_request(core::Runtime&, const Arguments& of_run);

// Flags of the commands, with --help.
Flags run_flags();
Flags init_flags();
Flags curate_flags();
Flags launch_flags();
Flags check_flags();
Flags generate_flags();
Flags search_flags();
Flags apply_flags();
Flags inspect_flags();
Flags convert_flags();
Flags plan_flags();
Flags studio_flags();
Flags serve_flags();
Flags bench_flags();
Flags completion_flags();
Flags order_flags();  // of `data order`
Flags new_flags();    // of `plugins new`

int run_command(core::Runtime&, const Arguments&);
int init_command(core::Runtime&, const Arguments&);
int curate_command(core::Runtime&, const Arguments&);
int check_command(core::Runtime&, const Arguments&);
int apply_command(core::Runtime&, const Arguments&);
int convert_command(core::Runtime&, const Arguments&);
int inspect_command(core::Runtime&, const Arguments&);
int generate_command(core::Runtime&, const Arguments&);
int search_command(core::Runtime&, const Arguments&);
// flags: those before the command, which the programs that it starts get too.
int launch_command(core::Runtime&, const Arguments& flags, const Arguments&);
int bench_command(core::Runtime&, const Arguments& flags, const Arguments&);
int plan_command(core::Runtime&, const Arguments&);
int studio_command(core::Runtime&, const Arguments&);
int serve_command(core::Runtime&, const Arguments&);
int completion_command(core::Runtime&, const Arguments&);

// The program kinora-bench is next to this one.
bool has_bench();
inline constexpr std::string_view kBench = "bench";

// kinora data PART, and its part `order`, which has its own flags.
int data_command(core::Runtime&, const Arguments&);
int data_order(core::Runtime&, const Arguments&);

// kinora plugins SUBCOMMAND, and its subcommands, each with its own flags.
int plugins_command(core::Runtime& runtime, std::vector<std::string> arguments);
int plugins_list(core::Runtime&, const Arguments&);
int plugins_inspect(core::Runtime&, const Arguments&);
int plugins_new(core::Runtime&, const Arguments&);
int plugins_lock(core::Runtime&, const Arguments&);

// `kinora apply` of a stage: one file in, the samples that the stage makes of it out. request.out: a folder
// for the samples' fields; empty: none are written. Throws Error.
core::ApplyResult apply_stage(core::Runtime&, const core::ApplyRequest& request);

// Whether the component is a score whose only required input is `video`, so that a video file can be applied to it.
bool takes_video(const core::ComponentSpec&);
// `kinora apply` of such a score to the video file request.input. Throws Error.
core::ApplyResult apply_to_video(core::Runtime&, core::ApplyRequest);

// `kinora apply` of a source: its samples, with the sizes of their fields.
struct SourceRequest {
  core::SourcePart part;
  uint64_t limit = 0;           // most samples; 0: all
  std::filesystem::path state;  // position that the samples come after, if the file exists; gets the new one
};
// Throws Error.
core::ApplyResult apply_source(core::Runtime&, const core::ApplyRequest&, const SourceRequest&);

// Writes the sample's fields but `url` to FOLDER/KEY.FIELD. Throws Error.
void write_fields(const std::filesystem::path& folder, const Sample&);

}  // namespace kinora
