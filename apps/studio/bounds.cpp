#include "apps/studio/bounds.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/studio/where.hpp"
#include "core/base/facts.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;

constexpr const char* kStage = "stage/";

void add_bounds(const json& component, size_t job, std::vector<StageBound>& out) {
  const std::string id = core::text_in(component, "id");
  const json& options = core::object_in(component, "options");
  if (core::text_in(component, "slot") != "stages" || !id.starts_with(kStage)) return;
  for (auto& bound : core::bounds_of_stage(id.substr(std::string(kStage).size()), options))
    out.push_back({{std::move(bound)}, job});
}

}  // namespace

std::vector<StageBound> bounds_of(const std::vector<JobFolder>& jobs) {
  std::vector<StageBound> out;
  for (size_t job = 0; job < jobs.size(); ++job) {
    const json about = core::object_in_file(jobs[job].path / "job.json");
    if (!about.contains("components") || !about["components"].is_array()) continue;
    for (const json& component : about["components"]) add_bounds(component, job, out);
  }
  return out;
}

namespace {

void add_conditions(const Catalogue& catalogue, size_t chooser, std::vector<StageBound>& out) {
  const Chooser& job = catalogue.choosers[chooser];
  for (auto& bound : core::bounds_of_where(job.where)) {
    bound.column = column_name(catalogue, bound.column);
    if (!bound.column.empty()) out.push_back({{std::move(bound)}, job.job, job.name, chooser});
  }
}

// Whether the clip is among those that the bound decides about now, and stays.
bool stays(const Clip& clip, const StageBound& bound) {
  return clip.end == End::kept &&
         (bound.select.empty() ||
          (clip.copy_rule.empty() &&
           std::ranges::none_of(clip.left_out, [&](const auto& by) { return by.by <= bound.chooser; })));
}

bool is_out_by(const Clip& clip, const StageBound& bound) {
  if (bound.select.empty()) return clip.end == End::filtered && clip.reason == bound.rule;
  return std::ranges::any_of(clip.left_out,
                             [&](const auto& by) { return by.by == bound.chooser && by.rule == bound.rule; });
}

}  // namespace

std::string StageBound::condition(double at) const {
  return fmt::format("{} {}{} {}", option, is_most ? "<" : ">", is_strict ? "" : "=", at);
}

std::vector<StageBound> bounds_of(const Catalogue& catalogue) {
  std::vector<StageBound> out;
  for (size_t chooser = 0; chooser < catalogue.choosers.size(); ++chooser)
    if (!catalogue.choosers[chooser].where.empty()) add_conditions(catalogue, chooser, out);
  return out;
}

Moved moved(const Catalogue& catalogue, const std::vector<StageBound>& bounds, const std::string& column,
            bool is_most, double value, const std::string& select,
            const std::function<bool(const Clip&)>& is_rejected) {
  Moved out;
  const auto values = catalogue.columns.find(column);
  if (values == catalogue.columns.end()) return out;
  for (StageBound bound : bounds) {
    if (!bound.moves_with(column, is_most, select)) continue;
    const StageBound before = bound;
    bound.value = value;
    for (size_t i = 0; i < catalogue.clips.size(); ++i) {
      const Clip& clip = catalogue.clips[i];
      const double its = values->second[i];
      if (clip.job != bound.job || clip.consumed || std::isnan(its)) continue;
      if (is_rejected && is_rejected(clip)) continue;
      out.gone += stays(clip, bound) && !bound.keeps(its);
      out.back += is_out_by(clip, bound) && !before.keeps(its) && bound.keeps(its);
    }
  }
  return out;
}

}  // namespace kinora::studio
