#include "answers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <nlohmann/json.hpp>

#include "kinora/json_nan.hpp"
#include "markup.hpp"

namespace kinora::endpoint {
namespace {

constexpr int kDeepest = 64;

[[noreturn]] void refuse(const std::string& why) { throw Error(KINORA_ERROR_DATA, why); }

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

// Returns a string, or the joined texts of a list of parts, of which some may be thoughts.
std::string content_text(const Json& content) {
  if (!content.is_array()) return text_of(content);
  std::string out;
  for (const auto& part : content) {
    const std::string type = text_of(at(part, {"type"}));
    if (type.empty() || type == "text" || type == "output_text") out += text_of(at(part, {"text"}));
  }
  return out;
}

int64_t count_of(const Json& json) {
  // More than any model reads or writes; prevents overflow of totals.
  constexpr uint64_t kMost = uint64_t{1} << 40;
  return json.is_number_unsigned() ? static_cast<int64_t>(std::min(json.get<uint64_t>(), kMost)) : 0;
}

std::string written_text(const Json& choice) {
  return said_to_reader(content_text(at(choice, {"message", "content"})));
}

// How an answer ended, by the words of OpenAI and of servers that pass on those of others.
enum class Ending { complete, cut, filtered, unknown };

Ending ending_of(const std::string& finish_reason) {
  const std::string reason = lower_case(finish_reason);
  const auto is = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* word) { return reason == word; });
  };
  if (is({"stop", "eos", "eos_token", "stop_sequence", "stop_token", "end_turn", "complete", "completed"}))
    return Ending::complete;
  if (is({"length", "max_tokens", "max_length", "model_length", "model_context_window_exceeded"}))
    return Ending::cut;
  if (is({"safety", "refusal", "recitation", "sensitive", "prohibited_content", "blocklist"}) ||
      reason.starts_with("content_filter"))
    return Ending::filtered;
  return Ending::unknown;
}

// The first choice of an answer that has one, else null.
const Json& first_choice(const Json& answer) {
  static const Json none;
  const Json& choices = at(answer, {"choices"});
  return choices.is_array() && !choices.empty() ? choices.front() : none;
}

// "finish_reason is \"error\": upstream overloaded"
std::string unfinished(const Json& choice) {
  const std::string reason = text_of(at(choice, {"finish_reason"}));
  std::string out = "the answer is not complete: its finish_reason is " +
                    (reason.empty() ? std::string("missing") : '"' + shown(reason, "") + '"');
  if (const auto error = error_in(choice)) out += ": " + error->words;
  return out;
}

Json parsed_strictly(std::string_view text) {
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

}  // namespace

Json parsed(std::string_view text) {
  Json out = parsed_strictly(text);
  if (!out.is_discarded()) return out;
  const std::string repaired = without_nan(text);
  return repaired.empty() ? out : parsed_strictly(repaired);
}

Chat chat_of(const Json& answer) {
  const Json& choice = first_choice(answer);
  if (choice.is_null()) refuse("the answer has no choices: " + shown(dump(answer), ""));
  const Ending ending = ending_of(text_of(at(choice, {"finish_reason"})));
  if (const auto refusal = text_of(at(choice, {"message", "refusal"})); !refusal.empty())
    refuse("the model refuses: " + shown(refusal, ""));
  if (ending == Ending::filtered) refuse("the server's content filter stopped the answer");
  if (ending == Ending::unknown) refuse(unfinished(choice));
  Chat out;
  out.text = written_text(choice);
  out.cut = ending == Ending::cut;
  if (out.text.empty())
    refuse(out.cut ? "the answer ended at max_tokens before it had any text; raise max_tokens"
                   : "the answer is empty; try another prompt or model");
  return out;
}

std::string worth_another_try(const Json& answer) {
  const Json& choice = first_choice(answer);
  if (choice.is_null() || !text_of(at(choice, {"message", "refusal"})).empty()) return "";
  const Ending ending = ending_of(text_of(at(choice, {"finish_reason"})));
  if (ending == Ending::unknown) return unfinished(choice);
  return ending == Ending::complete && written_text(choice).empty() ? "the answer has no text" : "";
}

std::optional<ReportedError> error_in(const Json& answer) {
  const Json& error = at(answer, {"error"});
  const bool is_empty = error.is_null() || error == "" || error == Json::object() || error == false;
  if (is_empty) return std::nullopt;
  const Json& message = at(error, {"message"});
  ReportedError out;
  out.words = shown(message.is_string() ? text_of(message)
                    : error.is_string() ? text_of(error)
                                        : dump(error),
                    "");
  const Json &code = at(error, {"code"}), &type = at(error, {"type"});
  const std::string digits = code.is_number_integer() ? std::to_string(code.get<int64_t>()) : text_of(code);
  if (digits.size() == 3 && (digits[0] == '4' || digits[0] == '5') &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    out.status = std::stol(digits);
  const std::string kind = lower_case(text_of(type) + " " + text_of(code));
  for (const char* word : {"invalid_request", "insufficient_quota", "authentication", "permission",
                           "context_length", "invalid_api_key", "content_policy"})
    out.is_of_request |= kind.find(word) != std::string::npos;
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

namespace {

constexpr size_t kShown = 200;  // characters
constexpr size_t kTelling = 6;  // characters of a key that identify it

bool part_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '*' || c == '.' ||
         c == '+' || c == '/' || c == '=';
}

// Hides every word that contains `piece`.
std::string hide(std::string text, std::string_view piece) {
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at)) {
    size_t begin = at, end = at + piece.size();
    while (begin > 0 && part_of_word(text[begin - 1])) --begin;
    while (end < text.size() && part_of_word(text[end])) ++end;
    text.replace(begin, end - begin, "[key]");
    at = begin + 5;
  }
  return text;
}

