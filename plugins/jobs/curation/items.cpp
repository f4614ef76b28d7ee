#include "plugins/jobs/curation/items.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "host/stages/one_stage.hpp"

namespace kinora::core {
namespace {

json parse_field(const Sample& sample, const char* name) {
  const auto text = sample.text(name);
  if (!text) return json();
  json value = parse_facts(*text);
  return value.is_discarded() ? json() : value;
}

// Words of a file format, items.jsonl, which the report and the studio read.
const char* end_name(uint32_t end) {
  return end == KINORA_OUTCOME_KEPT ? "kept" : end == KINORA_OUTCOME_FILTERED ? "filtered" : "failed";
}

const char* status_name(int32_t status) {
  switch (status) {
    case KINORA_ERROR_INVALID:
      return "invalid";
    case KINORA_ERROR_NOT_FOUND:
      return "not found";
    case KINORA_ERROR_UNSUPPORTED:
      return "unsupported";
    case KINORA_ERROR_IO:
      return "io";
    case KINORA_ERROR_NO_MEMORY:
      return "no memory";
    case KINORA_ERROR_DATA:
      return "data";
    case KINORA_ERROR_TIMEOUT:
      return "timeout";
    default:
      return "failed";
  }
}

}  // namespace

json item_line(const Sample& sample, const kinora_outcome& outcome, const Lineage& lineage,
               const std::string& url) {
  json line{{"key", sample.key()}, {"end", end_name(outcome.end)}, {"consumed", outcome.consumed != 0}};
  if (outcome.stage) line["stage"] = outcome.stage;
  if (outcome.reason) line["reason"] = outcome.reason;
  if (outcome.end == KINORA_OUTCOME_FILTERED) line["score"] = outcome.score;
  if (outcome.end == KINORA_OUTCOME_FAILED) line["status"] = status_name(outcome.status);
  line["facts"] = parse_field(sample, "json");
  if (outcome.made && lineage.inputs.size() == 1) line["parent"] = lineage.inputs.front();
  if (outcome.made && lineage.inputs.size() > 1) line["parents"] = lineage.inputs;
  if (sample.text("shots.json")) line["shots"] = parse_field(sample, "shots.json");
  if (const auto damage = damage_of(sample); !damage.empty()) line["damaged"] = damage;
  if (!url.empty()) line["url"] = url;
  if (const auto caption = sample.text("txt")) line["caption"] = *caption;
  return line;
}

json unread_line(const Input& input, const std::string& rule, const std::string& reason, int32_t status) {
  json line{{"key", input.key},  {"end", rule.empty() ? "failed" : "filtered"}, {"consumed", false},
            {"stage", "ingest"}, {"reason", rule.empty() ? reason : rule},      {"facts", json::object()},
            {"url", input.url}};
  // A rule of the ingest, such as a copy of another video, has no measure: 1 says that it applies.
  if (!rule.empty()) line["score"] = 1.0;
  if (rule.empty()) line["status"] = status_name(status);
  if (!input.user.empty()) line["facts"]["user"] = input.user;
  if (input.caption) line["caption"] = *input.caption;
  return line;
}

double seconds_of(const json& line) {
  const json& shots = object_in(line, "shots");
  if (const double end = number_in(shots, "end_us"); end > 0)
    return end / 1e6;  // also correct for a variable frame rate
  if (const double fps = number_in(shots, "fps"); fps > 0) return number_in(shots, "frames") / fps;
  return number_in(object_in(line, "facts"), "duration_s");
}

void Totals::add(const json& line, bool made, const json& files) {
  const std::string end = text_in(line, "end");
  const bool filtered = end == "filtered";
  usage_.add(object_in(line, "facts"));
  Counts& counts = made ? clips_ : inputs_;
  ++(end == "kept" ? counts.kept : filtered ? counts.filtered : counts.failed);
  const std::string rule = filtered ? text_in(line, "reason") : "";
  if (filtered) ++rules_[rule];
  if (end == "failed") {
    const std::string file = std::filesystem::path(text_in(line, "url")).filename();
    first_failure_.try_emplace(
        made, Failure{made || file.empty() ? text_in(line, "key") : file, text_in(line, "reason")});
  }
  ++outcomes_[{made ? "clips" : "inputs", end, text_in(line, "stage"), rule}];
  // Seconds of clips are those of stored ones; seconds of videos are those of all inputs, whatever became of them.
  if (!made) {
    damaged_ += line.contains("damaged");
    video_seconds_ += seconds_of(line);
  } else if (!files.empty()) {
    clip_seconds_ += seconds_of(line);
  }
  for (const auto& [name, size] : files.items()) {
    ++files_;
    bytes_kept_ += size.get<uint64_t>();
  }
}

std::string Totals::first_failure(bool made) const {
  const auto it = first_failure_.find(made);
  return it == first_failure_.end() ? "" : it->second.reason;
}

std::string Totals::failures_text() const {
  if (first_failure_.empty()) return "";
  const auto& [made, first] = *first_failure_.begin();
  const std::string stated = first.name + ": ";  // many reasons begin with it
  const std::string why =
      first.reason.starts_with(stated) ? first.reason.substr(stated.size()) : first.reason;
  const int64_t others = inputs_.failed + clips_.failed - 1;
  const char* what_to_do = made         ? "run again with --retry-failed"
                           : others > 0 ? "replace them, or run again with --retry-failed"
                                        : "replace it, or run again with --retry-failed";
  return fmt::format("{} failed ({}){}; {}", first.name, why,
                     others > 0 ? fmt::format(", and {} more", others) : "", what_to_do);
}

json Totals::summary() const {
  json outcomes = {{"inputs", json::array()}, {"clips", json::array()}};
  for (const auto& [what, count] : outcomes_) {
    const auto& [kind, end, stage, rule] = what;
    json one{{"end", end}, {"count", count}};
    if (!stage.empty()) one["stage"] = stage;
    if (!rule.empty()) one["rule"] = rule;
    outcomes[kind].push_back(one);
  }
  json out = inputs_.json();
  out.update({{"inputs", inputs_.sum()},
              {"damaged", damaged_},
              {"clips", clips_.json()},
              {"rules", rules_},
              {"outcomes", outcomes},
              {"film_seconds", video_seconds_},
              {"clip_seconds", clip_seconds_},
              {"files_kept", files_},
              {"bytes_kept", bytes_kept_}});
  if (json used = usage_.sums(); !used.empty()) {
    out["usage"] = std::move(used);
    out["usage_of"] = "all runs of this job, cost in the currency of its prices";
  }
  return out;
}

}  // namespace kinora::core
