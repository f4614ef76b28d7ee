#include "core/torch/chain/plain_chain.hpp"

#include <ATen/ATen.h>

#include "core/torch/chain/chain.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

class OneProcess final : public PlainChain {
 public:
  OneProcess(const ChainOptions& options, const std::vector<const kinora_link*>& links)
      : device_(options.device), chain_(options, links) {}

  const kinora_context* head() const override { return chain_.head(); }
  void ready() override {
    with_plain_errors([&] { chain_.ready(); });
  }
  void begin(const kinora_pass& pass, int64_t frames) override {
    with_plain_errors([&] {
      if (frames != chain_.frames().start) {
        Frames moved = chain_.frames();
        moved.start = frames;
        chain_.set_frames(moved);
      }
      chain_.begin(pass);
    });
  }
  std::vector<Leaf> leaves() const override {
    std::vector<Leaf> out;
    for (const auto& leaf : chain_.leaves()) out.push_back({leaf.name, give(leaf.tensor), leaf.frozen});
    return out;
  }
  kinora_tensor on_device(kinora_tensor given) const override {
    return with_plain_errors([&] { return give(borrow<at::Tensor>(given).to(device_)); });
  }

 private:
  const at::Device device_;
  Chain chain_;
};

}  // namespace

std::unique_ptr<PlainChain> make_plain_chain(const PlainChainOptions& o,
                                             const std::vector<const kinora_link*>& links) {
  ChainOptions options;
  options.seed = o.seed;
  options.dtype = static_cast<at::ScalarType>(o.dtype);
  options.device = o.is_meta ? at::kMeta : at::kCPU;
  options.frames.before = o.before;
  return with_plain_errors([&] { return std::make_unique<OneProcess>(options, links); });
}

}  // namespace kinora::core
