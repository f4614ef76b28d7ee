// stage/text.decode: token ids back to text.
#pragma once
#include "decoder.hpp"
#include "kinora/stage.hpp"

namespace kinora::text {

// Sets field `to`, UTF-8, to the text of tensor `from`, int64 [L]. An id without a piece fails the sample.
//
// A long text may come in pieces, one sample each, with the fact `last` false in all but the last one. A piece's
// output has the field `rest`: the bytes of a character whose end is missing, often none. The next piece must have
// this field. The texts of all pieces joined are the text of all ids. The stage itself keeps nothing between samples.
class DecodeStage final : public Stage {
 public:
  struct Options {
    std::string file = "tokenizer.json";
    std::string from = "input_ids";
    std::string to = "txt";
    bool skip_special = true;
  };
  static void describe(Describe<Options>& d);
  explicit DecodeStage(const Options& options);
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace kinora::text
