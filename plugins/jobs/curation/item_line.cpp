#include "plugins/jobs/curation/item_line.hpp"

#include "core/base/facts.hpp"
#include "core/run/one_stage.hpp"

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

const char* status_name(int32_t status) {
  switch (status) {
    case KINORA_INVALID:
      return "invalid";
    case KINORA_NOT_FOUND:
      return "not found";
    case KINORA_UNSUPPORTED:
      return "unsupported";
    case KINORA_IO:
      return "io";
    case KINORA_NO_MEMORY:
      return "no memory";
    case KINORA_DATA:
      return "data";
    case KINORA_TIMEOUT:
      return "timeout";
    default:
      return "failed";
  }
}

}  // namespace

json item_line(const Sample& sample, const kinora_outcome& outcome, const Lineage& lineage, const std::string& url) {
  json line{{"key", sample.key()}, {"end", end_name(outcome.end)}, {"consumed", outcome.consumed != 0}};
  if (outcome.stage) line["stage"] = outcome.stage;
  if (outcome.reason) line["reason"] = outcome.reason;
  if (outcome.end == KINORA_FILTERED) line["score"] = outcome.score;
  if (outcome.end == KINORA_FAILED_AT) line["status"] = status_name(outcome.status);
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
  if (!rule.empty()) line["score"] = 1.0;
  if (rule.empty()) line["status"] = status_name(status);
  if (!input.user.empty()) line["facts"]["user"] = input.user;
  if (input.caption) line["caption"] = *input.caption;
  return line;
}

}  // namespace kinora::core
