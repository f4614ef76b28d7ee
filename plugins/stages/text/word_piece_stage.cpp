#include "word_piece_stage.hpp"

#include <cstring>

#include "kinora/io.hpp"

namespace kinora::text {
namespace {

std::string read_vocabulary(const std::string& path) {
  constexpr int64_t kLimit = 64 << 20;
  const Reader reader(path);
  if (reader.size() > kLimit)
    throw Error(KINORA_INVALID, path + ": " + std::to_string(reader.size()) +
                                    " bytes; give the vocab.txt of a BERT tokenizer");
  std::string text(static_cast<size_t>(reader.size()), '\0');
  text.resize(reader.read(0, text.data(), text.size()));
  return text;
}

void set_ids(Sample& sample, const char* name, const std::vector<int64_t>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(int64_t));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  sample.set_tensor(name, std::move(bytes), {static_cast<int64_t>(values.size())}, KINORA_DL_INT, 64);
}

}  // namespace

void WordPieceStage::describe(Describe<Options>& d) {
  d.name("text.wordpiece").help("BERT's uncased WordPiece ids of a caption");
  d.option("vocab", &Options::vocab).path().required().help("a BERT vocabulary, one piece a line");
  d.option("from", &Options::from).help("the field that holds the text");
  d.option("max_length", &Options::max_length)
      .range(2, 1 << 20)
      .help("ids at most, [CLS] and [SEP] included");
}

WordPieceStage::WordPieceStage(const Options& options)
    : options_(options), pieces_(read_vocabulary(options.vocab), options.vocab) {}

void WordPieceStage::process(Sample in, const Emit& emit, const Run&) {
  const auto ids = pieces_.encode(in.need(options_.from.c_str()), static_cast<size_t>(options_.max_length));
  set_ids(in, "input_ids", ids);
  set_ids(in, "attention_mask", std::vector<int64_t>(ids.size(), 1));
  emit(std::move(in));
}

}  // namespace kinora::text
