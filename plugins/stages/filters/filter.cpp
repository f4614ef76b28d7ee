#include "filter.hpp"

#include <algorithm>
#include <numeric>

namespace kinora::filters {

using nlohmann::json;

double reduce(const std::vector<double>& values, const std::string& how) {
  if (how == "min") return *std::min_element(values.begin(), values.end());
  if (how == "max") return *std::max_element(values.begin(), values.end());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

json facts_of(const Sample& sample) {
  const auto text = sample.text("json");
  if (!text) return json::object();
  auto facts = json::parse(*text, nullptr, false);
  if (!facts.is_object())
    throw Error(KINORA_DATA, "sample '" + std::string(sample.key()) + "': its json field is not a JSON object");
  return facts;
}

void note_score(json& facts, const Sample& sample, const std::string& rule, double score) {
  json& scores = facts["scores"];
  if (scores.is_null()) scores = json::object();
  if (!scores.is_object())
    throw Error(KINORA_DATA, "sample '" + std::string(sample.key()) +
                                 "': the fact scores is not a JSON object; rename the fact of that name in the manifest");
  scores[rule] = score;
}

void leave(Sample in, const json& facts, const Emit& emit, const std::string& rule, double score, bool keep) {
  in.set("json", facts.dump(-1, ' ', false, json::error_handler_t::replace));
  if (keep) return emit(std::move(in));
  emit.drop(std::move(in), rule.c_str(), score);
}

void judge(Sample in, const Emit& emit, const std::string& rule, double score, double low, double high,
           const std::string& mode) {
  json facts = facts_of(in);
  note_score(facts, in, rule, score);
  leave(std::move(in), facts, emit, rule, score, mode == "score" || (score >= low && score <= high));
}

}  // namespace kinora::filters
