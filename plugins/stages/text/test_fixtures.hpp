// Tokenizers of tests/data/oracle/text_*.json. In tests only.
#pragma once
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kinora/sample.hpp"
#include "tokenizer.hpp"

namespace kinora::text {

using Ids = std::vector<int64_t>;

inline Json oracle(const std::string& name) {
  std::ifstream in(std::string(KINORA_TEST_DATA) + "/oracle/" + name + ".json");
  EXPECT_TRUE(in) << name;
  return Json::parse(in);
}

inline Json fixture(const std::string& name) { return oracle("text_" + name); }

inline std::string bytes_of(const std::string& base64) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int n = 0;
  for (const char c : base64) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kLetters.find(c));
    if (n++ % 4) out += static_cast<char>(bits >> (6 - 2 * ((n - 1) % 4)));
  }
  return out;
}

inline std::unique_ptr<Tokenizer> tokenizer_of(const Json& f) {
  if (f.contains("model")) return read_sentencepiece(bytes_of(f["model"]), "t.model", {});
  return read_tokenizer_json(f["tokenizer"].dump(), "tokenizer.json");
}

inline Ids tensor(const Sample& s, const char* name) {
  const kinora_dl_tensor* t = s.tensor(name);
  if (!t || t->ndim != 1 || t->code != KINORA_DL_INT || t->bits != 64) return {-1};
  const auto* at = static_cast<const int64_t*>(t->data);
  return {at, at + t->shape[0]};
}

}  // namespace kinora::text
