// kinora init FOLDER and kinora curate FOLDER
#include <fstream>
#include <iostream>

#include <boost/program_options.hpp>

#include "apps/kinora/command.hpp"
#include "apps/kinora/first_files.hpp"
#include "core/io/atomic_file.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr const char* kInitHelp = R"(usage: kinora init FOLDER [options]

Looks at a folder and writes the run file that fits what it holds, with comments:
  videos              clips, scores, the good ones without copies, shards, and a report
  shards, or a run    a tokenizer and a model that are trained on them
  a published model   videos of it (a folder with model_index.json)

examples:
  kinora init ~/videos                    writes videos.toml; then: kinora run videos.toml
  kinora init runs/videos                 writes videos-model.toml, a training on its shards
  kinora init runs/curate --out dit.toml

)";

constexpr const char* kCurateHelp = R"(usage: kinora curate FOLDER [options]

Makes a folder of videos into clips, chooses the good ones without copies, packs them into shards, and writes a
report; no model server is needed. The run file lies in the output folder, to be read and changed; the same command
goes on where it was interrupted.

examples:
  kinora curate ~/videos
  kinora curate ~/videos --studio
  kinora curate ~/videos --retry-failed
  kinora curate ~/videos --out runs/trip --set 'bounds.where="blur >= 40"'

)";

struct FolderArguments {
  fs::path folder;
  std::string name;  // of the run that makes its videos into clips
  po::variables_map given;
};

std::string name_of(const fs::path& folder) {
  std::string out;
  for (const char c : folder.filename().string())
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ? c : '-';
  return out.empty() || out[0] == '-' ? "run" + out : out;
}

// Nothing if --help was printed, or an exit code.
std::optional<FolderArguments> folder_arguments(const char* command, const char* help, const Flags& visible,
                                                const Arguments& arguments, int& code) {
  po::options_description all;
  all.add(visible).add_options()("folder", po::value<std::string>()->default_value(""));
  po::positional_options_description positional;
  positional.add("folder", 1);
  FolderArguments out;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), out.given);
  if (out.given.count("help")) {
    std::cout << help_of(help, visible);
    code = kDone;
    return std::nullopt;
  }
  const auto folder = out.given["folder"].as<std::string>();
  if (folder.empty()) {
    code = complain(kUsage, fmt::format("{0}: a folder is missing; kinora {0} FOLDER", command));
    return std::nullopt;
  }
  out.folder = fs::absolute(folder).lexically_normal();
  if (!out.folder.has_filename()) out.folder = out.folder.parent_path();
  out.name = name_of(out.folder);
  return out;
}

// The name of the new run. A training's name differs from that of the run it learns from, so that it writes to another
// folder.
std::string name_for(const FolderLook& look, const fs::path& folder) {
  if (look.holds == FolderLook::Holds::videos) return name_of(folder);
  std::error_code error;
  const bool is_job = fs::exists(folder / "job.json", error);
  return name_of(is_job ? folder.parent_path() : folder) +
         (look.holds == FolderLook::Holds::model ? "" : "-model");
}

// Lines that say what the folder holds and what to expect of it.
std::string found_text(const FolderLook& look) {
  std::string out = look.folder.string() + ": " + look.text() + "\n";
  if (const auto expected = expected_text(look); !expected.empty())
    out += "to expect on this machine: " + expected + "\n";
  if (look.has_many_rates())
    out += fmt::format(
        "{:.4g} to {:.4g} frames per second count as one rate in a training, so that some move too fast: "
        "a condition of the shard job packs clips of one rate: where = \"fps > 23 and fps < 26\" packs those "
        "of 24 and 25 alone\n",
        look.slowest, look.fastest);
  return out;
}

}  // namespace

Flags init_flags() {
  Flags out("options");
  out.add_options()(
      "out", po::value<std::string>()->value_name("FILE"),
      "the run file; default: the name of the folder with .toml, of a run or shards with -model.toml, here")(
      "force", "replace a file that is there")("help,h", "this text");
  return out;
}

int init_command(core::Runtime& runtime, const Arguments& arguments) {
  int code = kDone;
  const auto asked = folder_arguments("init", kInitHelp, init_flags(), arguments, code);
  if (!asked) return code;
  const FolderLook look = look_at(runtime, asked->folder);
  const std::string name = name_for(look, asked->folder);
  const std::string file = asked->given.count("out") ? asked->given["out"].as<std::string>() : name + ".toml";
  std::error_code error;
  if (fs::exists(file, error) && !asked->given.count("force"))
    return complain(kUsage, file + ": the file is there; give another with --out, or --force to replace it");
  core::or_throw(core::write_file_atomically(file, run_file_for(look, name, file)));
  std::cout << found_text(look) << "wrote " << file << "; next: kinora run " << shell_word(file) << "\n";
  return kDone;
}

Flags curate_flags() {
  Flags out("options");
  out.add_options()("out", po::value<std::string>()->value_name("DIR"),
                    "output folder; default: runs/ and the folder's name")(
      "set", po::value<std::vector<std::string>>()->composing()->value_name("a.b=v"),
      "override a value of the run file, as for `run`")("retry-failed",
                                                        "retry the videos and clips that failed")(
      "studio", "open the studio beside it, which shows the clips while they are made")("help,h",
                                                                                        "this text");
  return out;
}

int curate_command(core::Runtime& runtime, const Arguments& arguments) {
  int code = kDone;
  const auto asked = folder_arguments("curate", kCurateHelp, curate_flags(), arguments, code);
  if (!asked) return code;
  const fs::path out =
      fs::absolute(asked->given.count("out") ? asked->given["out"].as<std::string>() : "runs/" + asked->name)
          .lexically_normal();
  const std::string file = (out / "curate.toml").string();
  std::error_code error;
  if (fs::exists(file, error)) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    if (text.str().find(nlohmann::json(asked->folder.string()).dump()) == std::string::npos)
      return complain(kUsage, file + " is of another folder; choose an output folder with --out");
    std::cout << asked->folder.string() << ": by the run file " << file << ", which is there" << std::endl;
  } else {
    const FolderLook look = look_at(runtime, asked->folder);
    if (look.holds != FolderLook::Holds::videos)
      return complain(kUsage, asked->folder.string() + ": " + look.text() +
                                  ", and no videos; kinora init writes a run file for it");
    fs::create_directories(out);
    core::or_throw(core::write_file_atomically(file, run_file_for(look, asked->name, file)));
    std::cout << found_text(look) << "the run file is " << file << std::endl;
  }
  Arguments run{file, "--out", out.string()};
  if (asked->given.count("set"))
    for (const auto& one : asked->given["set"].as<std::vector<std::string>>()) {
      run.push_back("--set");
      run.push_back(one);
    }
  for (const char* flag : {"studio", "retry-failed"})
    if (asked->given.count(flag)) run.push_back(std::string("--") + flag);
  return run_command(runtime, run);
}

}  // namespace kinora
