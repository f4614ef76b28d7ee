// Prompts: templates, and the body of a request to /chat/completions.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client.hpp"

namespace kinora::endpoint {

// A text with places for a caption and facts: "{caption}", "{duration_s}", "{caption_info.model}" (a member
// of a member); "{{" and "}}" stand for braces.
class Template {
 public:
  // Throws Error(KINORA_INVALID) that names the place of a brace without a partner.
  explicit Template(std::string_view text);
  // Throws Error(KINORA_DATA) that names a fact which is not there.
  std::string fill(std::string_view caption, const Json& facts) const;

 private:
  struct Piece {
    std::string text;
    bool is_name = false;
  };
  std::vector<Piece> pieces_;
};

// Members of a request but the pictures, which data_urls() gives when it is sent.
Json chat_request(const ChatOptions& options, const std::string& prompt,
                  const std::vector<std::string>& data_urls = {}, const std::string& detail = "auto");
// What a text takes in tokens, roughly: a guess for the rate limit until the first answer tells.
int64_t guess_tokens(const ChatOptions& options, const std::string& prompt, size_t pictures);

// A response_format that makes the answer follow `schema`, as OpenAI's structured outputs and vLLM take it.
Json schema_format(const char* name, Json schema);

}  // namespace kinora::endpoint
