// kinora generate FILE.toml: generates a video with the networks of a run's generate job.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include <boost/program_options.hpp>
#include <fmt/ranges.h>

#include "apps/command/runner.hpp"
#include "apps/command/surroundings.hpp"
#include "apps/kinora/command.hpp"
#include "apps/kinora/video_comment.hpp"
#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/suggest.hpp"
#include "core/config/document.hpp"
#include "core/runtime/place.hpp"
#include "host/stages/one_stage.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;
using core::json;

constexpr const char* kGenerateHelp = R"(usage: kinora generate FILE.toml [options]
       kinora generate --pipeline FOLDER --prompt TEXT [options]

Generates a video with the networks of a run file's generate job and with other settings. Jobs that it reads
run first if they are not finished. The result is in the run's folder, under --name; the same settings find it
there again. With --pipeline no run file is needed: a published folder (model_index.json) gives every setting,
and --set OPTION=VALUE overrides one. The run's folder is runs/ and the name of FOLDER.

examples:
  kinora generate my.toml --prompt "a boat at sea" --seed 7
  kinora generate my.toml --prompt "it drives away" --image car.png --set video.guidance=4.0
  kinora generate my.toml --from runs/my/video/videos/000.mp4   the same video, from the settings stored in it
  kinora generate my.toml --from old.mp4 --seed 8               ... with one thing changed
  kinora generate my.toml --prompt "a long walk" --stream walk.mp4            ... watched while it is made
  kinora generate --pipeline Wan2.1-T2V-1.3B-Diffusers --from old.mp4        ... with the folder that made it
  kinora generate --pipeline Wan2.1-T2V-1.3B-Diffusers --prompt "a boat at sea" --set steps=30

)";

}  // namespace

Flags generate_flags() {
  using Strings = std::vector<std::string>;
  po::options_description out("options");
  out.add_options()("pipeline", po::value<std::string>()->value_name("FOLDER"),
                    "folder of a published pipeline, used instead of a run file")(
      "from", po::value<std::string>()->value_name("VIDEO"),
      "take the prompt and every setting of the job from this MP4, next to the FILE.toml or --pipeline "
      "FOLDER "
      "that made it; a warning names weights and plugins that differ here")(
      "prompt", po::value<Strings>()->composing()->value_name("TEXT"),
      "what to show, in place of the job's prompts or shots; if given several times, one video each")(
      "image", po::value<std::string>()->value_name("FILE"), "image for the first frame")(
      "video", po::value<std::string>()->value_name("FILE"), "video to continue or to change")(
      "stream", po::value<std::string>()->value_name("FILE"),
      "MP4 that plays while the video is made; - for standard output: ... --stream - | ffplay -")(
      "seed", po::value<int64_t>()->value_name("N"), "seed; another seed gives another video")(
      "set", po::value<Strings>()->composing()->value_name("a.b=v"),
      "override a value of the run file or an option of the job: JOB.OPTION=VALUE")(
      "job", po::value<std::string>()->value_name("JOB"), "generate job to use, if there are several")(
      "name", po::value<std::string>()->value_name("NAME"),
      "folder of the result inside the run's folder; default: derived from the settings")(
      "out", po::value<std::string>()->value_name("DIR"), "folder of the run; default: the file's")(
      "help,h", "this text");
  return out;
}

namespace {

// The settings that an MP4 written by Kinora stores in its comment.
core::VideoComment comment_of(core::Runtime& runtime, const std::string& file) {
  if (!fs::exists(file)) throw Error(KINORA_ERROR_NOT_FOUND, file + ": file not found");
  kinora::Sample sample("video");
  sample.set("url", fs::absolute(file).string());
  const core::OneStage probe(runtime, "video.probe", json::object());
  const kinora::Sample probed = probe(sample);
  return core::read_video_comment(
      file, core::text_in(core::parse_facts(probed.text("json").value_or("")), "comment"));
}

const core::JobSpec* job_of(const core::RunFile& run, const std::string& name) {
  const core::JobSpec* found = nullptr;
  std::vector<std::string> names;
  for (const auto& job : run.jobs) {
    if (job.kind->name != "generate") continue;
    names.push_back(job.name);
    if (name.empty() || job.name == name) found = &job;
  }
  if (names.empty())
    throw Error(KINORA_ERROR_INVALID, run.file.string() + ": the file has no job of kind generate");
  if (!name.empty() && !found)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("{}: no generate job is called '{}'{}; there are: {}", run.file.string(), name,
                            core::did_you_mean(name, names), fmt::join(names, ", ")));
  if (name.empty() && names.size() > 1)
    throw Error(KINORA_ERROR_INVALID,
                "there are several generate jobs; choose one with --job " + names.front());
  return found;
}

