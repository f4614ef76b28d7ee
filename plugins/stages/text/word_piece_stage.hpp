// stage/text.wordpiece: tokenizes captions into the ids that BERT's text encoders read.
#pragma once
#include "kinora/stage.hpp"
#include "word_piece.hpp"

namespace kinora::text {

// Sets the tensors input_ids and attention_mask, int64 [L].
class WordPieceStage final : public Stage {
 public:
  struct Options {
    std::string vocab = "vocab.txt";
    std::string from = "txt";
    int64_t max_length = 128;
  };
  static void describe(Describe<Options>& d);
  explicit WordPieceStage(const Options& options);
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
  std::unique_ptr<Tokenizer> pieces_;
};

}  // namespace kinora::text
