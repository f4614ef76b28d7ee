#include "apps/studio/bounds.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "apps/studio/where.hpp"
#include "core/base/expression.hpp"
#include "core/base/facts.hpp"
#include "core/base/status.hpp"
#include "core/plugin/manifest.hpp"
#include "plugins/jobs/curation/where.hpp"

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
  StageBound bound{.job = job, .stage = id.substr(std::string(kStage).size())};
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

namespace {

// Fills option, side and value of a condition such as "blur >= 20"; false: it has another form.
bool read_condition(const std::string& text, StageBound& bound) {
  const size_t name_end = text.starts_with('`') ? text.find('`', 1) : 0;
  const size_t at = text.find_first_of("<>=!'\"([", name_end);
  if (at == text.npos || (text[at] != '<' && text[at] != '>')) return false;
  bound.option = text.substr(0, at);
  bound.option.erase(bound.option.find_last_not_of(" \t\r\n") + 1);
  bound.is_most = text[at] == '<';
  bound.is_strict = at + 1 >= text.size() || text[at + 1] != '=';
  const size_t from = text.find_first_not_of(" \t\r\n", at + (bound.is_strict ? 1 : 2));
  if (from == text.npos) return false;
  const char* end = text.data() + text.find_last_not_of(" \t\r\n") + 1;
  const auto [read, error] = std::from_chars(text.data() + from, end, bound.value);
  return error == std::errc() && read == end && std::isfinite(bound.value);
}

void add_conditions(const Catalogue& catalogue, size_t chooser, std::vector<StageBound>& out) {
  const Chooser& job = catalogue.choosers[chooser];
  const auto parsed = core::catching([&] { return core::Expression::parse(job.where).conditions(); });
  if (!parsed) return;
  const core::Where where(job.where);
  for (size_t i = 0; i < parsed->size(); ++i) {
    StageBound bound{.job = job.job, .rule = where.rules()[i], .select = job.name, .chooser = chooser};
    const auto facts = core::Expression::parse((*parsed)[i]).facts();
    if (facts.size() != 1 || !read_condition((*parsed)[i], bound)) continue;
    if (bound.option != core::fact_in_expression(facts.front())) continue;  // "not blur > 9"
    bound.column = column_name(catalogue, facts.front());
    if (!bound.column.empty()) out.push_back(std::move(bound));
  }
}

// Whether the clip is among those that the bound decides about now, and stays.
bool stays(const Clip& clip, const StageBound& bound) {
  return clip.end == End::kept && (bound.select.empty() || (clip.copy_rule.empty() && std::ranges::none_of(clip.left_out, [&](const auto& by) {
                                                              return by.by <= bound.chooser;
                                                            })));
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
            bool is_most, double value, const std::string& select) {
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
      out.gone += stays(clip, bound) && !bound.keeps(its);
      out.back += is_out_by(clip, bound) && !before.keeps(its) && bound.keeps(its);
    }
  }
  return out;
}

}  // namespace kinora::studio