// The file's job that made the video; "" for a video generated with other settings.
std::string job_in(const core::RunFile& run, const core::VideoComment& about) {
  const auto is_it = [&](const core::JobSpec& job) { return job.name == about.job; };
  return std::any_of(run.jobs.begin(), run.jobs.end(), is_it) ? about.job : "";
}

// Parses K=V as TOML: numbers, lists and booleans as such, everything else as a string.
void set_option(json& options, const std::string& assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string::npos)
    throw Error(KINORA_ERROR_INVALID, "--set " + assignment + ": expected NAME=VALUE");
  core::Document document = core::or_throw(core::Document::parse("[job]\n", "--set"));
  core::or_throw(document.set("job." + assignment));
  options[assignment.substr(0, equals)] = document.root()["job"][assignment.substr(0, equals)];
}

// True for a set such as video.sampler={use="euler"}, which the run file has already applied.
bool replaces_slot(const core::JobSpec& job, const std::string& set) {
  const size_t at = job.name.size() + 1;
  return job.component(set.substr(at, set.find('=') - at)) != nullptr;
}

// The options of --set. A run of --pipeline has one job, called generate, whose options need no name before
// them.
std::vector<std::string> sets_in(const po::variables_map& given) {
  auto out = given.count("set") ? given["set"].as<std::vector<std::string>>() : std::vector<std::string>();
  for (auto& set : out)
    if (given.count("pipeline") && !set.starts_with("generate.") && !set.starts_with("run."))
      set = "generate." + set;
  return out;
}

// The run file for a call without one: a single generate job.
core::Result<core::Document> document_of(const po::variables_map& given) {
  const fs::path folder =
      (fs::absolute(given["pipeline"].as<std::string>()) / "").lexically_normal().parent_path();
  return core::Document::parse(
      fmt::format("[run]\nname = {0}\nout = {1}\n[[job]]\nkind = \"generate\"\npipeline = {2}\n",
                  json(folder.filename().string()).dump(), json("runs/" + folder.filename().string()).dump(),
                  json(folder.string()).dump()),
      "--pipeline");
}

// The file's generate job that the command line means; "" if it is not clear.
std::string name_in(const core::Document& document, const po::variables_map& given) {
  if (given.count("job")) return given["job"].as<std::string>();
  std::string name;
  const json none = json::array(), jobs = document.root().value("job", none);
  for (const auto& job : jobs.is_array() ? jobs : none) {
    if (!job.is_object() || job.value("kind", json()) != "generate") continue;
    const json called = job.value("name", json("generate"));
    if (!name.empty() || !called.is_string()) return "";
    name = called.get<std::string>();
  }
  return name;
}

// The run with the given picture and video in place of the job's: whether a pipeline takes them is found in reading it.
std::optional<core::RunFile> run_of(core::Runtime& runtime, const po::variables_map& given) {
  const bool has_file = given.count("file") != 0;
  const std::string file = has_file ? given["file"].as<std::string>() : "--pipeline";
  auto document = has_file ? core::Document::read(file) : document_of(given);
  auto sets = sets_in(given);
  const std::string name = document ? name_in(*document, given) : "";
  for (const char* path : {"image", "video"})
    if (given.count(path) && !name.empty())
      sets.push_back(fmt::format("{}.{}={}", name, path,
                                 json(fs::absolute(given[path].as<std::string>()).string()).dump()));
  return load_run(runtime, std::move(document), file, sets);
}

// The options of the job and of its sampler that the command line sets.
std::set<std::string> set_by_hand(const std::string& job, const po::variables_map& given) {
  std::set<std::string> out;
  for (const char* name : {"image", "video"})
    if (given.count(name)) out.insert(name);
  if (given.count("prompt")) out.insert("prompts_file");
  for (const auto& one : sets_in(given))
    if (one.starts_with(job + ".")) {
      const std::string rest = one.substr(job.size() + 1);
      out.insert(rest.substr(0, rest.find_first_of(".=")));
    }
  if (out.contains("steps")) out.insert("sampler");  // the sampler owns these options
  return out;
}

