// The chain of one process on the CPU that `kinora plugins validate` puts behind the context of a model or
// tokenizer, and around the link of a precision or cache.
#pragma once
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "apps/validate/counted_context.hpp"
#include "apps/validate/trial_tensors.hpp"
#include "core/runtime/plain_chain.hpp"
#include "kinora/abi/model.h"

namespace kinora {

// A chain whose handles the watching host counts. Throws Error.
class TrialChain : private CountedContext {
 public:
  explicit TrialChain(const core::PlainChainOptions&, const std::vector<const kinora_link*>& links = {});

  using CountedContext::context;
  int64_t numel() const { return numel_; }  // of the parameters that were declared
  void ready() { chain_->ready(); }
  // A forward begins, `frames` frames after the first one of the video.
  void begin(bool no_grad) { begin(no_grad, kinora_pass{}, 0); }
  void begin(bool no_grad, kinora_pass pass, int64_t frames);
  struct Leaf {
    std::string name;
    Tensor tensor;
    bool frozen;
  };
  std::vector<Leaf> leaves() const;

 private:
  TrialChain(uint64_t seed, std::unique_ptr<core::PlainChain>);
  struct Kept;
  static TrialChain& from(void* self) {
    return static_cast<TrialChain&>(*static_cast<CountedContext*>(self));
  }
  static int32_t parameter(void* self, const kinora_param_spec*, kinora_param* out);
  static int32_t block(void* self, const kinora_block*, const kinora_tensor* in, kinora_tensor* out);

  const uint64_t seed_;
  std::unique_ptr<core::PlainChain> chain_;
  int64_t numel_ = 0;
};

// An instance of a model or tokenizer with its parameters in float64. Each is moved a little from its initial
// value: a layer that begins as zero would hide what is before it. Throws Skipped with the reason of create(),
// or if there are too many parameters.
template <class Table>
class TrialNetwork {
 public:
  TrialNetwork(const PluginTrial& t, const core::Options& options, bool is_meta = false,
               const std::vector<const kinora_link*>& links = {})
      : api(t.table<Table>()),
        chain({t.subject.seed, KINORA_DTYPE_FLOAT64, is_meta, is_causal(api)}, links),
        self_((t.now("create()"), api.create(&watching_host(), options.abi(), chain.context())),
              api.destroy) {
    if (!self_) throw Skipped{"create(): " + last_message() + "; give its options with --set NAME=VALUE"};
    if (!is_meta) require_small();
    chain.ready();
    if (!is_meta) move_parameters(t.subject.seed);
  }
  TrialNetwork(const TrialNetwork&) = delete;
  TrialNetwork& operator=(const TrialNetwork&) = delete;
  ~TrialNetwork() { watch().now("destroy()"); }
  void* self() const { return self_.get(); }

  const Table& api;
  TrialChain chain;

 private:
  static bool is_causal(const Table& table) {
    if constexpr (std::is_same_v<Table, kinora_model>) return table.sees == KINORA_SEES_CAUSAL;
    return false;
  }
  void require_small() const {
    constexpr int64_t kMost = 8 << 20;
    if (chain.numel() > kMost)
      throw Skipped{fmt::format("it has {} parameters; give options for {} or fewer with --set NAME=VALUE",
                                chain.numel(), kMost)};
  }
  void move_parameters(uint64_t seed) const {
    std::mt19937_64 draw(seed);
    std::uniform_real_distribution<double> by(-0.1, 0.1);
    for (const auto& leaf : chain.leaves()) {
      if (leaf.frozen) continue;
      auto* values = leaf.tensor.template data<double>();
      for (int64_t i = 0, n = leaf.tensor.numel(); i < n; ++i) values[i] += by(draw);
    }
  }
  std::unique_ptr<void, void (*)(void*)> self_;
};

}  // namespace kinora
