// The link that adds one of several LoRA adapters to the linear layers of a model. Its own matrices stay as they are.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/torch/network/network.hpp"
#include "core/torch/weights/lora.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "plugins/jobs/inference/loras.hpp"

namespace kinora::core::inference {

// [owner-thread]
class NamedLoras final : public kinora::Link<at::Tensor> {
 public:
  // Reads the adapters of one network, in any naming of lora_names.hpp. is_cut: ranks cut its weights (tp). Throws
  // Error for an adapter that does not fit it.
  NamedLoras(const Component& component, const Options& options, const std::vector<LoraFile>& files,
             AdapterOf expert, bool is_cut);

  // Called once, when the network has its own weights; it must outlive this object's use. On every rank.
  void load(Network& network, const Exchange& exchange);
  // The adapter of all calls from now on; returns whether it is another one. Parameters of which a file has whole
  // differences are changed here, and get their own values back, bit for bit.
  bool use(const LoraUse& lora);

  kinora_param parameter(const kinora_param_spec& spec) override;
  at::Tensor linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;

 private:
  struct Pair {
    kinora_param a, b;
    double scale;
  };
  struct Lora {
    std::map<std::string, Adapter::Pair> modules;     // by our names, until load()
    std::map<std::string, at::Tensor> differences{};  // by parameter
    std::map<kinora_param, Pair> pairs{};             // by the weight's number
  };
  class Reading;
  Pair halves_of(const kinora_param_spec& weight, const std::string& module, const std::string& lora,
                 const Adapter::Pair& given);
  const Pair* pair_of(kinora_param weight) const;
  // Gives each parameter its own value, with the difference of the adapter in use if `changed`.
  void set_differences(bool changed);

  const bool is_cut_;
  std::map<std::string, Lora> loras_;
  const Lora* used_ = nullptr;
  LoraUse use_;
  Network* network_ = nullptr;
  NamedTensors own_;  // values of the parameters that differences change
};

}  // namespace kinora::core::inference
