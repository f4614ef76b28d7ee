#include "core/plugin/tensor_rules.hpp"

#include <cctype>

namespace kinora::core {
namespace {

// Recursive descent; each function takes its part of the text, or returns false.
class Shape {
 public:
  explicit Shape(std::string_view text) : rest_(text) {}

  bool is_valid() { return alternatives(&Shape::list) && peek() == '\0' && rest_.empty(); }

 private:
  static constexpr int kDeepest = 16;  // parentheses

  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  char peek() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool take(std::string_view text) {
    peek();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  std::string_view word() {
    peek();
    size_t n = 0;
    while (n < rest_.size() && is_word(rest_[n])) ++n;
    return rest_.substr(0, n);
  }

  bool alternatives(bool (Shape::*one)()) {
    if (!(this->*one)()) return false;
    while (word() == "or")
      if (!take("or") || !(this->*one)()) return false;
    return true;
  }
  bool list() {
    if (!take("[")) return false;
    if (take("]")) return true;
    do
      if (!axis()) return false;
    while (take(","));
    return take("]");
  }
  bool axis() { return take("...") || alternatives(&Shape::formula); }
  bool formula() {
    do
      if (!term()) return false;
    while (peek() != '\0' && std::string_view("+-*/^").find(peek()) != std::string_view::npos &&
           take(rest_.substr(0, 1)));
    return true;
  }
  bool term() {
    if (take("(")) {
      const bool is_good = ++depth_ <= kDeepest && formula() && take(")");
      --depth_;
      return is_good;
    }
    const std::string_view name = word();
    if (name.empty() || name == "or") return false;
    const bool is_number = std::isdigit(static_cast<unsigned char>(name[0]));
    if (is_number && name.find_first_not_of("0123456789") != name.npos) return false;  // "2d"
    return take(name);
  }

  std::string_view rest_;
  int depth_ = 0;
};

}  // namespace

const std::vector<std::string>& tensor_dtypes() {
  static const std::vector<std::string> all{"float", "float16", "bfloat16", "float32", "float64",
                                            "int",   "uint8",   "int8",     "int16",   "int32",
                                            "int64", "bool",    "none"};
  return all;
}

bool is_tensor_shape(std::string_view text) { return text.empty() || Shape(text).is_valid(); }

}  // namespace kinora::core
