// kinora generate FILE.toml: a video by hand, with the networks of a run's generate job.
#include <filesystem>
#include <iostream>

#include <boost/program_options.hpp>

#include "apps/kinora/command.hpp"
#include "core/config/document.hpp"
#include "core/log.hpp"
#include "core/run/cancel.hpp"
#include "core/run/digest.hpp"
#include "core/run/one_stage.hpp"
#include "core/run/runner.hpp"
#include "core/suggest.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;
using core::json;

constexpr const char* kHelp = R"(usage: kinora generate FILE.toml [options]

Makes a video with the networks of a run file's generate job, and other wishes. What the job reads is made first if it is
not there yet. The result is in the run's folder, under --name; the same wishes again find it there.

examples:
  kinora generate my.toml --prompt "a boat at sea" --seed 7
  kinora generate my.toml --prompt "it drives away" --image car.png --set film.guidance=4.0
  kinora generate my.toml --from runs/my/film/videos/000.mp4           the same video again, by what it says of itself
  kinora generate my.toml --from old.mp4 --seed 8                      ... with one thing changed

)";

po::options_description flags() {
  using Strings = std::vector<std::string>;
  po::options_description out("options");
  out.add_options()("from", po::value<std::string>()->value_name("VIDEO"),
                    "take every setting from this MP4")(
      "prompt", po::value<Strings>()->composing()->value_name("TEXT"), "what to show; several: a video each")(
      "image", po::value<std::string>()->value_name("FILE"), "a picture that is the first frame")(
      "video", po::value<std::string>()->value_name("FILE"), "a video to continue or to change")(
      "seed", po::value<int64_t>()->value_name("N"), "another seed, another video")(
      "set", po::value<Strings>()->composing()->value_name("a.b=v"),
      "override a value of the run file, the job's own too: JOB.OPTION=VALUE")(
      "job", po::value<std::string>()->value_name("NAME"), "which generate job, where there are several")(
      "name", po::value<std::string>()->value_name("NAME"),
      "folder of the result in the run's; else one by the wishes")(
      "out", po::value<std::string>()->value_name("DIR"), "folder of the run, instead of the file's")(
      "help,h", "this text");
  return out;
}

// What an MP4 of ours says of itself.
json settings_of(core::Runtime& runtime, const std::string& file) {
  if (!fs::exists(file)) throw Error(KINORA_NOT_FOUND, file + ": there is no such file");
  kinora::Sample sample("video");
  sample.set("url", fs::absolute(file).string());
  const core::OneStage probe(runtime, "video.probe", json::object());
  const kinora::Sample probed = probe(sample);
  const json facts = json::parse(*probed.text("json"));
  const json about = json::parse(facts.value("comment", ""), nullptr, false);
  if (!about.is_object() || !about.contains("options") || !about.contains("job"))
    throw Error(KINORA_DATA, file + ": it does not say how it was made; only the MP4 of a generate job does");
  return about;
}

const core::JobSpec* job_of(const core::RunFile& run, const std::string& name) {
  const core::JobSpec* found = nullptr;
  std::vector<std::string> names;
  for (const auto& job : run.jobs) {
    if (job.kind->spec.name != "generate") continue;
    names.push_back(job.name);
    if (name.empty() || job.name == name) found = &job;
  }
  if (names.empty()) throw Error(KINORA_INVALID, run.file.string() + ": it has no job of kind generate");
  if (!name.empty() && !found)
    throw Error(KINORA_INVALID, "no generate job is called '" + name + "'" + core::did_you_mean(name, names));
  if (name.empty() && names.size() > 1)
    throw Error(KINORA_INVALID, "there are several generate jobs; choose one with --job " + names.front());
  return found;
}

// K=V in TOML's words: numbers, lists and truth values as such, everything else a text.
void set_option(json& options, const std::string& assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string::npos)
    throw Error(KINORA_INVALID, "--set " + assignment + ": expected NAME=VALUE");
  core::Document document = core::or_throw(core::Document::parse("[job]\n", "--set"));
  core::or_throw(document.set("job." + assignment));
  options[assignment.substr(0, equals)] = document.root()["job"][assignment.substr(0, equals)];
}

// A set such as film.sampler={use="euler"}, which the run file took already.
bool replaces_slot(const core::JobSpec& job, const std::string& set) {
  const size_t at = job.name.size() + 1;
  return job.component(set.substr(at, set.find('=') - at)) != nullptr;
}

