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
  // Declares, then allocates and draws the parameters. `links` must outlive the network.
  Network(const Component& component, const Options& options, const ChainOptions& chain,
          std::vector<const kinora_link*> links = {});
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  Chain& chain() { return chain_; }
  // Number of parameters of one process.
  int64_t numel() const;
  // Loads a safetensors file, an index, a diffusers folder or a pipeline's, in any layout of the component.
  // Every parameter must be present. Other tensors are an error, but for those that files of the component's
  // family carry besides (may_be_ignored), which one log line names.
  void load(const std::filesystem::path& weights) { load(std::vector{weights}); }
  // Loads several; later ones override earlier ones.
  void load(const std::vector<std::filesystem::path>& weights);
  // Throws what load() would throw, from names and shapes alone. No value is read, so a network on the meta
  // device can call it.
  void require_weights(const std::vector<std::filesystem::path>& weights);

  // Our names of an adapter's parameters (our_names), "" for one that is not known.
  std::map<std::string, std::string> names_of_adapter(const std::vector<std::string>& theirs) const;
  // Requires ChainOptions.lora. Loads an adapter's matrices from a folder or file in any naming (lora_names.hpp);
  // every one must be present, and nothing else.
  void load_adapter(const std::filesystem::path& path);
  // The adapter's current matrices by module, as write_adapter() takes them. To be called on every rank of
  // the mesh.
  std::map<std::string, Adapter::Pair> adapter(const Exchange& exchange = {}) const;

  // Runs a model: takes inputs by name, undefined ones left out, and returns its outputs in the manifest's
  // order. Throws Stop if a later pipeline stage has the output.
  std::vector<at::Tensor> forward(const NamedTensors& in);
  // Calls of a tokenizer: video [B, 3, T, H, W] in [-1, 1]; latent [B, C, t, h, w], or codes [B, t, h, w].
  // posterior: undefined if the tokenizer gives none. decode() does not clamp.
  kinora_tokenizer_info info();
  at::Tensor encode(const at::Tensor& video, at::Tensor* posterior = nullptr);
  at::Tensor decode(const at::Tensor& latent);
  // A stream of the tokenizer: takes consecutive pieces and returns their results, equal to those of the
  // whole.
  class Stream;
  // Null if the tokenizer has no stream, or none whose memory is independent of the length. The network must
  // outlive the stream.
  std::unique_ptr<Stream> open_stream(bool decoding);
  // Sets the tokenizer's initial values for this video in closed form; throws Error(KINORA_ERROR_UNSUPPORTED)
  // if it has none.
  void fit(const at::Tensor& video);
  // Throws the same error if the tokenizer has no such initial values.
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
