#include "tokenizer_stage.hpp"

#include "clean.hpp"
#include "ids.hpp"

namespace kinora::text {
namespace {

std::unique_ptr<Tokenizer> open(const TokenizerStage::Options& o) {
  const std::string bytes = read_file(o.file, "a tokenizer.json or a sentencepiece .model");
  if (!o.file.ends_with(".json")) return read_sentencepiece(bytes, o.file, {o.add_begin, o.add_end});
  if (o.add_begin || o.add_end)
    throw Error(KINORA_INVALID,
                o.file +
                    ": add_begin and add_end are for a .model; a tokenizer.json says itself what "
                    "comes around a text");
  return read_tokenizer_json(bytes, o.file);
}

}  // namespace

void TokenizerStage::describe(Describe<Options>& d) {
  d.name("text.tokenizer")
      .help("ids of a caption by a published tokenizer: tokenizer.json or a sentencepiece .model");
  d.option("file", &Options::file)
      .path()
      .required()
      .help("tokenizer.json (BPE, Unigram, WordPiece), or a sentencepiece model (Unigram, BPE)");
  d.option("from", &Options::from).help("the field that holds the text");
  d.option("max_length", &Options::max_length)
      .range(1, 1 << 20)
      .help(
          "ids at most, special ones included; of a longer text the end is left out. The file's own limit is "
          "not used");
  d.option("pad", &Options::pad)
      .choices({"none", "max_length"})
      .help("max_length: fills every text up to that, with 0 in attention_mask");
  d.option("pad_id", &Options::pad_id).range(-1, 1 << 24).help("what fills up; -1: the file's padding token");
  d.option("clean", &Options::clean)
      .help("resolves HTML references twice and collapses white space first, as Wan's captions are");
  d.option("add_begin", &Options::add_begin).help("a .model's <s> before every text");
  d.option("add_end", &Options::add_end).help("a .model's </s> after every text, as T5 and UMT5 need");
}

TokenizerStage::TokenizerStage(const Options& options) : options_(options), tokenizer_(open(options)) {
  if (options_.pad_id < 0) options_.pad_id = tokenizer_->padding().value_or(-1);
  if (options_.pad != "none" && options_.pad_id < 0)
    throw Error(KINORA_INVALID, options_.file + ": names no padding token; set pad_id");
}

void TokenizerStage::process(Sample in, const Emit& emit, const Run&) {
  const std::string_view text = in.need(options_.from.c_str());
  const auto most = static_cast<size_t>(options_.max_length);
  auto ids = tokenizer_->encode(options_.clean ? cleaned(text) : text, most);
  if (ids.size() > most)
    throw Error(KINORA_INVALID, "max_length = " + std::to_string(most) +
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

}  // namespace kinora::text
