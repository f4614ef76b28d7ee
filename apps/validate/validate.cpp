// kinora plugins validate: which checks run on which library, and what is printed.
#include "apps/validate/validate.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include <boost/program_options.hpp>

#include "apps/validate/child.hpp"
#include "apps/validate/plugins_parallel.hpp"
#include "core/base/suggest.hpp"
#include "core/plugin/host.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora {
namespace validate {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;
using core::json;

struct ValidateRequest {
  fs::path path;
  double timeout = 60;
  bool as_json = false, reproduce = false;
  uint64_t seed = 0;
  std::string input, at;
  std::vector<std::string> sets;
  std::vector<Check> checks;
};

// The libraries of a folder: all libNAME.so next to a plugin.toml below it. A plugin.toml without one is a
// plugin too, whose library is missing.
std::vector<fs::path> plugins_below(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    if (item.path().filename() != "plugin.toml") continue;
    const size_t before = out.size();
    for (const auto& beside : fs::directory_iterator(item.path().parent_path()))
      if (beside.path().extension() == ".so") out.push_back(beside.path());
    const fs::path home = item.path().parent_path();
    if (out.size() == before) out.push_back(home / ("lib" + home.filename().string() + ".so"));
  }
  std::sort(out.begin(), out.end());
  return out;
}

// "a,b" -> {a, b}. Throws Error for a name that no check has.
std::set<std::string> names_of(const std::string& list, const char* option) {
  std::vector<std::string> known;
  for (const auto& c : all_checks()) known.emplace_back(c.name);
  std::set<std::string> out;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string name = list.substr(at, end - at);
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(KINORA_ERROR_INVALID, fmt::format("{} {}: no check has this name{}", option, name,
                                                    core::did_you_mean_or_list(name, known, "checks")));
    out.insert(name);
    at = end + 1;
  }
  return out;
}

ValidateRequest asked_of(const Arguments& arguments) {
  Flags known = validate_flags();
  known.add_options()("path", po::value<std::string>()->required(), "");
  po::positional_options_description words;
  words.add("path", 1);
  po::variables_map v;
  po::store(po::command_line_parser(arguments).options(known).positional(words).run(), v);
  if (v.count("path") == 0)
    throw Error(KINORA_ERROR_INVALID,
                "plugins validate needs a FILE.so or a folder; see kinora plugins validate --help");
  const auto text = [&](const char* name) { return v[name].as<std::string>(); };
  ValidateRequest out{.path = fs::absolute(text("path")),
                      .timeout = v["timeout"].as<double>(),
                      .as_json = v.count("json") > 0,
                      .reproduce = v.count("reproduce") > 0,
                      .seed = v["seed"].as<uint64_t>(),
                      .input = text("input"),
                      .at = text("at")};
  if (!out.input.empty()) out.input = fs::absolute(out.input).string();
  if (v.count("set")) out.sets = v["set"].as<std::vector<std::string>>();
  if (!(out.timeout > 0)) throw Error(KINORA_ERROR_INVALID, "plugins validate: --timeout must be above 0 s");
  const auto included = names_of(text("include"), "--include"),
             excluded = names_of(text("exclude"), "--exclude");
  for (const auto& c : all_checks())
    if ((included.empty() || included.count(c.name)) && !excluded.count(c.name)) out.checks.push_back(c);
  return out;
}

// The command that repeats one check with the same seed.
std::string command_of(const ValidateRequest& asked, const fs::path& library, const char* check) {
  std::string out = "kinora plugins validate " + shell_quoted(library.string()) + " --include " + check +
                    " --seed " + std::to_string(asked.seed);
  for (const auto& set : asked.sets) out += " --set " + shell_quoted(set);
  if (!asked.input.empty()) out += " --input " + shell_quoted(asked.input);
  if (!asked.at.empty()) out += " --at " + shell_quoted(asked.at);
  return out;
}

// The results of one library, printed as they come.
class Report {
 public:
  Report(const ValidateRequest& asked, fs::path library) : asked_(asked), library_(std::move(library)) {}

  // Whether the check has passed or was skipped.
  bool add(const Check& check, const std::string& component, const Verdict& v) {
    const bool good = v.kind != Verdict::Kind::failed;
    good_ = good_ && good;
    json one = {{"check", check.name},
                {"ok", good},
                {"skipped", v.kind == Verdict::Kind::skipped},
                {"message", v.message}};
    if (!component.empty()) one["component"] = component;
    if (!component.empty() && !is_of_any_kind(check)) tried_[component] |= v.kind != Verdict::Kind::skipped;
    const std::string again = command_of(asked_, library_, check.name);
    if (!good && asked_.reproduce) one["reproduce"] = again;
    listed_.push_back(std::move(one));
    if (asked_.as_json) return good;
    std::cout << (v.kind == Verdict::Kind::ok ? "ok      "
                  : good                      ? "skipped "
                                              : "FAILED  ")
              << check.name << (component.empty() ? "" : " of " + component)
              << (v.message.empty() ? "" : ": " + v.message) << "\n";
    if (!good && asked_.reproduce) std::cout << "        " << again << "\n";
    std::cout.flush();
    return good;
  }
  // Names the components of which no check of their kind could be made: they may well do nothing.
  void end() {
    for (const auto& [component, tried] : tried_) {
      if (tried) continue;
      good_ = false;
      unproven_.push_back(component);
      if (!asked_.as_json)
        std::cout << "UNPROVEN " << component
                  << ": no check of its kind could be made; the skipped ones say what they need\n";
    }
  }
  bool is_good() const { return good_; }
  json as_json() {
    return {{"library", library_.string()},
            {"ok", good_},
            {"seed", asked_.seed},
            {"unproven", std::move(unproven_)},
            {"checks", std::move(listed_)}};
  }

