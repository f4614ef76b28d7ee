#include "apps/studio/bounds.hpp"

#include <cmath>
#include <fstream>
#include <iterator>

#include "core/base/facts.hpp"
#include "core/plugin/manifest.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;

constexpr const char *kLeast = "at_least", *kMost = "at_most", *kStage = "stage/";

// Bounds whose options are not called at_least or at_most.
struct NamedBound {
  const char *stage, *option, *rule;
  bool is_most;
};
constexpr NamedBound kOtherNames[] = {{"filter.motion", "global_mean", "filter.motion", false},
                                      {"filter.motion", "patch_min", "filter.motion.patch_min", false},
                                      {"filter.ocr", "max_area", "filter.ocr", true}};

bool is_filtering(const std::string& stage, const json& options) {
  const std::string mode = core::text_in(options, "mode");
  return stage == "filter.letterbox" ? mode == "filter" : mode.empty() || mode == "on" || mode == "filter";
}

// Fills rule, column and side of an option "at_least", "p10_at_most", ...; false: the option does not bound anything.
bool name_bound(StageBound& bound, const json& options) {
  for (const auto& one : kOtherNames)
    if (bound.stage == one.stage && bound.option == one.option) {
      bound.rule = one.rule;
      bound.column = "scores." + bound.rule;
      bound.is_most = one.is_most;
      return true;
    }
  bound.is_most = bound.option.ends_with(kMost);
  if (!bound.is_most && !bound.option.ends_with(kLeast)) return false;
  std::string part =
      bound.option.substr(0, bound.option.size() - std::string(bound.is_most ? kMost : kLeast).size());
  if (part.ends_with('_')) part.pop_back();
  const std::string fact = bound.stage == "filter.facts" ? core::text_in(options, "fact") : "";
  bound.rule = bound.stage + (fact.empty() ? "" : "." + fact) + (part.empty() ? "" : "." + part);
  bound.column = fact.empty() ? "scores." + bound.rule : fact;
  return true;
}

void add_bounds(const json& component, size_t job, std::vector<StageBound>& out) {
  const std::string id = core::text_in(component, "id");
  const json& options = core::object_in(component, "options");
  if (core::text_in(component, "slot") != "stages" || !id.starts_with(kStage)) return;
  StageBound bound{job, id.substr(std::string(kStage).size()), {}, {}, {}, false, 0};
  if (!is_filtering(bound.stage, options)) return;
  for (const auto& [option, value] : options.items()) {
    bound.option = option;
    if (!value.is_number() || core::no_bound(value) || !name_bound(bound, options)) continue;
    bound.value = value.get<double>();
    out.push_back(bound);
  }
}

}  // namespace

std::vector<StageBound> bounds_of(const std::vector<JobFolder>& jobs) {
  std::vector<StageBound> out;
  for (size_t job = 0; job < jobs.size(); ++job) {
    std::ifstream in(jobs[job].path / "job.json", std::ios::binary);
    const json about = core::parse_facts(std::string(std::istreambuf_iterator<char>(in), {}));
    if (!about.is_object() || !about.contains("components") || !about["components"].is_array()) continue;
    for (const json& component : about["components"]) add_bounds(component, job, out);
  }
  return out;
}

Moved moved(const Catalogue& catalogue, const std::vector<StageBound>& bounds, const std::string& column,
            bool is_most, double value) {
  Moved out;
  const auto values = catalogue.columns.find(column);
  if (values == catalogue.columns.end()) return out;
  for (StageBound bound : bounds) {
    if (bound.column != column || bound.is_most != is_most) continue;
    const StageBound before = bound;
    bound.value = value;
    for (size_t i = 0; i < catalogue.clips.size(); ++i) {
      const Clip& clip = catalogue.clips[i];
      const double its = values->second[i];
      if (clip.job != bound.job || clip.consumed || std::isnan(its)) continue;
      out.gone += clip.end == End::kept && !bound.keeps(its);
      out.back +=
          clip.end == End::filtered && clip.reason == bound.rule && !before.keeps(its) && bound.keeps(its);
    }
  }
  return out;
}

}  // namespace kinora::studio
