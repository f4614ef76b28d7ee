// A tokenizer.json as a tokenizer: added tokens, normalizer, pre-tokenizer, model, post-processor.
#include "tokenizer_json.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "decoder.hpp"
#include "json_text.hpp"
#include "models.hpp"
#include "regex.hpp"
#include "tokenizer.hpp"
#include "unicode.hpp"

namespace kinora::text {
namespace {

// One part of a text: a token's id, or text that still has to be tokenized.
struct Section {
  std::string text;
  int64_t id = -1;     // below 0: text
  bool first = false;  // at the start of the whole text
};

// Tokens that are matched in the text itself, such as "<mask>", before the model runs.
class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(const Json& array, const Normalizer& normalizer, const std::string& where);
  // Splits at tokens in the text as given, then at tokens in the normalized rest. specials: also at special tokens.
  std::vector<Section> apart(const Section& whole, const Normalizer& normalizer, bool specials) const;
  const IdTexts& texts() const { return texts_; }
  std::optional<int64_t> id_of(std::string_view content) const;

 private:
  struct Token {
    std::string content;
    int64_t id;
    bool single_word, left, right, special;
  };
  // Tokens by their first byte, the longest first.
  using Index = std::array<std::vector<Token>, 256>;
  static std::vector<Section> cut(const Section& whole, const Index& tokens, bool specials);
  Index raw_, normalized_;
  Vocabulary ids_;
  IdTexts texts_;
};

bool ends_with_word(const std::string& text) {
  static const Regex regex(R"([\w\x{200C}\x{200D}]\z)");
  return !regex.find_all(text).empty();
}
bool starts_with_word(const std::string& text) {
  static const Regex regex(R"(\A[\w\x{200C}\x{200D}])");
  return !regex.find_all(text).empty();
}

size_t blanks_at_end(std::string_view text) {
  size_t blanks = 0;
  while (!text.empty()) {
    const size_t length = length_of_first(text);
    blanks = is_white_space(take(text)) ? blanks + length : 0;
  }
  return blanks;
}

size_t blanks_at_start(std::string_view text) {
  size_t blanks = 0;
  while (!text.empty()) {
    const size_t length = length_of_first(text);
    if (!is_white_space(take(text))) break;
    blanks += length;
  }
  return blanks;
}

AddedTokens::AddedTokens(const Json& array, const Normalizer& normalizer, const std::string& where) {
  if (!array.is_array()) throw Error(KINORA_ERROR_INVALID, where + ": expected an array");
  for (const auto& entry : array) {
    Fields f(entry, where);
    Token t{f.get<std::string>("content"), f.get<int64_t>("id"),   f.get("single_word", false),
            f.get("lstrip", false),        f.get("rstrip", false), f.get("special", false)};
    const bool normalized = f.get("normalized", true);
    f.done();
    if (t.id < 0) f.refuse("the id of '" + t.content + "' is below 0");
    ids_.insert_or_assign(t.content, t.id);
    texts_.insert_or_assign(t.id, IdText{t.content, t.special, true});
    if (normalized) t.content = normalizer(t.content);
    if (t.content.empty()) continue;
    auto& those = (normalized ? normalized_ : raw_)[static_cast<unsigned char>(t.content[0])];
    those.insert(
        std::upper_bound(those.begin(), those.end(), t,
                         [](const Token& a, const Token& b) { return a.content.size() > b.content.size(); }),
        t);
  }
}

std::optional<int64_t> AddedTokens::id_of(std::string_view content) const {
  const auto it = ids_.find(content);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

std::vector<Section> AddedTokens::cut(const Section& whole, const Index& tokens, bool specials) {
  const std::string& text = whole.text;
  std::vector<Section> out;
  size_t from = 0;  // everything before is already in `out`
  const auto add_text = [&](size_t end) {
    if (from < end) out.push_back({text.substr(from, end - from), -1, whole.first && from == 0});
  };
  for (size_t at = 0; at < text.size();) {
    const auto& those = tokens[static_cast<unsigned char>(text[at])];
    const auto t = std::find_if(those.begin(), those.end(), [&](const Token& token) {
      return (specials || !token.special) && text.compare(at, token.content.size(), token.content) == 0;
    });
    if (t == those.end()) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + t->content.size();
    at = end;
    if (t->single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))
      continue;
    if (t->left) begin = std::max(from, begin - blanks_at_end(std::string_view(text).substr(0, begin)));
    if (t->right) end += blanks_at_start(std::string_view(text).substr(end));
    begin = std::max(from, begin);
    add_text(begin);
    out.push_back({"", t->id, false});
    from = end;
  }
  add_text(text.size());
  return out;
}

std::vector<Section> AddedTokens::apart(const Section& whole, const Normalizer& normalizer,
                                        bool specials) const {
  std::vector<Section> out;
  for (const Section& raw : cut(whole, raw_, specials)) {
    if (raw.id >= 0) {
      out.push_back(raw);
      continue;
    }
    auto pieces = cut({normalizer(raw.text), -1, raw.first}, normalized_, specials);
    out.insert(out.end(), pieces.begin(), pieces.end());
  }
  return out;
}

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(const Json& json, const std::string& name, std::unique_ptr<PieceModel> model)
      : name_(name), model_(std::move(model)) {
    Fields f(json, name);
    f.skip({"version", "truncation"});
    if (const Json* d = f.find("decoder")) decoder_ = *d;
    if (!model_) model_ = read_model(f.need("model"), name + ": model");
    if (const Json* n = f.find("normalizer")) normalizer_ = read_normalizer(*n, name + ": normalizer");
    if (const Json* p = f.find("pre_tokenizer")) words_ = read_pre_tokenizer(*p, name + ": pre_tokenizer");
    if (const Json* a = f.find("added_tokens")) added_ = {*a, normalizer_, name + ": added_tokens"};
    if (const Json* p = f.find("post_processor")) read_post_processor(*p, name + ": post_processor", 0);
    if (const Json* p = f.find("padding")) read_padding(*p, name + ": padding");
    for (const char* usual : {"<pad>", "[PAD]"})
      if (!padding_) padding_ = id_of(usual);
    f.done();
  }
  std::vector<int64_t> pieces(std::string_view text) const override {
    return pieces({valid_utf8(text), -1, true}, true);
  }
  std::vector<int64_t> ordinary(std::string_view text, bool first) const override {
    return pieces({valid_utf8(text), -1, first}, false);
  }
  std::optional<int64_t> id_of(std::string_view piece) const override {
    const auto id = added_.id_of(piece);
    return id ? id : model_->id_of(piece);
  }
  std::unique_ptr<Decoder> decoder() const override {
    IdTexts texts = added_.texts();
    for (const auto& [piece, id] : model_->vocabulary()) texts.try_emplace(id, IdText{piece});
    return std::make_unique<Decoder>(name_, std::move(texts), read_decoder(decoder_, name_ + ": decoder"));
  }

