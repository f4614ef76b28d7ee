#include "prompt.hpp"

namespace kinora::endpoint {
namespace {

constexpr int64_t kTokensOfAPicture =
    1000;  // tokens per frame of 512 x 512 pixels; models differ by a factor of four either way

std::string as_text(const Json& value) { return value.is_string() ? value.get<std::string>() : dump(value); }

// path: members separated by dots, "film_facts.fps".
const Json& fact(const Json& facts, const std::string& path) {
  const Json* here = &facts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const auto found = here->is_object() ? here->find(path.substr(begin, end - begin)) : here->end();
    if (!here->is_object() || found == here->end())
      throw Error(KINORA_ERROR_DATA, "the prompt uses {" + path + "}, but the sample has no such fact");
    here = &*found;
    begin = end + 1;
  }
  return *here;
}

}  // namespace

// Pieces alternate: text, name, text, ... The first and the last are texts, perhaps empty. {{ and }} are
// braces, as in Python's format().
Template::Template(std::string_view text) {
  pieces_.emplace_back();
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
      pieces_.back().text += c;
      ++i;
    } else if (c == '{') {
      const size_t end = text.find_first_of("{}", i + 1);
      if (end == std::string_view::npos || text[end] != '}' || end == i + 1)
        throw Error(KINORA_ERROR_INVALID, "prompt: the brace at character " + std::to_string(i + 1) +
                                              " does not begin a name; write {{ for a brace");
      pieces_.push_back({std::string(text.substr(i + 1, end - i - 1)), true});
      pieces_.emplace_back();
      i = end;
    } else if (c == '}') {
      throw Error(KINORA_ERROR_INVALID, "prompt: the brace at character " + std::to_string(i + 1) +
                                            " has no opening brace; write }} for a brace");
    } else {
      pieces_.back().text += c;
    }
  }
}

std::string Template::fill(std::string_view caption, const Json& facts) const {
  std::string out;
  for (const auto& piece : pieces_)
    if (!piece.is_name)
      out += piece.text;
    else if (piece.text == "caption")
      out += caption;
    else
      out += as_text(fact(facts, piece.text));
  return out;
}

Json chat_request(const ChatOptions& options, const std::string& prompt,
                  const std::vector<std::string>& data_urls, const std::string& detail) {
  Json messages = Json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  if (data_urls.empty()) {
    messages.push_back({{"role", "user"}, {"content", prompt}});
  } else {
    Json parts = Json::array();
    for (const auto& url : data_urls) {
      Json picture{{"url", url}};
      if (detail != "auto") picture["detail"] = detail;
      parts.push_back({{"type", "image_url"}, {"image_url", picture}});
    }
    parts.push_back({{"type", "text"}, {"text", prompt}});
    messages.push_back({{"role", "user"}, {"content", parts}});
  }
  Json out{{"model", options.model}, {"messages", messages}, {options.max_tokens_name, options.max_tokens}};
  if (options.temperature >= 0) out["temperature"] = options.temperature;
  if (options.seed >= 0) out["seed"] = options.seed;
  return out;
}

// Four bytes a token are usual for English; the answer counts with its longest length.
int64_t guess_tokens(const ChatOptions& options, const std::string& prompt, size_t pictures) {
  return static_cast<int64_t>((options.system.size() + prompt.size()) / 4) +
         kTokensOfAPicture * static_cast<int64_t>(pictures) + options.max_tokens;
}

void set_format(Json& request, const std::string& form, const char* name, const Json& schema) {
  if (form == "json_schema")
    request["response_format"] = {{"type", "json_schema"},
                                  {"json_schema", {{"name", name}, {"strict", true}, {"schema", schema}}}};
  if (form == "json_object") request["response_format"] = {{"type", "json_object"}};
}

}  // namespace kinora::endpoint
