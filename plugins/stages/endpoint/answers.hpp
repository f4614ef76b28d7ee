// What servers answer, as OpenAI's API reference has it and as servers that follow it loosely do.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "client.hpp"

namespace kinora::endpoint {

// Foreign JSON; discarded (is_discarded) if it is none, or nested deeper than any answer is: what walks such
// a value by recursion would run out of stack.
Json parsed(std::string_view text);

struct Chat {
  std::string text;
  bool cut = false;  // it ended at max_tokens
};

// The first choice's text; what a reasoning model thought aloud (<think>...</think> at its beginning) is left
// out. Throws Error(KINORA_DATA) for a refusal, an empty text and an answer of another shape.
Chat chat_of(const Json& answer);

// Of /embeddings with one input, scaled to length 1. Throws Error(KINORA_DATA) if it is none, is zero or not
// finite.
std::vector<float> embedding_of(const Json& answer);

// Whether an answer of this status says that the server has no model of this name, in the words of those that are known.
bool says_no_model(long status, std::string_view body, const std::string& model);

// Tokens as the answer counts them; 0 where it does not. `answered` is 1.
Usage usage_of(const Json& answer);

// The JSON object that a text is, or that stands in it: models put fences and words around it. Throws
// Error(KINORA_DATA).
Json object_in(std::string_view text);

}  // namespace kinora::endpoint
