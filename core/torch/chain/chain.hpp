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
// Used by one thread at a time, and by a backward's thread while it runs. Errors are kinora::Error.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "core/torch/attention/visibility.hpp"
#include "core/torch/tensors/parameter.hpp"
#include "core/torch/weights/lora.hpp"
#include "kinora/abi/link.h"

namespace kinora::core {

struct ChainOptions {
  uint64_t seed = 0;                  // for the parameters' initial values, and for the pass until begin()
  at::Device device = at::kCPU;       // holds storage and tables; meta: shapes only, nothing is allocated
  at::ScalarType dtype = at::kFloat;  // parameter dtype
  Frames frames;
  int64_t token_multiple =
      1;  // sequences are padded to a multiple of this, so that context and tensor links can cut them
  std::optional<LoraOptions> lora;  // only these matrices are trained; the model's own parameters are frozen
  // block() throws Error(KINORA_ERROR_CANCELLED) once the run was asked to stop. Only for a run of one process
  // (others would wait for it) that loses nothing by it; a trainer finishes its step and saves instead.
  bool may_stop = false;
  const kinora_mesh* mesh =
      nullptr;         // the run's ranks, for links; must outlive the chain. Null: there is one
  bool blank = false;  // parameters begin as zeros and none is drawn: load() follows and sets all of them
};

class Chain {
 public:
  // Binds the links; the links and their owners must outlive the chain's last call.
  explicit Chain(ChainOptions options, std::vector<const kinora_link*> links = {});
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  ~Chain();

  // The context that a model, tokenizer or meter calls.
  const kinora_context* head() const;

  // To be called once, after create() has returned: links take over their parameters, the base draws and
  // keeps the rest. While links run, each value() is drawn anew and not stored, so a link that cuts one unit
  // at a time (FSDP) never holds the whole model.
  void ready();
  // Starts a forward. samples: global numbers of its samples, of its rows or of the videos of a packed row;
  // empty: first_sample, first_sample + 1 ... They key the random numbers, until reduce() or another pass of
  // this first_sample.
  void begin(const kinora_pass& pass, std::vector<int64_t> samples = {});
  // Called after the backward: links complete the gradients of leaves that they own.
  void reduce();

  const kinora_pass& pass() const;
  void set_pass(const kinora_pass& pass);
  const Frames& frames() const;
  // Applies to forwards that begin from now on (streaming moves `start`). `before` belongs to the model and
  // is unchanged.
  void set_frames(Frames frames);

  // Options of the LoRA matrices; null without LoRA.
  const LoraOptions* lora() const;
  // Indexed by kinora_param - 1, in the order of declaration.
  const std::vector<Parameter>& parameters() const;
  const Parameter& parameter(kinora_param id) const;
  // After ready(). Every parameter element that this process holds is in exactly one leaf.
  std::vector<Leaf>& leaves();
  const std::vector<Leaf>& leaves() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinora::core
