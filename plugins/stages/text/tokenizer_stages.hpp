// Stages that tokenize captions. Each sets the tensors input_ids and attention_mask, int64 [L].
#pragma once
#include "kinora/stage.hpp"
#include "tokenizer.hpp"

namespace kinora::text {

// stage/text.tokenizer: the ids of a published tokenizer. A text longer than max_length loses its end; with
// pad = "max_length" L is max_length, and the mask is 0 at padding. The constructor throws Error for a file
// with anything unknown, because its ids would be silently wrong.
class TokenizerStage final : public Stage {
 public:
  struct Options {
    std::string file = "tokenizer.json";
    std::string from = "txt";
    int64_t max_length = 512;
    std::string pad = "none";
    int64_t pad_id = -1;
    bool clean = false;
    bool add_begin = false, add_end = false;
  };
  static void describe(Describe<Options>& d);
  explicit TokenizerStage(const Options& options);
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

// stage/text.wordpiece: the ids of BERT's uncased WordPiece, [CLS] and [SEP] included, without padding.
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