 private:
  static bool is_of_any_kind(const Check& check) { return std::string_view(check.kinds) == kAnyKind; }

  const ValidateRequest& asked_;
  const fs::path library_;
  json listed_ = json::array(), unproven_ = json::array();
  std::map<std::string, bool> tried_;  // components that have checks of their kind: whether one was made
  bool good_ = true;
};

// Whether a check of the component needs libtorch.
bool has_tensors(const core::ComponentSpec& c) {
  static const std::set<std::string> kinds{"sampler",   "loss",  "optimizer", "model",     "tokenizer",
                                           "precision", "score", "cache",     "collective"};
  return kinds.count(c.kind) > 0;
}
bool has_tensors(const Subject& s) {
  return s.plugin && (s.plugin->tier != core::Tier::stable ||
                      std::any_of(s.plugin->components.begin(), s.plugin->components.end(),
                                  [](const auto& c) { return has_tensors(c); }));
}

fs::path recompute_of(const core::Registry& registry) {
  for (const auto& plugin : registry.plugins())
    if (plugin.state != core::PluginState::shadowed && plugin.spec.component("parallel/recompute"))
      return plugin.library;
  return {};
}

Report validated(const core::Registry& registry, const ValidateRequest& asked, const fs::path& library) {
  Report report(asked, library);
  Subject subject = subject_of(library);
  subject.seed = asked.seed;
  subject.sets = asked.sets;
  subject.input = asked.input;
  subject.at = asked.at;
  subject.plugins = plugins_in_use(registry);
  subject.recompute = recompute_of(registry);
  // Once, here: the checks' processes begin as copies of this one.
  const auto torch = has_tensors(subject) ? core::ensure_torch() : core::Status();
  bool is_open = true;  // no gate has closed
  for (const auto& check : asked.checks) {
    if (!is_open) break;
    if (check.of_library) {
      const bool passed = report.add(check, "", run_check(check, subject, nullptr, asked.timeout));
      is_open = passed || !check.is_gate;
      continue;
    }
    if (!subject.plugin) {  // --include leaves out the check that says why
      report.add(check, "",
                 {Verdict::Kind::failed,
                  library.string() + ": its manifest cannot be read; run the check 'manifest'"});
      break;
    }
    for (const auto& c : subject.plugin->components)
      if (check.is_for(c))
        report.add(check, c.id,
                   torch || !has_tensors(c) ? run_check(check, subject, &c, asked.timeout)
                                            : Verdict{Verdict::Kind::skipped, torch.failure().message});
  }
  if (is_open) report.end();
  return report;
}

void print_help() {
  std::cout << "usage: " << usage_of("kinora plugins validate FILE.so|FOLDER", validate_flags())
            << wrapped_prose(R"(

Proves a plugin, or every plugin below FOLDER. Each check runs in a process of its own, for at most S seconds
(default 60): a plugin that ends, crashes or hangs has failed that check alone. Exit code 1: a check failed,
or no check of a component's kind could be made.

  --seed       of the samples and tensors that the checks make (default 0)
  --reproduce  prints for each failure the command that repeats it
  --set        an option of every component that has it; --input: a video for stages, or the data of a source;
               --at: a folder where a storage may write

Checks, in this order, and the kinds of components that they are for:

)");
  for (const auto& c : all_checks())
    std::cout << fmt::format("  {:15} {}\n", c.name,
                             wrapped((*c.kinds ? std::string(c.kinds) + ": " : "") + c.what, 18, 18));
}

int command(const core::Registry& registry, const Arguments& arguments) {
  for (const auto& a : arguments)
    if (a == "--help" || a == "-h") {
      print_help();
      return kDone;
    }
  const ValidateRequest asked = asked_of(arguments);
  if (std::error_code none; !fs::exists(asked.path, none))
    return complain(kUsage, asked.path.string() + ": no such file or folder");
  const bool is_folder = fs::is_directory(asked.path);
  const auto libraries = is_folder ? plugins_below(asked.path) : std::vector<fs::path>{asked.path};
  if (libraries.empty())
    return complain(kUsage, asked.path.string() + ": no plugin.toml in it or below it, so no plugin");
  if (asked.checks.empty())
    return complain(kUsage, "plugins validate: --include and --exclude leave no check");
  bool all_good = true;
  json out = json::array();
  for (const auto& library : libraries) {
    if (is_folder && !asked.as_json) std::cout << library.string() << "\n";
    Report report = validated(registry, asked, library);
    all_good = all_good && report.is_good();
    out.push_back(report.as_json());
  }
  if (asked.as_json)
    std::cout << (is_folder ? out : out[0]).dump(2, ' ', false, json::error_handler_t::replace) << "\n";
  return all_good ? kDone : kFailed;
}

}  // namespace
}  // namespace validate

Flags validate_flags() {
  namespace po = boost::program_options;
  const auto text = [](const char* name) {
    return po::value<std::string>()->default_value("")->value_name(name);
  };
  Flags out;
  out.add_options()("include", text("CHECK,..."), "")("exclude", text("CHECK,..."), "")(
      "seed", po::value<uint64_t>()->default_value(0)->value_name("N"), "")("reproduce", "")(
      "set", po::value<std::vector<std::string>>()->composing()->value_name("NAME=VALUE"), "")(
      "input", text("PATH"), "")("at", text("PATH"), "")(
      "timeout", po::value<double>()->default_value(60)->value_name("S"), "")("json", "")("help", "");
  return out;
}

int plugins_validate(core::Runtime& runtime, const Arguments& arguments) {
  return validate::command(runtime.registry(), arguments);
}

}  // namespace kinora
