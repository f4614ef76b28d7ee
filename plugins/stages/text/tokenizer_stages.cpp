#include "tokenizer_stages.hpp"

#include <string>
#include <vector>

#include "clean.hpp"
#include "ids.hpp"
#include "json_text.hpp"
#include "kinora/plugin.hpp"
#include "kinora/sample.hpp"
#include "older_files.hpp"
#include "open_tokenizer.hpp"

namespace kinora::text {
namespace {

constexpr size_t kAllOfIt = size_t{1} << 40;  // ids

// Adds fact `tokens`, how many ids the whole text has, if they are more than are taken.
void note_cut(Sample& sample, size_t all, size_t most) {
  if (all <= most) return;
  Json facts = parse_json(sample.text("json").value_or("{}"));
  if (!facts.is_object()) return;
  facts["tokens"] = all;
  sample.set("json", facts.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

void TokenizerStage::describe(Describe<Options>& d) {
  d.name("text.tokenizer")
      .help("Tokenizes a caption with a published tokenizer: tokenizer.json or a sentencepiece .model");
  d.option("file", &Options::file)
      .path()
      .required()
      .help(
          "tokenizer.json (BPE, Unigram, WordPiece), a sentencepiece model (Unigram, BPE), or a folder "
          "saved by transformers");
  d.option("from", &Options::from).help("field that holds the text");
  d.option("max_length", &Options::max_length)
      .range(1, 1 << 20)
      .help(
          "most ids, including special ones; the end of a longer text is cut off, and fact tokens says how "
          "many it has. The file's own limit is not used");
  d.option("pad", &Options::pad)
      .choices({"none", "max_length"})
      .help("padding; max_length: fills every text up to that length, with 0 in attention_mask");
  d.option("pad_id", &Options::pad_id)
      .range(-1, 1 << 24)
      .help("id used as padding; -1: the file's padding token");
  d.option("clean", &Options::clean)
      .help(
          "repair the text first, as Wan's code and diffusers do: what ftfy repairs (text in a wrong "
          "encoding, "
          "curly quotes, ligatures, control characters), HTML references, white space");
  d.option("add_begin", &Options::add_begin).help("put a .model's <s> before every text");
  d.option("add_end", &Options::add_end).help("put a .model's </s> after every text, as T5 and UMT5 require");
  d.output("input_ids", "[L]", "int64", "token ids of the caption");
  d.output("attention_mask", "[L]", "int64", "1 for each token of the caption, 0 for padding");
}

TokenizerStage::TokenizerStage(const Options& options)
    : options_(options), tokenizer_(open_tokenizer(options.file, {options.add_begin, options.add_end})) {
  if (options_.pad_id < 0) options_.pad_id = tokenizer_->padding().value_or(-1);
  if (options_.pad != "none" && options_.pad_id < 0)
    throw Error(KINORA_ERROR_INVALID, options_.file + ": the file names no padding token; set pad_id");
}

void TokenizerStage::process(Sample in, const Emit& emit, const Run&) {
  const std::string_view text = in.need(options_.from.c_str());
  const auto most = static_cast<size_t>(options_.max_length);
  const std::string repaired = options_.clean ? cleaned(text) : std::string(text);
  auto ids = tokenizer_->encode(repaired, most);
  if (ids.size() == most) note_cut(in, tokenizer_->encode(repaired, kAllOfIt).size(), most);
  if (ids.size() > most)
    throw Error(KINORA_ERROR_INVALID, "max_length = " + std::to_string(most) +
                                          " leaves no room for the special tokens around a text");
  std::vector<int64_t> mask(ids.size(), 1);
  if (options_.pad != "none") {
    ids.resize(most, options_.pad_id);
    mask.resize(most, 0);
  }
  set_ids(in, "input_ids", ids);
  set_ids(in, "attention_mask", mask);
  emit(std::move(in));
}

void WordPieceStage::describe(Describe<Options>& d) {
  d.name("text.wordpiece").help("Tokenizes a caption with BERT's uncased WordPiece");
  d.option("vocab", &Options::vocab).path().required().help("a BERT vocabulary, one piece per line");
  d.option("from", &Options::from).help("field that holds the text");
  d.option("max_length", &Options::max_length).range(2, 1 << 20).help("most ids, including [CLS] and [SEP]");
  d.output("input_ids", "[L]", "int64", "token ids of the caption");
  d.output("attention_mask", "[L]", "int64", "1 for each token of the caption, 0 for padding");
}

WordPieceStage::WordPieceStage(const Options& options)
    : options_(options),
      pieces_(read_vocab_txt(read_file(options.vocab, "the vocab.txt of a BERT tokenizer"), options.vocab)) {}

void WordPieceStage::process(Sample in, const Emit& emit, const Run&) {
  const auto most = static_cast<size_t>(options_.max_length);
  const std::string_view text = in.need(options_.from.c_str());
  const auto ids = pieces_->encode(text, most);
  if (ids.size() == most) note_cut(in, pieces_->encode(text, kAllOfIt).size(), most);
  set_ids(in, "input_ids", ids);
  set_ids(in, "attention_mask", std::vector<int64_t>(ids.size(), 1));
  emit(std::move(in));
}

}  // namespace kinora::text

using kinora::text::TokenizerStage;
using kinora::text::WordPieceStage;
KINORA_COMPONENT(WordPieceStage)
KINORA_COMPONENT(TokenizerStage)
KINORA_PLUGIN(WordPieceStage, TokenizerStage, DecodeStage, ChatStage)
