#include "apps/validate/plugins_parallel.hpp"

#include <fstream>
#include <iostream>

#include <boost/program_options.hpp>

#include "apps/command/world.hpp"
#include "apps/validate/validate.hpp"
#include "core/io/atomic_file.hpp"
#include "core/plugin/service.hpp"
#include "core/runtime/place.hpp"
#include "core/runtime/runtime.hpp"
#include "plugins/jobs/equality/parallel_check.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;
using core::json;

constexpr double kBound = 1e-10;
constexpr const char* kColumns[] = {"output", "loss", "gradients", "inputs", "after AdamW"};

struct ParallelRequest : Comparison {
  bool as_json = false;
  std::string into;  // on a rank: file for the result
};

ParallelRequest asked_of(const Arguments& arguments) {
  using Texts = std::vector<std::string>;
  ParallelRequest out;
  Flags known = check_parallel_flags();
  known.add_options()("into", po::value<std::string>(&out.into), "")("id", po::value<std::string>(&out.id),
                                                                     "");
  po::positional_options_description words;
  words.add("id", 1);
  po::variables_map values;
  po::store(po::command_line_parser(arguments).options(known).positional(words).run(), values);
  po::notify(values);
  if (values.count("ranks")) out.ranks = values["ranks"].as<int>();
  if (values.count("timeout")) out.seconds = values["timeout"].as<double>();
  if (values.count("set")) out.sets = values["set"].as<Texts>();
  out.as_json = values.count("json") > 0;
  if (!out.id.empty() && out.id.find('/') == out.id.npos) out.id = "parallel/" + out.id;
  return out;
}

// The strategy as written in a job's `parallel`. JSON's numbers, strings and lists are valid TOML.
std::string use_of(const std::string& id, const std::vector<std::string>& sets) {
  std::string out = "{ use = '" + id.substr(id.find('/') + 1) + "'";
  for (const auto& text : sets) {
    const auto [name, value, plain] = parse_set(text);
    out += ", " + name + " = " + value.dump();
  }
  return out + " }";
}

// Runs one of the ranks; the first rank writes the result.
int as_rank(core::Runtime& runtime, const ParallelRequest& w) {
  const json found =
      core::service<core::ParallelCheck>(runtime.registry()).compare(runtime, use_of(w.id, w.sets), kBound);
  if (!core::here().first()) return kDone;
  const auto written = core::write_file_atomically(w.into, found.dump());
  return written ? kDone : complain(kFailed, written.failure().message);
}

// The same in a temporary folder, which is kept with the logs if a rank failed.
std::optional<json> launched(const Comparison& w, int& code) {
  std::string folder = (fs::temp_directory_path() / "kinora-check-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    throw Error(KINORA_ERROR_IO, folder + ": cannot be created; set TMPDIR to a writable folder");
  auto found = compared_on_ranks(w, folder, code);
  std::error_code ignored;
  if (found) fs::remove_all(folder, ignored);
  return found;
}

std::string shown(const json& worst, const char* column) {
  if (!worst.contains(column)) return "-";
  return worst[column].is_string() ? worst[column].get<std::string>()
                                   : fmt::format("{:.1e}", worst[column].get<double>());
}

void print(const std::string& id, const json& found) {
  std::string axes;
  for (const auto& [axis, size] : found["layout"].items())
    axes += fmt::format(" {}={}", axis, size.get<int64_t>());
  std::cout << fmt::format("{} on {} ranks ({}) against one process, float64; largest differences\n\n{:30}",
                           id, found["ranks"].get<int64_t>(), axes.empty() ? "no axis" : axes.substr(1), "");
  for (const char* column : kColumns) std::cout << fmt::format("{:>12}", column);
  std::cout << "\n";
  for (const auto& trial : found["trials"]) {
    std::cout << fmt::format("{:30}", trial["name"].get<std::string>());
    if (trial.contains("skipped"))
      std::cout << "  left out: " << trial["skipped"].get<std::string>();
    else
      for (const char* column : kColumns) std::cout << fmt::format("{:>12}", shown(trial["worst"], column));
    std::cout << "\n";
  }
}

}  // namespace

std::vector<fs::path> plugins_in_use(const core::Registry& registry) {
  std::vector<fs::path> out;
  for (const auto& plugin : registry.plugins())
    if (plugin.state != core::PluginState::shadowed) out.push_back(fs::absolute(plugin.folder));
  return out;
}

std::optional<json> compared_on_ranks(const Comparison& w, const fs::path& at, int& code) {
  const fs::path into = at / "found.json";
  WorldPlan plan{.size = w.ranks,
                 .arguments = {},
                 .logs = at,
                 .headline = "=== kinora plugins check-parallel " + w.id + " ===",
                 .rendezvous = "file://" + (at / "meeting").string(),
                 .timeout_ms = static_cast<int64_t>(w.seconds * 1e3)};
  for (const auto& folder : w.plugins)
    plan.arguments.insert(plan.arguments.end(), {"--plugins", folder.string()});
  plan.arguments.insert(plan.arguments.end(), {"--log", "warn", "plugins", "check-parallel", w.id});
  for (const auto& set : w.sets) plan.arguments.insert(plan.arguments.end(), {"--set", set});
  plan.arguments.insert(plan.arguments.end(), {"--into", into.string()});
  const Signals signals;
  code = run_world(plan, signals).code;
  if (code != kDone) return std::nullopt;
  std::ifstream in(into);
  return json::parse(in);
}

std::string difference_of(const std::string& id, const json& found) {
  for (const auto& trial : found.at("trials"))
    if (trial.contains("wrong"))
      return fmt::format("{}: {}: {} is off by {} of its largest number (bound {}), on rank {} first: {}", id,
                         trial["name"].get<std::string>(), trial["wrong"]["what"].get<std::string>(),
                         shown(trial["wrong"], "off"), kBound, trial["wrong"]["rank"].get<int64_t>(),
                         trial["wrong"]["rule"].get<std::string>());
  return "";
}

Flags check_parallel_flags() {
  Flags out;
  out.add_options()("ranks", po::value<int>()->value_name("N"), "")("timeout",
                                                                    po::value<double>()->value_name("S"), "")(
      "set", po::value<std::vector<std::string>>()->composing()->value_name("NAME=VALUE"), "")("json", "");
  return out;
}

int plugins_check_parallel(core::Runtime& runtime, const Arguments& arguments) {
  ParallelRequest w = asked_of(arguments);
  if (w.id.empty())
    return complain(kUsage, "plugins check-parallel needs one ID, for example parallel/cp-ulysses");
  const auto spec = runtime.registry().find(w.id);
  if (!spec) return complain(kUsage, spec.failure().message);
  if ((*spec)->kind != "parallel")
    return complain(kUsage, w.id + " is not a strategy; see kinora plugins list parallel");
  if (w.ranks < 1 || w.ranks > 64 || !(w.seconds > 0))
    return complain(kUsage, "plugins check-parallel: --ranks must be 1 to 64 and --timeout above 0");
  if (!w.into.empty()) return as_rank(runtime, w);
  w.plugins = plugins_in_use(runtime.registry());
  int code = kDone;
  const auto found = launched(w, code);
  if (!found) return code;
  if (w.as_json) {
    std::cout << found->dump() << "\n";
  } else {
    print(w.id, *found);
  }
  const std::string wrong = difference_of(w.id, *found);
  return wrong.empty() ? kDone : complain(kFailed, wrong);
}

}  // namespace kinora
