// The parts of a tokenizer.json: normalizers, pre-tokenizers, and the fields of any object
// in it. models.hpp has its models, tokenizer.hpp the whole.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "kinora/error.hpp"
#include "regex.hpp"

namespace kinora::text {

using Json = nlohmann::json;

struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};
using Vocabulary = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;

// Reads one object of a tokenizer.json and refuses unknown members. The object is borrowed.
// Every getter throws an Error that names the place: "tokenizer.json: model: 'unk_id' is a string; ...".
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) refuse(std::string("expected an object, got ") + object.type_name());
  }
  // Null if the member is absent or null.
  const Json* find(const char* key) {
    read_.insert(key);
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  const Json& need(const char* key) {
    const Json* found = find(key);
    if (!found) refuse(std::string("'") + key + "' is missing");
    return *found;
  }
  template <class T>
  T get(const char* key) {
    const Json& value = need(key);
    check_type<T>(value, key);
    return value.get<T>();
  }
  template <class T>
  T get(const char* key, T otherwise) {
    return find(key) ? get<T>(key) : otherwise;
  }
  // Accepts members that have no effect on ids.
  void skip(std::initializer_list<const char*> keys) { read_.insert(keys.begin(), keys.end()); }
  // Refuses members that were not read; they would be ignored silently.
  void done() const {
    for (const auto& [key, value] : object_.items())
      if (!read_.count(key) && !value.is_null()) refuse("'" + key + "' is not known");
  }
  const std::string& where() const { return where_; }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(KINORA_ERROR_INVALID, where_ + ": " + what);
  }

 private:
  template <class T>
  void check_type(const Json& value, const char* key) const {
    bool fits = value.is_string();
    if constexpr (std::is_same_v<T, bool>) fits = value.is_boolean();
    if constexpr (std::is_same_v<T, int64_t>) fits = value.is_number_integer();
    if (!fits) refuse(std::string("'") + key + "' is of the wrong type, " + value.type_name());
  }
  const Json& object_;
  std::string where_;
  std::set<std::string, std::less<>> read_;
};

// Reads {"type": ...} by name; "Sequence" applies its members in order. `depth` limits nesting.
constexpr int kDeepest = 8;

using Normalizer = std::function<std::string(std::string)>;

// Throws an Error that names anything unknown; its message begins with `where`.
Normalizer read_normalizer(const Json& json, const std::string& where, int depth = 0);

// Steps of BERT's normalizer, in this order. Bytes that are not UTF-8 count as U+FFFD, which `clean` removes.
struct BertRules {
  bool clean = true, ideographs = true, strip_accents = true, lower = true;
};
std::string bert_normalised(std::string_view text, const BertRules& rules);

// Returns `text` with every `what` replaced by `by`, left to right; an empty `what` replaces nothing.
std::string replaced(const std::string& text, const std::string& what, const std::string& by);

// A word, which a model cuts into pieces.
struct Word {
  std::string text;
  bool first = false;  // at the start of the whole text
};
using Words = std::vector<Word>;
using PreTokenizer = std::function<Words(const Words&)>;

// Throws an Error that names anything unknown; its message begins with `where`.
PreTokenizer read_pre_tokenizer(const Json& json, const std::string& where, int depth = 0);

// GPT-2's letters for all bytes, which ByteLevel writes: visible characters of Latin-1 are themselves.
const std::array<std::string, 256>& byte_letters();

// How matches that split a text are treated.
enum class Delimiter { removed, isolated, merged_with_previous, merged_with_next, contiguous };
// Splits `text` at matches, which are in order and do not overlap. invert: the text between them is the
// match.
std::vector<Span> split(std::string_view text, const std::vector<Span>& matches, Delimiter how,
                        bool invert = false);

}  // namespace kinora::text
