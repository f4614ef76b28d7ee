// Regular expressions of tokenizer.json, with PCRE2.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;

namespace kinora::text {

struct Span {
  size_t begin, end;
};

// [any-thread] after construction.
class Regex {
 public:
  // Compiles the pattern as Oniguruma reads it: \s, \w and \d are Unicode's. Throws an Error that names the
  // pattern and the position.
  explicit Regex(const std::string& pattern);
  // Returns the non-overlapping matches in valid UTF-8, left to right. Throws Error if a match takes too
  // long.
  std::vector<Span> find_all(std::string_view text) const;

 private:
  std::string pattern_;
  std::shared_ptr<pcre2_real_code_8> code_;
};

}  // namespace kinora::text
