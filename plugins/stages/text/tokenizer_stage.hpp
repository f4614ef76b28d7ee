// stage/text.tokenizer: tokenizes captions into the ids that text encoders read.
#pragma once
#include "kinora/stage.hpp"
#include "tokenizer.hpp"

namespace kinora::text {

// Sets the tensors input_ids and attention_mask, int64 [L].
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

}  // namespace kinora::text
