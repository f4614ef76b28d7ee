// stage/filter.model: scores clips with any exported model, from frames or an embedding.
#pragma once
#include "exported.hpp"
#include "input.hpp"
#include "kinora/stage.hpp"

namespace kinora::exported {

class FilterModel final : public Stage {
 public:
  struct Options : InputOptions {
    std::string model, name = "model", from = "frames", reduction = "min", mode = "on", device = "auto";
    double threshold = 0;
    int64_t output = 0, batch = 8, threads = 1;
  };
  static void describe(Describe<Options>& d);
  explicit FilterModel(const Options& o);
  // Sets json["scores"]["filter.NAME"]; with mode on, rule filter.NAME drops a sample below the threshold.
  void process(Sample in, const Emit& emit, const Run& run) override { process_batch({&in, 1}, emit, run); }
  void process_batch(std::span<const Sample> in, const Emit& emit, const Run& run) override;
  kinora_resources resources() const override;

 private:
  at::Tensor input_of(const Sample& sample) const;
  at::Tensor scores(const std::vector<at::Tensor>& inputs);
  void judge(Sample sample, double score, const Emit& emit) const;
  bool of_pictures() const { return options_.from == "frames"; }
  Options options_;
  std::string rule_;
  std::unique_ptr<Model> model_;
  at::Device device_;
};

}  // namespace kinora::exported
