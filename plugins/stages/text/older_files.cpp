#include "older_files.hpp"

#include <algorithm>

#include "json_text.hpp"
#include "kinora/error.hpp"

namespace kinora::text {
namespace {

constexpr const char* kStart = "<|startoftext|>";
constexpr const char* kEnd = "<|endoftext|>";
constexpr const char* kWords =
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

Json merges_in(std::string_view text) {
  Json out = Json::array();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !(at == 0 && line.starts_with("#version"))) out.push_back(line);
    at = end + 1;
  }
  return out;
}

// The special tokens: each is a string or an AddedToken.
class Specials {
 public:
  Specials(const ClipFiles& files, const Json& vocab, const std::string& name)
      : files_(files), vocab_(vocab), name_(name) {}
  // ["token", id]
  Json take(const char* key, const char* otherwise) {
    Json said = files_.config.value(key, Json());
    if (said.is_null()) said = files_.special.value(key, Json(otherwise));
    Json token = said.is_object() ? said : Json{{"content", said}, {"normalized", false}};
    const Json content = token.value("content", Json());
    if (!content.is_string() || !vocab_.contains(content.get<std::string>()))
      throw Error(KINORA_ERROR_INVALID, name_ + ": the " + key + " " + content.dump() +
                                            " is not in vocab.json; give the files of one CLIP tokenizer");
    token.erase("__type");
    token["id"] = vocab_[content.get<std::string>()];
    token["special"] = true;
    const bool known = std::any_of(added.begin(), added.end(),
                                   [&](const Json& other) { return other["content"] == content; });
    if (!known) added.push_back(token);
    return {content, token["id"]};
  }
  Json added = Json::array();

 private:
  const ClipFiles& files_;
  const Json& vocab_;
  const std::string& name_;
};

}  // namespace

std::unique_ptr<Tokenizer> read_vocab_txt(std::string_view vocabulary, const std::string& name, bool lower) {
  Vocabulary ids;
  ids.reserve(static_cast<size_t>(std::count(vocabulary.begin(), vocabulary.end(), '\n')) + 1);
  int64_t line = 0;
  for (size_t at = 0; at < vocabulary.size(); ++line) {
    const size_t end = std::min(vocabulary.find('\n', at), vocabulary.size());
    std::string_view piece = vocabulary.substr(at, end - at);
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    ids.insert_or_assign(std::string(piece), line);  // the last line of a repeated piece counts
    at = end + 1;
  }
  Json added = Json::array();
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (ids.contains(special))
      added.push_back({{"id", ids[special]}, {"content", special}, {"normalized", false}, {"special", true}});
  for (const char* needed : {"[UNK]", "[CLS]", "[SEP]"})
    if (!ids.contains(needed))
      throw Error(KINORA_ERROR_INVALID, name + ": none of its " + std::to_string(ids.size()) + " lines is " +
                                            needed + "; give the vocab.txt of a BERT tokenizer");
  const Json sep = {"[SEP]", ids["[SEP]"]}, cls = {"[CLS]", ids["[CLS]"]};
  const int64_t unknown = ids["[UNK]"];
  return make_tokenizer(Json{{"normalizer", {{"type", "BertNormalizer"}, {"lowercase", lower}}},
                             {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                             {"post_processor", {{"type", "BertProcessing"}, {"sep", sep}, {"cls", cls}}},
                             {"decoder", {{"type", "WordPiece"}}},
                             {"added_tokens", added}},
                        name, std::make_unique<WordPieceModel>(std::move(ids), unknown));
}

std::unique_ptr<Tokenizer> read_clip_words(const ClipFiles& files, const std::string& name) {
  const Json vocab = parse_json(files.vocab);
  if (!vocab.is_object()) throw Error(KINORA_ERROR_INVALID, name + "/vocab.json: not a JSON object");
  Specials specials(files, vocab, name);
  const Json begin = specials.take("bos_token", kStart), end = specials.take("eos_token", kEnd),
             unknown = specials.take("unk_token", kEnd), pad = specials.take("pad_token", kEnd);
  const Json space = {{"Regex", R"(\s+)"}}, words = {{"Regex", kWords}};
  const Json normalizers = {{{"type", "NFC"}},
                            {{"type", "Replace"}, {"pattern", space}, {"content", " "}},
                            {{"type", "Lowercase"}}};
  const Json cut = {{"type", "Split"}, {"pattern", words}, {"behavior", "Removed"}, {"invert", true}},
             bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  // "\u0120" is ByteLevel's letter for a blank.
  const Json blanks = {{"type", "Replace"}, {"pattern", {{"String", "</w>"}}}, {"content", "\u0120"}};
  return make_tokenizer(
      Json{{"model",
            {{"type", "BPE"},
             {"vocab", vocab},
             {"merges", merges_in(files.merges)},
             {"unk_token", unknown[0]},
             {"end_of_word_suffix", "</w>"}}},
           {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
           {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({cut, bytes})}}},
           {"post_processor", {{"type", "RobertaProcessing"}, {"cls", begin}, {"sep", end}}},
           {"decoder", {{"type", "Sequence"}, {"decoders", {blanks, {{"type", "ByteLevel"}}}}}},
           {"padding", {{"pad_id", pad[1]}}},
           {"added_tokens", specials.added}},
      name);
}

}  // namespace kinora::text
