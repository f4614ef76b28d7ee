#include "word_piece.hpp"

#include "kinora/error.hpp"

namespace kinora::text {

std::unique_ptr<Tokenizer> read_vocab_txt(std::string_view vocabulary, const std::string& name, bool lower) {
  Json ids = Json::object();
  int64_t line = 0;
  for (size_t at = 0; at < vocabulary.size(); ++line) {
    const size_t end = std::min(vocabulary.find('\n', at), vocabulary.size());
    std::string_view piece = vocabulary.substr(at, end - at);
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    ids[std::string(piece)] = line;  // the last line of a repeated piece counts
    at = end + 1;
  }
  Json added = Json::array();
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (ids.contains(special))
      added.push_back({{"id", ids[special]}, {"content", special}, {"normalized", false}});
  for (const char* needed : {"[UNK]", "[CLS]", "[SEP]"})
    if (!ids.contains(needed))
      throw Error(KINORA_INVALID, name + ": none of its " + std::to_string(ids.size()) + " lines is " + needed +
                                      "; give the vocab.txt of a BERT tokenizer");
  const Json sep = {"[SEP]", ids["[SEP]"]}, cls = {"[CLS]", ids["[CLS]"]};
  return make_tokenizer(Json{{"model", {{"type", "WordPiece"}, {"vocab", ids}}},
                             {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", lower}}},
                             {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                             {"post_processor", {{"type", "BertProcessing"}, {"sep", sep}, {"cls", cls}}},
                             {"added_tokens", added}},
                        name);
}

}  // namespace kinora::text