void take_settings(core::Runtime& runtime, const json& about, bool own_sampler, core::JobSpec& job,
                   json& options) {
  options = about["options"];
  for (auto& use : job.components) {
    if (own_sampler || use.slot != "sampler" || !about.contains("sampler")) continue;
    use.id = about["sampler"];
    const auto* spec = core::or_throw(runtime.registry().find(use.id));
    use.options = core::or_throw(core::Options::make(*spec, about["sampler_options"]));
  }
}

std::vector<std::string> sets_in(const po::variables_map& given) {
  return given.count("set") ? given["set"].as<std::vector<std::string>>() : std::vector<std::string>();
}

core::JobSpec wished(core::Runtime& runtime, const core::RunFile& run, const po::variables_map& given) {
  const json about =
      given.count("from") ? settings_of(runtime, given["from"].as<std::string>()) : json::object();
  const auto asked = [&](const char* name, const std::string& otherwise = "") {
    return given.count(name) ? given[name].as<std::string>() : otherwise;
  };
  const core::JobSpec& of = *job_of(run, asked("job", about.value("job", "")));
  core::JobSpec job = of;
  json options = job.options;
  const auto sets = sets_in(given);
  const bool own_sampler = std::any_of(sets.begin(), sets.end(), [&](const std::string& one) {
    return one.starts_with(of.name + ".sampler");
  });
  job.made_with = about;
  if (!about.empty()) take_settings(runtime, about, own_sampler, job, options);
  if (given.count("prompt"))
    options["prompts"] = given["prompt"].as<std::vector<std::string>>(), options["prompts_file"] = "";
  for (const char* path : {"image", "video"})
    if (given.count(path)) options[path] = fs::absolute(asked(path)).string();
  if (given.count("seed")) options["seed"] = given["seed"].as<int64_t>();
  for (const auto& one : sets_in(given))  // again, over what --from says
    if (one.starts_with(of.name + ".") && one.find('.', of.name.size() + 1) > one.find('=') &&
        !replaces_slot(of, one))
      set_option(options, one.substr(of.name.size() + 1));
  job.options = core::or_throw(core::Options::make(job.kind->spec, options, fs::current_path())).values();
  const auto& sampler = *job.component("sampler");
  const std::string wishes = job.options.dump() + sampler.id + sampler.options.canonical();
  job.name = asked("name", "generated-" + core::sha256(wishes).substr(0, 8));
  return job;
}

void say_results(const core::RunFile& run, const std::string& job) {
  for (const auto& entry : fs::directory_iterator(run.out / job / "videos"))
    if (entry.path().extension() != ".json") std::cout << entry.path().string() << "\n";
}

}  // namespace

int generate_command(core::Runtime& runtime, const Arguments& arguments) {
  const auto visible = flags();
  po::options_description all;
  all.add(visible).add_options()("file", po::value<std::string>());
  po::positional_options_description positional;
  positional.add("file", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  po::notify(given);
  if (given.count("help")) {
    std::cout << kHelp << visible;
    return kDone;
  }
  if (!given.count("file"))
    return complain(kUsage, "generate: which run file? kinora generate FILE.toml --prompt \"...\"");
  auto run = load_run(runtime, given["file"].as<std::string>(), sets_in(given));
  if (!run) return kUsage;
  if (given.count("out")) run->out = fs::absolute(given["out"].as<std::string>()).lexically_normal();
  core::JobSpec job = wished(runtime, *run, given);
  for (const auto& other : run->jobs)
    if (other.name == job.name)
      return complain(kUsage, "generate: a job is already called '" + job.name + "'; choose another --name");
  const std::string name = job.name;
  run->jobs.push_back(std::move(job));
  if (!runtime.has_log_level()) core::or_throw(core::set_log_level(run->log_level));
  std::error_code error;
  fs::create_directories(run->out, error);
  if (error)
    return complain(kFailed, "cannot make the output folder " + run->out.string() + ": " + error.message() +
                                 "; choose another with --out");
  core::watch_signals();
  auto log = core::LogFile::open(run->out / "kinora.log");
  if (!log) return complain(kFailed, log.failure().message);
  core::RunOptions only;
  only.only = name;
  only.keeps_finished = only.is_trial = true;
  const auto result = core::run_jobs(runtime, *run, only);
  if (result.was_cancelled) return complain(kInterrupted, "interrupted; run the same command again to go on");
  if (!result.ok) return result.was_refused ? kUsage : kFailed;
  say_results(*run, name);
  return kDone;
}

}  // namespace kinora
