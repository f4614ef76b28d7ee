// Any bytes as a server's answer: a text, a verdict, regions and a vector of valid values, or an error that
// gives the reason.
#include <cmath>
#include <cstdlib>

#include "answers.hpp"

namespace endpoint = kinora::endpoint;

namespace {

template <class F>
void try_to(F&& f) {
  try {
    f();
  } catch (const kinora::Error& e) {
    if (*e.what() == 0 || e.code() != KINORA_ERROR_DATA) std::abort();
    endpoint::Json(e.what()).dump();  // throws unless it is UTF-8
  }
}

void must(bool sound) {
  if (!sound) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string line = endpoint::shown(text, "sk-Abcdef0123");
  must(line.find_first_of("\r\n") == std::string::npos && line.size() <= 4 * 200 + 3 &&
       line.find("sk-Abc") == std::string::npos);
  const auto read = [](std::string_view answer) {
    try_to([&] { endpoint::verdict_of(endpoint::object_in(answer)); });
    try_to([&] {
      const auto regions = endpoint::text_regions(endpoint::object_in(answer), 1000);
      must(regions.share >= 0 && regions.share <= 1 + 1e-9);
    });
  };
  read(text);
  const auto answer = endpoint::parsed(text);
  if (answer.is_discarded()) return 0;
  const auto usage = endpoint::usage_of(answer);
  must(usage.prompt >= 0 && usage.completion >= 0);
  try_to([&] {
    const auto chat = endpoint::chat_of(answer);
    must(!chat.text.empty());
    read(chat.text);
  });
  try_to([&] {
    double square = 0;
    for (const float v : endpoint::embedding_of(answer)) square += static_cast<double>(v) * v;
    must(std::abs(square - 1) < 1e-4);
  });
  return 0;
}
