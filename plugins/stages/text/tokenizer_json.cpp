#include "added_tokens.hpp"
#include "models.hpp"
#include "pre_tokenizers.hpp"
#include "tokenizer.hpp"
#include "unicode.hpp"

namespace kinora::text {

std::vector<int64_t> Tokenizer::encode(std::string_view text, size_t max_length) const {
  const size_t around = before_.size() + after_.size(), most = max_length > around ? max_length - around : 0;
  auto body = pieces(text);
  if (body.size() > most) body.resize(most);
  body.insert(body.begin(), before_.begin(), before_.end());
  body.insert(body.end(), after_.begin(), after_.end());
  return body;
}

namespace {

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(const Json& json, const std::string& name) {
    Fields f(json, name);
    f.skip({"version", "truncation", "decoder"});
    model_ = read_model(f.need("model"), name + ": model");
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
    std::vector<int64_t> out;
    for (const Section& s : added_.apart(valid_utf8(text), normalizer_)) {
      if (s.id >= 0) {
        out.push_back(s.id);
        continue;
      }
      for (const Word& w : words_({{s.text, s.first}})) model_->encode(w.text, out);
    }
    return out;
  }
  std::optional<int64_t> id_of(std::string_view piece) const override {
    const auto id = added_.id_of(piece);
    return id ? id : model_->id_of(piece);
  }

 private:
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

  std::unique_ptr<PieceModel> model_;
  Normalizer normalizer_ = [](std::string t) { return t; };
  PreTokenizer words_ = [](const Words& w) { return w; };
  AddedTokens added_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const Json& json, const std::string& name) {
  try {
    return std::make_unique<JsonTokenizer>(json, name);
  } catch (const Json::exception& e) {
    throw Error(KINORA_INVALID, name + ": not a tokenizer.json: " + e.what());
  }
}

std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view text, const std::string& name) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw Error(KINORA_INVALID, name + ": not valid JSON; give a tokenizer.json");
  return make_tokenizer(json, name);
}

}  // namespace kinora::text
