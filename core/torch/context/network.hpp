// A model or tokenizer of a run: the component, the chain behind its context, and its parameters.
#pragma once
#include <memory>
#include <vector>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"
#include "core/torch/context/chain.hpp"
#include "core/torch/weights/weights.hpp"
#include "kinora/abi/model.h"
#include "kinora/abi/tokenizer.h"

namespace kinora::core {

// Owns the instance. Errors are kinora::Error.
class Network {
 public:
  // Declares, then allocates and draws the parameters. `links` outlive the network.
  Network(const Component& component, const Options& options, const ChainOptions& chain,
          std::vector<const kinora_link*> links = {});
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  Chain& chain() { return chain_; }
  // Parameters of one process.
  int64_t numel() const;
  // From a safetensors file, an index, a diffusers folder or a pipeline's, under any layout of the component;
  // every parameter must be there, and nothing else unless the model is an encoder: a published one carries
  // heads that are not used, which one line says.
  void load(const std::filesystem::path& weights) { load(std::vector{weights}); }
  // Of several, later ones over earlier ones.
  void load(const std::vector<std::filesystem::path>& weights);
  // What load() would throw, by names and shapes; no number is read, so a network on the meta device can ask.
  void require_weights(const std::vector<std::filesystem::path>& weights);

  // With ChainOptions.lora. An adapter's matrices, from PEFT's folder or file; every one must be there, and
  // nothing else.
  void load_adapter(const std::filesystem::path& path);
  // The adapter's matrices as they are now, by module: what write_adapter() takes. On every rank of the mesh.
  std::map<std::string, Adapter::Pair> adapter(const Exchange& exchange = {}) const;

  // A model: its outputs in the manifest's order. A model's inputs by name; undefined ones are left out.
  // Throws Stop where a pipeline's later stage has the output.
  std::vector<at::Tensor> forward(const NamedTensors& in);
  // A tokenizer.
  kinora_tokenizer_info info();
  at::Tensor encode(const at::Tensor& video, at::Tensor* posterior = nullptr);
  at::Tensor decode(const at::Tensor& latent);
  // A stream of the tokenizer: consecutive pieces in, their results out, equal to the whole's.
  class Stream;
  // Null: it has none, or none whose memory does not grow with the length. The network outlives it.
  std::unique_ptr<Stream> open_stream(bool decoding);
  // Takes the values that the tokenizer begins with for this video, in closed form; throws
  // Error(KINORA_UNSUPPORTED) if it knows none.
  void fit(const at::Tensor& video);
  // Throws the same if it knows none.
  void require_fit() const;

 private:
  void load_or_compare(const std::vector<std::filesystem::path>& weights, LoadOptions how);
  const kinora_tokenizer& tokenizer() const { return component_.table<kinora_tokenizer>(); }
  const kinora_model& model() const { return component_.table<kinora_model>(); }
  bool is_model() const { return component_.spec->kind == "model"; }
  Component component_;
  nlohmann::json options_;
  Chain chain_;
  void* self_ = nullptr;
};

class Network::Stream {
 public:
  Stream(const kinora_tokenizer& table, void* stream, std::string id)
      : table_(table), stream_(stream), id_(std::move(id)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { table_.close(stream_); }
  at::Tensor push(const at::Tensor& piece);

 private:
  const kinora_tokenizer& table_;
  void* stream_;
  std::string id_;
};

}  // namespace kinora::core
