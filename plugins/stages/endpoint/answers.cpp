#include "answers.hpp"

#include <algorithm>
#include <cmath>

#include "error_text.hpp"
#include "verdict.hpp"

namespace kinora::endpoint {
namespace {

constexpr int kDeepest = 64;
constexpr std::string_view kSpace = " \t\r\n";

[[noreturn]] void refuse(const std::string& why) { throw Error(KINORA_DATA, why); }

// Returns a member by its path, or null.
const Json& at(const Json& json, std::initializer_list<const char*> path) {
  static const Json none;
  const Json* here = &json;
  for (const char* name : path) {
    if (!here->is_object()) return none;
    const auto found = here->find(name);
    if (found == here->end()) return none;
    here = &*found;
  }
  return *here;
}

std::string text_of(const Json& json) { return json.is_string() ? json.get<std::string>() : std::string(); }

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

// Returns a string, or the joined texts of a list of parts.
std::string content_text(const Json& content) {
  if (!content.is_array()) return text_of(content);
  std::string out;
  for (const auto& part : content) out += text_of(at(part, {"text"}));
  return out;
}

std::string without_thoughts(const std::string& text) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  if (!text.starts_with(kBegin)) return text;
  const size_t end = text.find(kEnd);
  return end == std::string::npos ? "" : trimmed(std::string_view(text).substr(end + kEnd.size()));
}

int64_t count_of(const Json& json) {
  // More than any model reads or writes; prevents overflow of totals.
  constexpr uint64_t kMost = uint64_t{1} << 40;
  return json.is_number_unsigned() ? static_cast<int64_t>(std::min(json.get<uint64_t>(), kMost)) : 0;
}

}  // namespace

Json parsed(std::string_view text) {
  struct TooDeep {};
  const auto watch = [](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) throw TooDeep();
    return true;
  };
  try {
    return Json::parse(text, watch, false);
  } catch (const TooDeep&) {
    return Json(Json::value_t::discarded);
  }
}

Chat chat_of(const Json& answer) {
  const Json& choices = at(answer, {"choices"});
  if (!choices.is_array() || choices.empty()) refuse("the answer has no choices: " + shown(dump(answer), ""));
  const Json& choice = choices.front();
  const std::string reason = text_of(at(choice, {"finish_reason"}));
  if (const auto refusal = text_of(at(choice, {"message", "refusal"})); !refusal.empty())
    refuse("the model refuses: " + shown(refusal, ""));
  if (reason == "content_filter") refuse("the server's content filter stopped the answer");
  Chat out;
  out.text = without_thoughts(trimmed(content_text(at(choice, {"message", "content"}))));
  out.cut = reason == "length";
  if (out.text.empty())
    refuse(out.cut ? "the answer ended at max_tokens before it had any text; raise max_tokens"
                   : "the answer is empty; try another prompt or model");
  return out;
}

std::vector<float> embedding_of(const Json& answer) {
  const Json& data = at(answer, {"data"});
  if (!data.is_array() || data.size() != 1)
    refuse("the answer does not have one embedding: " + shown(dump(answer), ""));
  const Json& values = at(data.front(), {"embedding"});
  if (!values.is_array() || values.empty())
    refuse("the embedding is not a list of numbers; the server must support encoding_format float");
  double square = 0;
  for (const auto& v : values) {
    if (!v.is_number()) refuse("the embedding is not a list of numbers");
    square += v.get<double>() * v.get<double>();
  }
  if (!(square > 0) || !std::isfinite(square)) refuse("the embedding is zero or not finite");
  std::vector<float> out;
  out.reserve(values.size());
  for (const auto& v : values) out.push_back(static_cast<float>(v.get<double>() / std::sqrt(square)));
  return out;
}

bool says_no_model(long status, std::string_view body, const std::string& model) {
  if (status != 400 && status != 404 && status != 422) return false;
  const std::string text = lower_case(std::string(body));
  const auto has = [&](const std::string& words) { return text.find(words) != std::string::npos; };
  // First OpenAI, DeepSeek, OpenRouter and Mistral; then vLLM and Ollama, which name the model.
  for (const char* words : {"model_not_found", "model not exist", "not a valid model", "invalid model:"})
    if (has(words)) return true;
  return has(lower_case(model)) && (has("does not exist") || has("not found"));
}

Usage usage_of(const Json& answer) {
  return {1, 0, count_of(at(answer, {"usage", "prompt_tokens"})),
          count_of(at(answer, {"usage", "completion_tokens"}))};
}

Json object_in(std::string_view text) {
  const size_t begin = text.find('{'), end = text.rfind('}');
  if (begin != std::string_view::npos && end != std::string_view::npos && end > begin) {
    Json out = parsed(text.substr(begin, end - begin + 1));
    if (out.is_object()) return out;
  }
  refuse("there is no JSON object in the answer: " + shown(text, ""));
}

}  // namespace kinora::endpoint
