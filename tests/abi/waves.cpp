// model/waves: a text encoder without weights, for libtorch_next.py. Channel c of a token is the sine of its
// id times c + 1, computed in float64, so that another libtorch's sine gives the same float32.
#include "kinora/model.hpp"
#include "kinora/plugin.hpp"

class Waves final : public kinora::Model<kinora::Tensor> {
  using Tensor = kinora::Tensor;

 public:
  struct Options {
    int64_t size = 8;
  };
  static void describe(kinora::Describe<Options>& d) {
    d.name("waves").help("a text encoder without weights");
    d.option("size", &Options::size).range(1, 4096).help("channels");
    d.input("input_ids", "[B, L]", "int64");
    d.input("attention_mask", "[B, L]", "int64");
    d.output("output", "[B, L, size]", "float");
  }
  Waves(const Options& o, const kinora::Context<Tensor>&) : size_(o.size) {}

  std::vector<Tensor> forward(const kinora::Context<Tensor>&, const kinora::Named<Tensor>& in) override {
    const Tensor id = in["input_ids"].to(KINORA_DTYPE_FLOAT64);
    std::vector<Tensor> channels;
    for (int64_t c = 1; c <= size_; ++c)
      channels.push_back(kinora::op("aten::sin", "", {id * static_cast<double>(c)}));
    return {kinora::op("aten::stack", "", {channels, int64_t{2}}).to(KINORA_DTYPE_FLOAT32)};
  }
  int64_t blocks() const override { return 1; }

 private:
  int64_t size_;
};
KINORA_COMPONENT(Waves)
KINORA_PLUGIN(Waves)
