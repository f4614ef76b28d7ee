#include "word_piece_stage.hpp"

#include "ids.hpp"

namespace kinora::text {
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
  const auto ids = pieces_->encode(in.need(options_.from.c_str()), static_cast<size_t>(options_.max_length));
  set_ids(in, "input_ids", ids);
  set_ids(in, "attention_mask", std::vector<int64_t>(ids.size(), 1));
  emit(std::move(in));
}

}  // namespace kinora::text
