// The check of strategies: what `kinora plugins check-parallel` runs, on two ranks.
#include <algorithm>
#include <fstream>

#include "apps/validate/check.hpp"
#include "apps/validate/plugins_parallel.hpp"
#include "apps/validate/trial_link.hpp"
#include "apps/validate/trial_tensors.hpp"
#include "core/base/status.hpp"
#include "core/plugin/host.hpp"
#include "kinora/abi/parallel.h"

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

// The first of two ranks, for calls that end before any transfer.
class MeshOfTwo {
 public:
  MeshOfTwo() = default;
  MeshOfTwo(const MeshOfTwo&) = delete;
  MeshOfTwo& operator=(const MeshOfTwo&) = delete;
  const kinora_mesh* get() const { return &mesh_; }

 private:
  static constexpr int64_t kRanks[] = {0, 1};
  const kinora_group group_{sizeof(kinora_group),
                            0,
                            0,
                            2,
                            kRanks,
                            nullptr,
                            [](void*, const kinora_transfer*, void**) {
                              return set_error(KINORA_ERROR_FAILED, "the other rank does not exist");
                            },
                            [](void*, kinora_tensor*) -> int32_t { return KINORA_ERROR_FAILED; }};
  const kinora_mesh mesh_{sizeof(kinora_mesh),
                          0,
                          0,
                          2,
                          const_cast<kinora_group*>(&group_),
                          [](void* group, const char*, const kinora_group** out) -> int32_t {
                            *out = static_cast<const kinora_group*>(group);
                            return KINORA_OK;
                          }};
};

std::string check_unknown_needs(PluginTrial& t) {
  if (const auto torch = core::ensure_torch(); !torch) throw Skipped{torch.failure().message};
  const core::Options options = t.options();
  const MeshOfTwo mesh;
  const TrialInstance<kinora_parallel> strategy(t, options, mesh.get());
  const kinora_link* link = nullptr;
  require_ok([&] { return strategy.api.link(strategy.self, &link); }, "link()");
  if (!link && !strategy.api.step) throw Skipped{"it has no link and no step()"};
  if (link) require_needs_refused(link, normal(t.subject.seed, {1, 4, 2, 8}));
  const kinora_step none{.struct_size = sizeof none};
  const kinora_run run{.struct_size = sizeof run, .needs = kUnknownNeed};
  if (strategy.api.step)
    require_refused([&] { return strategy.api.step(strategy.self, &none, &run); },
                    "step() of a run with an unknown bit of `needs`");
  return "";
}

constexpr Check kChecks[] = {
    {"parallel-needs", "parallel", "its link and its step() refuse what needs what they do not know", false,
     nullptr, check_unknown_needs},
    {"strategy", "parallel",
     "a training on two ranks equals one process in float64: plugins check-parallel with its trials", false,
     nullptr, check_equal}};

}  // namespace
}  // namespace strategy_checks_of

std::span<const Check> strategy_checks() { return strategy_checks_of::kChecks; }

}  // namespace kinora
