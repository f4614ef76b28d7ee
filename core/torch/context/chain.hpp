// The chain behind a model's context (kinora/abi/link.h): the links of a run's strategies, precision, cache
// and meters, sorted by level between the host's two ends, the root (token table) and the base (plain
// mathematics, owner of the storage).
//
//   Chain chain(options, links);
//   void* model = api->create(host, options, chain.head());     // declares the parameters
//   chain.ready();                                              // storage exists from here on
//   chain.begin({sizeof(kinora_pass), 0, 0, 0, first_sample, 0, 0, seed});
//   api->forward(model, chain.head(), ...);
//   loss.backward();
//   chain.reduce();                                             // then the trainer sums what no link reduced
//
// One thread at a time, and the thread of a backward while it runs. Errors are kinora::Error.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "core/torch/tensors/parameter.hpp"
#include "core/torch/context/visibility.hpp"
#include "core/torch/weights/lora.hpp"
#include "kinora/abi/link.h"

namespace kinora::core {

struct ChainOptions {
  uint64_t seed = 0;                  // of the parameters' first numbers, and of the pass until begin()
  at::Device device = at::kCPU;       // of storage and tables; meta: shapes only, nothing is allocated
  at::ScalarType dtype = at::kFloat;  // of parameters
  Frames frames;
  int64_t token_multiple =
      1;  // sequences are padded to a multiple of it, so that context and tensor links can cut them
  std::optional<LoraOptions> lora;  // only these matrices are trained; the model's own parameters are frozen
};

class Chain {
 public:
  // Binds the links; they and what owns them outlive the chain's last call.
  explicit Chain(ChainOptions options, std::vector<const kinora_link*> links = {});
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  ~Chain();

  // What a model, tokenizer or meter calls.
  const kinora_context* head() const;

  // create() has returned: links take over what is theirs, the base draws and keeps the rest. While links
  // run, each value() is drawn anew and kept by nobody, so a link that cuts a unit at a time (FSDP) never
  // meets the whole model. Once.
  void ready();
  // A forward begins.
  void begin(const kinora_pass& pass);
  // The backward is over: links complete the gradients of leaves that they own.
  void reduce();

  const kinora_pass& pass() const;
  void set_pass(const kinora_pass& pass);
  const Frames& frames() const;
  // For the forwards that begin from now on (streaming moves `start`). `before`, which is the model's, stays.
  void set_frames(Frames frames);

  // Of its LoRA matrices; null: it has none.
  const LoraOptions* lora() const;
  // By kinora_param - 1, in the order of declaration.
  const std::vector<Parameter>& parameters() const;
  const Parameter& parameter(kinora_param id) const;
  // After ready(); every number of every parameter that this process holds is in exactly one.
  std::vector<Leaf>& leaves();
  const std::vector<Leaf>& leaves() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinora::core
