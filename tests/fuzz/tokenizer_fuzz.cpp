// Any bytes as a tokenizer.json and as a sentencepiece model: ids of a text, or an error that names the file.
#include <cstdlib>
#include <string>

#include "kinora/error.hpp"
#include "plugins/stages/text/tokenizer.hpp"

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
    } catch (const kinora::Error& e) {
      if (*e.what() == 0) std::abort();
    }
  }
  return 0;
}