// --prompt takes the place of all that says what the file's job shows.
void set_prompts(const core::JobSpec& job, const po::variables_map& given, json& options) {
  if (!given.count("prompt")) return;
  for (const auto& one : sets_in(given))
    for (const char* other : {"prompts", "prompts_file", "shots"})
      if (one.starts_with(job.name + "." + other + "="))
        throw Error(KINORA_ERROR_INVALID, "--prompt and --set " + job.name + "." + other +
                                              " both say what to show; leave one of them out");
  if (!options.at("shots").empty())
    core::log_info("{}: --prompt takes the place of its {} shots; --set {}.frames=N sets the length", job.name,
                   options.at("shots").size(), job.name);
  options["prompts"] = given["prompt"].as<std::vector<std::string>>();
  options["prompts_file"] = "";
  options["shots"] = json::array();
}

core::JobSpec wished(core::Runtime& runtime, const core::RunFile& run, const po::variables_map& given) {
  core::VideoComment about;
  if (given.count("from")) about = comment_of(runtime, given["from"].as<std::string>());
  const auto asked = [&](const char* name, const std::string& otherwise = "") {
    return given.count(name) ? given[name].as<std::string>() : otherwise;
  };
  const core::JobSpec& of = *job_of(run, asked("job", job_in(run, about)));
  core::JobSpec job = of;
  if (given.count("from")) core::take_settings(runtime.registry(), about, set_by_hand(of.name, given), job);
  json options = job.options;
  set_prompts(of, given, options);
  for (const char* path : {"image", "video"})
    if (given.count(path)) options[path] = fs::absolute(asked(path)).string();
  if (given.count("seed")) options["seed"] = given["seed"].as<int64_t>();
  for (const auto& one : sets_in(given))  // again, because they override --from
    if (given.count("from") && one.starts_with(of.name + ".") &&
        one.find('.', of.name.size() + 1) > one.find('=') && !replaces_slot(of, one))
      set_option(options, one.substr(of.name.size() + 1));
  job.options = core::or_throw(core::Options::make(*job.kind, options, fs::current_path())).values();
  json decides = job.options;
  decides.erase("stream");
  std::string wishes = decides.dump();
  const std::string stream = asked("stream");  // the file's own is for its own video
  job.options["stream"] = stream.empty() || stream == "-" ? stream : fs::absolute(stream).string();
  for (const char* slot : {"model", "tokenizer", "precision", "sampler", "cache"})
    if (const auto* use = job.component(slot)) wishes += use->id + use->options.canonical();
  for (const size_t input : job.inputs) wishes += run.jobs[input].name;
  job.name = asked("name", "generated-" + core::sha256(wishes).substr(0, 8));
  return job;
}

// Returns why these arguments cannot be combined; "" if they can.
std::string usage_problem(const po::variables_map& given) {
  const std::string file = given.count("file") ? given["file"].as<std::string>() : "";
  if (given.count("file") && given.count("pipeline"))
    return "a run file (" + file +
           ") and --pipeline are both given; a run file names its own pipeline, so leave "
           "one of them out";
  if (fs::is_directory(file))
    return file + " is a folder; of a published pipeline: kinora generate --pipeline " + file +
           " --prompt \"...\"";
  for (const auto& prompt :
       given.count("prompt") ? given["prompt"].as<std::vector<std::string>>() : std::vector<std::string>())
    if (core::valid_utf8(prompt) != prompt)
      return "--prompt " + core::valid_utf8(prompt) +
             ": this is not UTF-8; set the terminal to UTF-8, or write the text into a file";
  std::error_code none;
  if (given.count("from") && given.count("stream") &&
      fs::equivalent(given["from"].as<std::string>(), given["stream"].as<std::string>(), none))
    return "--stream " + given["stream"].as<std::string>() +
           " is the file of --from, which would be overwritten; choose another file";
  if (given.count("file")) return "";
  if (!given.count("pipeline"))
    return given.count("from")
               ? "--from takes the settings of a video; give also the run file or the pipeline that made it: "
                 "kinora generate FILE.toml --from VIDEO, or kinora generate --pipeline FOLDER --from VIDEO"
               : "a run file or a pipeline is missing; kinora generate FILE.toml --prompt \"...\", or "
                 "kinora generate --pipeline FOLDER --prompt \"...\"";
  if (given.count("job")) return "--job chooses a job of a run file; leave it out with --pipeline";
  const auto sets = sets_in(given);
  const bool has_prompts = given.count("prompt") || given.count("from") ||
                           std::any_of(sets.begin(), sets.end(), [](const std::string& set) {
                             return set.starts_with("generate.prompts=") ||
                                    set.starts_with("generate.prompts_file=") ||
                                    set.starts_with("generate.shots=");
                           });
  return has_prompts ? "" : "a prompt is missing; add --prompt \"...\"";
}

