// The check of strategies: what `kinora plugins check-parallel` runs, on two ranks.
#include <algorithm>
#include <fstream>

#include "apps/kinora/plugins_parallel.hpp"
#include "apps/kinora/validate/check.hpp"
#include "core/base/status.hpp"
#include "core/plugin/host.hpp"

namespace kinora {
namespace strategy_checks_of {
namespace {

using core::json;

// The last line of the ranks' logs that is an error: the reason why they ended.
std::string error_of_ranks(const std::filesystem::path& logs, int ranks) {
  std::string out;
  for (int r = 0; r < ranks && out.empty(); ++r) {
    std::ifstream in(logs / ("rank-" + std::to_string(r) + ".log"));
    for (std::string line; std::getline(in, line);)
      if (line.find("error") != line.npos) out = line;
  }
  return out;
}

double largest(const json& found) {
  double worst = 0;
  for (const auto& trial : found.at("trials"))
    for (const auto& off : trial.value("worst", json::object()))
      if (off.is_number()) worst = std::max(worst, off.get<double>());
  return worst;
}

std::string check_equal(PluginTrial& t) {
  if (const auto torch = core::ensure_torch(); !torch) throw Skipped{torch.failure().message};
  const auto own = t.subject.library.parent_path();
  Comparison w{.id = t.spec.id, .plugins = {own}};
  for (const auto& folder : t.subject.plugins)
    if (folder != own) w.plugins.push_back(folder);
  for (const auto& set : t.subject.sets)
    if (t.spec.option(set.substr(0, set.find('=')))) w.sets.push_back(set);
  (void)t.options();  // Skipped if a required one is missing
  t.now("two ranks that train with it");
  int code = 0;
  const auto found = compared_on_ranks(w, t.folder, code);
  if (!found)
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("two ranks that train with it end with code {}: {}; repeat it with kinora plugins "
                    "check-parallel {}",
                    code, error_of_ranks(t.folder, w.ranks), t.spec.id));
  if (const auto wrong = difference_of(t.spec.id, *found); !wrong.empty())
    throw Error(KINORA_ERROR_FAILED, wrong);
  std::string why;
  for (const auto& trial : found->at("trials"))
    if (!trial.contains("skipped"))
      return fmt::format("differences up to {:.1g}", largest(*found));
    else
      why = trial.at("skipped");
  throw Skipped{why + "; give its options with --set NAME=VALUE"};
}

constexpr Check kChecks[] = {
    {"strategy", "parallel",
     "a training on two ranks equals one process in float64: plugins check-parallel with its trials", false,
     nullptr, check_equal}};

}  // namespace
}  // namespace strategy_checks_of

std::span<const Check> strategy_checks() { return strategy_checks_of::kChecks; }

}  // namespace kinora