 private:
  std::vector<int64_t> pieces(const Section& whole, bool specials) const {
    std::vector<int64_t> out;
    for (const Section& s : added_.apart(whole, normalizer_, specials)) {
      if (s.id >= 0) {
        out.push_back(s.id);
        continue;
      }
      for (const Word& w : words_({{s.text, s.first}})) model_->encode(w.text, out);
    }
    return out;
  }
  void read_padding(const Json& json, const std::string& where) {
    Fields f(json, where);
    padding_ = f.get<int64_t>("pad_id");
  }
  void read_post_processor(const Json& json, const std::string& where, int depth) {
    Fields f(json, where);
    const auto type = f.get<std::string>("type");
    if (depth > kDeepest) f.refuse("sequences are nested too deeply");
    if (type == "Sequence") {
      for (const auto& one : f.need("processors")) read_post_processor(one, where, depth + 1);
    } else if (type == "TemplateProcessing") {
      read_template(f);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      before_.insert(before_.begin(), token(f, "cls"));
      after_.push_back(token(f, "sep"));
      f.skip({"trim_offsets", "add_prefix_space"});
    } else if (type == "ByteLevel") {
      f.skip({"trim_offsets", "add_prefix_space", "use_regex"});
    } else {
      f.refuse("the post-processor '" + type + "' is not known");
    }
    f.done();
  }
  // ["[CLS]", 101]
  static int64_t token(Fields& f, const char* key) {
    const Json& pair = f.need(key);
    if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number_integer())
      f.refuse(std::string("'") + key + "' is not [\"token\", id]");
    return pair[1].get<int64_t>();
  }
  void read_template(Fields& f) {
    const Json& specials = f.need("special_tokens");
    f.skip({"pair"});
    std::vector<int64_t> before, after;
    bool text = false;
    for (const auto& part : f.need("single")) {
      Fields piece(part, f.where() + ": single");
      if (piece.find("Sequence")) {
        if (text) piece.refuse("the text occurs twice");
        text = true;
        continue;
      }
      Fields special(piece.need("SpecialToken"), piece.where());
      const auto name = special.get<std::string>("id");
      if (!specials.is_object() || !specials.contains(name))
        f.refuse("'special_tokens' has no '" + name + "'");
      Fields known(specials[name], f.where() + ": special_tokens");
      for (const auto& id : known.need("ids")) (text ? after : before).push_back(id.get<int64_t>());
    }
    if (!text) f.refuse("'single' has no Sequence: the text would be left out");
    before_.insert(before_.begin(), before.begin(), before.end());
    after_.insert(after_.end(), after.begin(), after.end());
  }

  std::string name_;
  Json decoder_;
  std::unique_ptr<PieceModel> model_;
  Normalizer normalizer_ = [](std::string t) { return t; };
  PreTokenizer words_ = [](const Words& w) { return w; };
  AddedTokens added_;
};

}  // namespace

std::vector<int64_t> Tokenizer::encode(std::string_view text, size_t max_length) const {
  const size_t around = before_.size() + after_.size(), most = max_length > around ? max_length - around : 0;
  auto body = pieces(text);
  if (body.size() > most) body.resize(most);
  body.insert(body.begin(), before_.begin(), before_.end());
  body.insert(body.end(), after_.begin(), after_.end());
  return body;
}

std::unique_ptr<Tokenizer> make_tokenizer(const Json& json, const std::string& name,
                                          std::unique_ptr<PieceModel> model) {
  try {
    return std::make_unique<JsonTokenizer>(json, name, std::move(model));
  } catch (const Json::exception& e) {
    throw Error(KINORA_ERROR_INVALID, name + ": not a tokenizer.json: " + e.what());
  }
}

std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view text, const std::string& name) {
  const Json json = parse_json(text);
  if (json.is_discarded())
    throw Error(KINORA_ERROR_INVALID, name + ": not valid JSON; give a tokenizer.json");
  return make_tokenizer(json, name);
}

}  // namespace kinora::text
