// stage/embed.model: embeds clips with any exported image or video model.
#pragma once
#include "exported.hpp"
#include "input.hpp"
#include "kinora/stage.hpp"

namespace kinora::exported {

class EmbedModel final : public Stage {
 public:
  struct Options : InputOptions {
    std::string model, name = "model", device = "auto";
    int64_t output = 0, batch = 8, threads = 1;
  };
  static void describe(Describe<Options>& d);
  explicit EmbedModel(const Options& o);
  // Sets field NAME.npy [D], of norm 1; for a video with shots.json, shots.NAME.npy [shots, D], where a shot
  // without frames has a row of zeros.
  void process(Sample in, const Emit& emit, const Run& run) override { process_batch({&in, 1}, emit, run); }
  void process_batch(std::span<const Sample> in, const Emit& emit, const Run& run) override;
  // One instance, in the order of the source: every run forms the same batches.
  kinora_resources resources() const override;

 private:
  at::Tensor embed(const std::vector<at::Tensor>& clips);
  void store(Sample& sample, const at::Tensor& row) const;
  void embed_shots(Sample& film, const Pictures& pictures, const Run& run);
  Options options_;
  std::unique_ptr<Model> model_;
  at::Device device_;
};

}  // namespace kinora::exported
