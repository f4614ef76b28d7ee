#include "core/curate/item_line.hpp"

#include "core/curate/facts.hpp"
#include "core/run/stage_results.hpp"

namespace kinora::core {
namespace {

json parse_field(const Sample& sample, const char* name) {
  const auto text = sample.text(name);
  if (!text) return json();
  json value = parse_facts(*text);
  return value.is_discarded() ? json() : value;
}

const char* end_name(uint32_t end) {
  return end == KINORA_KEPT ? "kept" : end == KINORA_FILTERED ? "filtered" : "failed";
}

}  // namespace

json item_line(const Sample& sample, const kinora_outcome& outcome, const std::string& url) {
  json line{{"key", sample.key()}, {"end", end_name(outcome.end)}, {"consumed", outcome.consumed != 0}};
  if (outcome.stage) line["stage"] = outcome.stage;
  if (outcome.reason) line["reason"] = outcome.reason;
  if (outcome.end == KINORA_FILTERED) line["score"] = outcome.score;
  json& facts = line["facts"] = parse_field(sample, "json");
  if (outcome.made && facts.is_object())
    if (const auto film = facts.find("film"); film != facts.end() && film->is_string() && *film != "")
      line["parent"] = *film;
  if (sample.text("shots.json")) line["shots"] = parse_field(sample, "shots.json");
  if (const auto damage = damage_of(sample); !damage.empty()) line["damaged"] = damage;
  if (!url.empty()) line["url"] = url;
  if (const auto caption = sample.text("txt")) line["caption"] = *caption;
  return line;
}

json unread_line(const Input& input, const std::string& rule, const std::string& reason) {
  json line{{"key", input.key},
            {"end", rule.empty() ? "failed" : "filtered"},
            {"consumed", false},
            {"stage", "ingest"},
            {"reason", rule.empty() ? reason : rule},
            {"facts", json::object()},
            {"url", input.url}};
  if (!rule.empty()) line["score"] = 1.0;
  if (!input.user.empty()) line["facts"]["user"] = input.user;
  if (input.caption) line["caption"] = *input.caption;
  return line;
}

}  // namespace kinora::core