// Replaces bytes that are not UTF-8 by U+FFFD.
std::string valid(std::string_view text) {
  const std::string quoted =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

}  // namespace

std::string shown(std::string_view body, std::string_view key) {
  // Longer than the shown text, so that a key at its end is still complete.
  std::string text = valid(body.substr(0, 8 * kShown + key.size()));
  if (!key.empty()) text = hide(std::move(text), key.substr(0, std::min(kTelling, key.size())));
  std::string line;
  for (const char c : text) {
    const bool space = static_cast<unsigned char>(c) <= 0x20 || c == 0x7f;
    if (!space) line += c;
    if (space && !line.empty() && line.back() != ' ') line += ' ';
  }
  size_t end = 0, characters = 0;
  while (end < line.size() && characters < kShown) {
    ++end;
    while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) ++end;
    ++characters;
  }
  if (end < line.size()) line = line.substr(0, end) + "...";
  return line;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

Verdict verdict_of(const Json& json) {
  const auto wrong = [&](const char* what) {
    return Error(KINORA_ERROR_DATA, std::string("the answer's ") + what + ": " + shown(dump(json), ""));
  };
  if (!json.contains("keep") || !json["keep"].is_boolean()) throw wrong("keep is not true or false");
  Verdict out;
  out.keep = json["keep"].get<bool>();
  if (json.contains("reason") && json["reason"].is_string()) out.reason = json["reason"].get<std::string>();
  if (!json.contains("labels")) return out;
  if (!json["labels"].is_array()) throw wrong("labels are not a list");
  for (const auto& label : json["labels"]) {
    if (!label.is_string()) throw wrong("labels are not all words");
    out.labels.push_back(lower_case(label.get<std::string>()));
  }
  return out;
}

namespace {

constexpr size_t kMostRegions = 1024;  // computing the area takes quadratic time

// Length of the union of vertical extents of the boxes that span [left, right]. Boxes are sorted by top.
double height_between(const std::vector<Box>& boxes, double left, double right) {
  double sum = 0, reached = 0;
  for (const Box& b : boxes) {
    if (b.left > left || b.right < right) continue;
    sum += std::max(0.0, b.bottom - std::max(b.top, reached));
    reached = std::max(reached, b.bottom);
  }
  return sum;
}

}  // namespace

double covered(std::vector<Box> boxes) {
  std::vector<double> edges;
  for (Box& b : boxes) {
    b = {std::clamp(std::min(b.left, b.right), 0.0, 1.0), std::clamp(std::min(b.top, b.bottom), 0.0, 1.0),
         std::clamp(std::max(b.left, b.right), 0.0, 1.0), std::clamp(std::max(b.top, b.bottom), 0.0, 1.0)};
    edges.push_back(b.left);
    edges.push_back(b.right);
  }
  std::sort(edges.begin(), edges.end());
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.top < b.top; });
  double sum = 0;
  for (size_t i = 0; i + 1 < edges.size(); ++i)
    if (edges[i + 1] > edges[i])
      sum += (edges[i + 1] - edges[i]) * height_between(boxes, edges[i], edges[i + 1]);
  return sum;
}

TextRegions text_regions(const Json& json, double scale) {
  const auto wrong = [&] {
    return Error(KINORA_ERROR_DATA,
                 "the answer must be a list of regions, each with a text and a box of four numbers: " +
                     shown(dump(json), ""));
  };
  if (!json.contains("regions") || !json["regions"].is_array() || json["regions"].size() > kMostRegions)
    throw wrong();
  TextRegions out;
  std::vector<Box> boxes;
  for (const auto& region : json["regions"]) {
    if (!region.is_object() || !region.contains("box") || !region["box"].is_array() ||
        region["box"].size() != 4)
      throw wrong();
    std::array<double, 4> edges{};
    for (size_t i = 0; i < edges.size(); ++i) {
      if (!region["box"][i].is_number()) throw wrong();
      edges[i] = region["box"][i].get<double>() / scale;
    }
    boxes.push_back({edges[0], edges[1], edges[2], edges[3]});
    if (region.contains("text") && region["text"].is_string())
      out.texts.push_back(region["text"].get<std::string>());
  }
  out.share = covered(std::move(boxes));
  return out;
}

}  // namespace kinora::endpoint
