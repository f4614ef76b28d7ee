// Any bytes as a tokenizer.json and as a sentencepiece model: ids of a text, the text of any ids, or an error that
// names the file.
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "kinora/error.hpp"
#include "plugins/stages/text/tokenizer.hpp"
#include "plugins/stages/text/unicode.hpp"

namespace {

// Ids of the input's bytes, and some that no tokenizer has: valid UTF-8, the same in two runs, or an error.
void decode(const kinora::text::Tokenizer& tokenizer, std::string_view bytes) {
  using kinora::text::Unfinished;
  std::vector<int64_t> ids;
  const auto decoder = tokenizer.decoder();
  for (const char c : bytes.substr(bytes.size() / 2, 64)) ids.push_back(static_cast<unsigned char>(c) % 16);
  Unfinished all, runs;
  for (const int64_t id : {INT64_MIN, int64_t{-1}}) {
    bool is_refused = false;
    try {
      decoder->decode(std::span(&id, 1), false, true, all = {});
    } catch (const kinora::Error&) {
      is_refused = true;
    }
    if (!is_refused) std::abort();
  }
  all = {};
  const std::string text = decoder->decode(ids, false, true, all);
  if (text != kinora::text::valid_utf8(text)) std::abort();
  const std::span<const int64_t> those(ids);
  const std::string first = decoder->decode(those.first(ids.size() / 2), false, false, runs);
  if (runs.bytes.size() > 3) std::abort();
  if (first + decoder->decode(those.subspan(ids.size() / 2), false, true, runs) != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora::text;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string text =
      "Cafe\u0301 \u4e2d\u6587 <mask> don't 12,\t\U0001F642 " + std::string(bytes.substr(0, 64));
  for (const bool json : {true, false}) {
    try {
      const auto tokenizer =
          json ? read_tokenizer_json(bytes, "input") : read_sentencepiece(bytes, "input", {});
      try {
        if (tokenizer->encode(text, 16).size() > 16 + size) std::abort();
      } catch (const kinora::Error& e) {
        if (*e.what() == 0) std::abort();
      }
      decode(*tokenizer, bytes);
    } catch (const kinora::Error& e) {
      if (*e.what() == 0) std::abort();
    }
  }
  return 0;
}
