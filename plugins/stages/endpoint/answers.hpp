// Parses servers' answers, as OpenAI's API reference defines them and as servers that follow it loosely write
// them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client.hpp"

namespace kinora::endpoint {

// Parses untrusted JSON; the result is discarded (is_discarded) if the text is not JSON or is nested deeper
// than any answer, because code that walks such a value recursively would run out of stack. NaN and Infinity, which
// Python writes, are null.
Json parsed(std::string_view text);

struct Chat {
  std::string text;
  bool cut = false;  // the answer ended at max_tokens
};

// Returns what the first choice says to the reader (markup.hpp). Throws Error(KINORA_ERROR_DATA) for a
// refusal, an empty text, an answer of another shape, and one that the server does not say to be complete
// (finish_reason).
Chat chat_of(const Json& answer);

// Why a chat's answer cannot be used although the same request may give one that can: it has no text, or it ended
// neither by itself nor at a limit. "" if it can be used, and if it would be the same again.
std::string worth_another_try(const Json& answer);

// An error that a server reports with status 200.
struct ReportedError {
  std::string words;           // the server's
  long status = 0;             // the one that its code is; 0: it has none
  bool is_of_request = false;  // the same request would fail again
};
std::optional<ReportedError> error_in(const Json& answer);

// Returns the vector of an /embeddings answer for one input, scaled to norm 1. Throws
// Error(KINORA_ERROR_DATA) if there is none, or if it is zero or not finite.
std::vector<float> embedding_of(const Json& answer);

// Whether an answer with this status says, in the wording of a known server, that it has no such model.
bool says_no_model(long status, std::string_view body, const std::string& model);

// Returns the answer's token counts, 0 where it has none. `answered` is 1.
Usage usage_of(const Json& answer);

// Finds the JSON object in a text, since models put fences and words around it. Throws
// Error(KINORA_ERROR_DATA).
Json object_in(std::string_view text);

// Excerpt of a server's answer that is safe to show in an error.
// Returns the first 200 characters of `body` as one line of valid UTF-8. Hides the key, both whole and in the
// shortened form in which servers repeat a refused key ("sk-abcd****").
std::string shown(std::string_view body, std::string_view key);

// A model's verdict on whether to keep a clip.
struct Verdict {
  bool keep = false;
  std::string reason;
  std::vector<std::string> labels;  // in lower case
};

// Parses {"keep": bool, "reason": str, "labels": [str]}; the last two may be absent. Throws
// Error(KINORA_ERROR_DATA).
Verdict verdict_of(const Json& json);

// Lower-cases ASCII letters only.
std::string lower_case(std::string text);

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;  // in fractions of the picture
};

// Returns the share of the picture covered by the union of the boxes, 0 to 1; parts outside do not count.
double covered(std::vector<Box> boxes);

struct TextRegions {
  double share = 0;  // covered share of the picture
  std::vector<std::string> texts;
};

// Parses {"regions": [{"text": str, "box": [left, top, right, bottom]}]} with coordinates from 0 to `scale`.
// Throws Error(KINORA_ERROR_DATA), also for an implausible number of regions.
TextRegions text_regions(const Json& json, double scale);

}  // namespace kinora::endpoint
