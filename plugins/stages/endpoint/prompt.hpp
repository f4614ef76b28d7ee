// Prompt templates and request bodies for /chat/completions.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client.hpp"

namespace kinora::endpoint {

// A text with placeholders for a caption and facts: "{caption}", "{duration_s}", "{caption_info.model}" (a
// nested member); "{{" and "}}" are braces.
class Template {
 public:
  // Throws Error(KINORA_ERROR_INVALID) with the position of an unmatched brace.
  explicit Template(std::string_view text);
  // Throws Error(KINORA_ERROR_DATA) that names a missing fact.
  std::string fill(std::string_view caption, const Json& facts) const;

 private:
  struct Piece {
    std::string text;
    bool is_name = false;
  };
  std::vector<Piece> pieces_;
};

// Builds a request; data_urls() supplies the pictures when it is sent.
Json chat_request(const ChatOptions& options, const std::string& prompt,
                  const std::vector<std::string>& data_urls = {}, const std::string& detail = "auto");
// Rough number of tokens of a request: an estimate for the rate limit until the first answer.
int64_t guess_tokens(const ChatOptions& options, const std::string& prompt, size_t pictures);

// Sets the response_format of a request. form json_schema: the answer follows `schema`, as in OpenAI's structured
// outputs and vLLM; json_object: it is any object; none: it is not set.
void set_format(Json& request, const std::string& form, const char* name, const Json& schema);

}  // namespace kinora::endpoint