// Writes the file of a video that was complete before to the stream. A file that is there is replaced whole; it must be
// a video of Kinora's, outside of the run's folder.
void stream_finished(core::Runtime& runtime, const fs::path& out, const std::string& name,
                     const std::string& stream) {
  const fs::path video = out / name / "videos/000.mp4";
  std::ifstream in(video, std::ios::binary);
  if (!in)
    throw Error(KINORA_ERROR_FAILED, fmt::format("{} is complete, without an MP4 to write to {}; another --name makes "
                                                 "the video again",
                                                 name, stream));
  core::log_info("{}: the video was complete before; its file is written to {}", name, stream);
  if (stream == "-") {
    if (!(std::cout << in.rdbuf() << std::flush))
      throw Error(KINORA_ERROR_IO, "the video cannot be written to standard output");
    return;
  }
  const auto within = fs::weakly_canonical(stream).lexically_relative(fs::weakly_canonical(out));
  if (!within.empty() && *within.begin() != "..")
    throw Error(KINORA_ERROR_INVALID, fmt::format("--stream {} is in the run's folder {}; choose a place outside of it",
                                                  stream, out.string()));
  const bool is_plain = !fs::exists(stream) || fs::is_regular_file(stream);  // else a pipe
  if (fs::is_regular_file(stream)) try {
      comment_of(runtime, stream);
    } catch (const Error&) {
      throw Error(KINORA_ERROR_INVALID,
                  "--stream " + stream + " exists and is no video of Kinora's; remove it, or choose another file");
    }
  const std::string part = is_plain ? stream + ".part" : stream;
  std::ofstream to(part, std::ios::binary);
  to << in.rdbuf();
  to.close();
  if (!to) {
    std::error_code ignored;
    if (is_plain) fs::remove(part, ignored);
    throw Error(KINORA_ERROR_IO, "the video cannot be written to " + stream);
  }
  if (is_plain) fs::rename(part, stream);
}

void say_results(const core::RunFile& run, const std::string& job) {
  for (const auto& entry : fs::directory_iterator(run.out / job / "videos"))
    if (entry.path().extension() != ".json") std::cout << entry.path().string() << "\n";
}

}  // namespace

int generate_command(core::Runtime& runtime, const Arguments& arguments) {
  const auto visible = generate_flags();
  po::options_description all;
  all.add(visible).add_options()("file", po::value<std::string>())("needs-finished", "for kinora serve");
  po::positional_options_description positional;
  positional.add("file", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  po::notify(given);
  if (given.count("help")) {
    std::cout << help_of(kGenerateHelp, visible);
    return kDone;
  }
  if (const std::string wrong = usage_problem(given); !wrong.empty())
    return complain(kUsage, "generate: " + wrong);
  auto run = run_of(runtime, given);
  if (!run) return kUsage;
  if (given.count("out")) run->out = fs::absolute(given["out"].as<std::string>()).lexically_normal();
  core::JobSpec job = wished(runtime, *run, given);
  for (const auto& other : run->jobs)
    if (other.name == job.name)
      return complain(kUsage, "generate: a job is already called '" + job.name + "'; choose another --name");
  const std::string name = job.name, stream = core::text_in(job.options, "stream");
  if (const auto status = core::check_job_name(name); !status)
    return complain(kUsage, "--name: " + status.failure().message);
  const bool streams_out = stream == "-";  // standard output is the video
  const bool was_there = fs::exists(run->out / name / "videos/000.json");
  run->jobs.push_back(std::move(job));
  if (!runtime.has_log_level()) core::or_throw(core::set_log_level(run->log_level));
  std::error_code error;
  fs::create_directories(run->out, error);
  if (error)
    return complain(kFailed, "cannot create the output folder " + run->out.string() + ": " + error.message() +
                                 "; choose another with --out");
  own_process();
  auto log = core::LogFile::open(run->out / "kinora.log");
  if (!log) return complain(kFailed, log.failure().message);
  RunOptions only;
  only.only = name;
  only.keeps_finished = only.is_trial = true;
  only.needs_finished = given.count("needs-finished") > 0;
  const auto result = run_jobs(runtime, *run, only);
  if (result.was_cancelled)
    return complain(kInterrupted, "interrupted; run the same command again to continue");
  if (!result.ok) return result.was_refused ? kUsage : kFailed;
  if (was_there && !stream.empty() && core::here().first()) stream_finished(runtime, run->out, name, stream);
  if (!streams_out) say_results(*run, name);
  return kDone;
}

}  // namespace kinora
