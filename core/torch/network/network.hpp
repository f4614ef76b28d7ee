// The part that a model (model.hpp) and a tokenizer (tokenizer.hpp) of a run share: the component, the chain behind its
// context, and its parameters.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "core/plugin/opening.hpp"
#include "core/torch/chain/chain.hpp"
#include "core/torch/weights/weights.hpp"

namespace kinora::core {

// Errors are kinora::Error.
class Network {
 public:
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  virtual ~Network() = default;

  Chain& chain() { return chain_; }
  // Number of parameters of one process.
  int64_t numel() const;
  void load(const std::filesystem::path& weights) { load(std::vector{weights}); }
  // Loads safetensors files, indices, a diffusers folder or a pipeline's, in any layout of the component; later
  // ones override earlier ones. Every parameter must be present. Other tensors are an error, but for those that
  // files of the component's family carry besides (may_be_ignored), which one log line names.
  void load(const std::vector<std::filesystem::path>& weights) { load_or_compare(weights, false); }
  // Throws what load() would throw, from names and shapes alone. No value is read, so a network on the meta
  // device can call it.
  void require_weights(const std::vector<std::filesystem::path>& weights) { load_or_compare(weights, true); }

  // Requires ChainOptions.lora. Loads an adapter's matrices from a folder or file in any naming (lora_names.hpp);
  // every one must be present, and nothing else.
  void load_adapter(const std::filesystem::path& path);
  // The adapter's current matrices by module, as write_adapter() takes them. To be called on every rank of
  // the mesh.
  std::map<std::string, Adapter::Pair> adapter(const Exchange& exchange = {}) const;

  const std::string& id() const { return component_.spec->id; }

 protected:
  // Declares, then allocates and draws the parameters. `links` must outlive the network. create: the instance with
  // this context.
  Network(const Component&, const Options&, const ChainOptions&, std::vector<const kinora_link*> links,
          const std::function<Instance(const kinora_context*)>& create);
  Component component_;
  nlohmann::json options_;
  Chain chain_;
  Instance self_;

 private:
  void load_or_compare(const std::vector<std::filesystem::path>& weights, bool compare_only);
  // Its errors know nothing of adapters among the weights.
  void load_or_compare_all(const std::vector<std::filesystem::path>& weights, bool compare_only);
};

// The model or the tokenizer that a component is, for what both share.
std::unique_ptr<Network> open_network(const Component&, const Options&, const ChainOptions&,
                                      std::vector<const kinora_link*> links = {});

// Parameters of a model or tokenizer with these options; nothing is allocated.
Parameters parameters_of(const Component&, const Options&);

}  // namespace kinora::core
