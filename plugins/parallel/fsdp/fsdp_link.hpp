// Fully sharded data parallelism: ZeRO (Rajbhandari et al. 2020, arXiv 1910.02054) with the units of PyTorch
// FSDP (Zhao et al. 2023, arXiv 2304.11277), one unit per block. Ranks read different samples, and each
// stores a part of everything.
//
//   stage 1  the optimizer's state is split: parameters are gathered and gradients scattered once a step
//   stage 2  gradients too: scattered after each microbatch
//   stage 3  parameters too: gathered for a block, freed after it, gathered again for its backward
//
// The unit outside blocks is kept for the step at every stage: its values are in use from the first block to
// the last. While a block computes, the gathers of the next `prefetch` blocks (in a backward: of the previous
// ones) and the scatter of the block before it are running; so at stage 3 a rank holds its shards, the unit
// outside blocks, and 1 + prefetch units. With recompute (above) a block runs in the backward: its unit is
// then gathered once, and freed after its gradients.
//
// Bytes that a rank sends per microbatch, for P ranks, U numbers of a unit padded to a multiple of P, w and g
// bytes per number of gather_dtype and reduce_dtype; summed over units (fp8 and nvfp4: each rank's part of a unit
// is one row of kernels/wire/wire.hpp, whose blocks contain what is next to each other in the vector, small
// parameters too; every rank computes with the rounded numbers, and the optimizer keeps the exact ones):
//   stage 3  forward U w (P - 1) / P, backward (U w + U g) (P - 1) / P
//   stage 2  backward U g (P - 1) / P; a step U w (P - 1) / P
//   stage 1  a step (U w + U g) (P - 1) / P
// At stage 3 the unit outside blocks is treated as at stage 2. Frozen parameters form a separate vector,
// with its own padding, gathered like the others, without g. A pass without gradient: U w (P - 1) / P at every
// stage, and the next pass gathers again what is kept for a step. If R ranks hold the same shard (ddp,
// context or tensor parallelism), a step ends with a sum over them of U / P numbers of p bytes, the size of the
// parameters: 2 U p / P (R - 1) / R.
//
// The leaves belong to this link: gradients are complete after reduce(), and undefined until then.
#pragma once
#include <map>
#include <memory>

#include "plugins/parallel/fsdp/flat.hpp"

namespace kinora::fsdp {

class FsdpLink final : public Link<at::Tensor> {
 public:
  struct Options {
    int64_t size = 0, stage = 3, prefetch = 1;
    std::string gather_dtype = "auto", reduce_dtype = "auto";
  };
  FsdpLink(const Options& options, const Mesh<at::Tensor>& mesh);

  kinora_param parameter(const kinora_param_spec& spec) override;
  void ready() override;
  void begin(const kinora_pass& pass) override;
  at::Tensor value(kinora_param p) override;
  Tensors block(const kinora_block& b, const Tensors& in) override;
  void reduce() override;
  bool piece(int64_t i, Piece& out) override;

 private:
  // Numbers of a unit: trained and frozen ones.
  template <class T>
  struct Both {
    T trained, frozen;
  };
  struct Unit {
    explicit Unit(FlatGradient g) : gradient(std::move(g)) {}
    Both<Flat> flat;
    Both<Started<at::Tensor>> coming;   // running gathers
    std::shared_ptr<Both<Whole>> kept;  // for a unit that is kept for the step
    int64_t step = -1;                  // the step of `kept`
    Tensors values;                     // trained, then frozen ones, while they may be requested
    bool with_graph = false;            // for the unit outside blocks: the values of a pass
    FlatGradient gradient;
    bool prefetched() const { return coming.trained.pending() || coming.frozen.pending(); }
  };

  // The position of a parameter's value.
  struct Place {
    int64_t block;
    size_t index;
  };
  bool keeps(int64_t block) const { return options_.stage < 3 || block < 0; }
  at::ScalarType reduced_as(const Flat& flat) const;
  void start_gather(int64_t block);
  void tell();  // once: what the gathers of the first pass cost
  // Finishes the unit's gather, and starts those of the next blocks in the direction of use.
  Both<at::Tensor> gathered(int64_t block, int64_t direction);
  std::shared_ptr<Both<Whole>> whole(int64_t block, int64_t direction);
  Tensors values_of(const Unit& unit, const Both<Whole>& whole) const;
  // The node at a block's entry: from here on the unit's values are those with their graph; returns the
  // block's inputs.
  Tensors enter(int64_t block, const std::shared_ptr<Both<Whole>>& whole, const Tensors& in);
  // The node at the block's exit, which fills `whole` again in the backward.
  Tensors filled_again(int64_t block, const std::shared_ptr<Both<Whole>>& whole, const Tensors& out);
  void add_gradient(Unit& unit, const Tensors& of_values);
  void drop_gathers();

  Options options_;
  wire::Format format_;  // of gathered parameters
  Group<at::Tensor> group_;
  // Ranks that hold the same numbers: for parameters split by tensor parallelism, and for the others; in
  // blocks, and outside of blocks.
  Group<at::Tensor> split_copies_, whole_copies_, split_copies_outside_, whole_copies_outside_;
  std::vector<Declared> declared_;
  std::map<int64_t, Unit> units_;  // by block
  std::map<kinora_param, Place> places_;
  std::vector<Piece> pieces_;
  Unit* scattering_ = nullptr;  // the unit whose gradient is being scattered
  int64_t step_ = 0;            // changes whenever the leaves may have changed
  bool no_grad_ = false;        // of the last pass
  wire::Meter meter_;           // of the first pass
  bool told_ = false;
};

}  // namespace kinora::fsdp
