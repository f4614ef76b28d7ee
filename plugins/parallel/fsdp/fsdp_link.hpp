// Fully sharded data parallelism: ZeRO (Rajbhandari et al. 2020, arXiv 1910.02054) with the units of PyTorch
// FSDP (Zhao et al. 2023, arXiv 2304.11277), a unit a block. Ranks read other samples and keep a part of
// everything.
//
//   stage 1  the optimizer's state is cut: parameters are gathered once a step, gradients scattered once
//   stage 2  gradients too: scattered after each microbatch
//   stage 3  parameters too: gathered for a block, let go after it, gathered again for its backward
//
// The unit outside blocks is kept for the step at every stage: its values are in use from the first block to
// the last. While a block computes, the gathers of the next `prefetch` blocks (in a backward: of those before
// it) and the scatter of the one behind it are under way; so at stage 3 a rank holds its shards, the unit
// outside blocks, and 1 + prefetch units. Recompute (above) makes a block run in the backward: its unit is
// gathered once then, and let go after its gradients.
//
// Bytes that a rank sends a microbatch, for P ranks, U numbers of a unit padded to a multiple of P, w and g
// bytes a number of gather_dtype and reduce_dtype; summed over units:
//   stage 3  forward U w (P - 1) / P, backward (U w + U g) (P - 1) / P
//   stage 2  backward U g (P - 1) / P; a step U w (P - 1) / P
//   stage 1  a step (U w + U g) (P - 1) / P
// The unit outside blocks is as at stage 2 where the stage is 3. Frozen parameters are a vector of their own,
// padded by itself, gathered as the others; it has no g. A pass without gradient: U w (P - 1) / P at every
// stage, and the next pass gathers anew what is kept for a step. Where R ranks hold the same shard (ddp,
// context or tensor parallelism), a step ends with a sum of U / P numbers of p bytes, as parameters have,
// over them: 2 U p / P (R - 1) / R.
//
// The leaves are this link's: gradients are complete after reduce(), and undefined until then.
#pragma once
#include <map>
#include <memory>

#include "plugins/parallel/fsdp/gradient.hpp"
#include "plugins/parallel/fsdp/whole.hpp"

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
    Both<Started<at::Tensor>> coming;   // gathers under way
    std::shared_ptr<Both<Whole>> kept;  // of a unit that is kept for the step
    int64_t step = -1;                  // that `kept` is of
    Tensors values;                     // trained, then frozen ones, while they may be asked for
    bool with_graph = false;            // the values of a pass, of the unit outside blocks
    FlatGradient gradient;
    bool prefetched() const { return coming.trained.pending() || coming.frozen.pending(); }
  };

  // Which parameter's value is where.
  struct Place {
    int64_t block;
    size_t index;
  };
  bool keeps(int64_t block) const { return options_.stage < 3 || block < 0; }
  at::ScalarType gathered_as(const Flat& flat) const;
  at::ScalarType reduced_as(const Flat& flat) const;
  void start_gather(int64_t block);
  // Ends the unit's gather, and starts those of the next blocks in the direction that they are needed in.
  Both<at::Tensor> gathered(int64_t block, int64_t direction);
  std::shared_ptr<Both<Whole>> whole(int64_t block, int64_t direction);
  Tensors values_of(const Unit& unit, const Both<Whole>& whole) const;
  // The node at a block's entry: its values with their graph are the unit's from here on; returns the block's
  // inputs.
  Tensors enter(int64_t block, const std::shared_ptr<Both<Whole>>& whole, const Tensors& in);
  // The node at its exit, which fills `whole` again.
  Tensors filled_again(int64_t block, const std::shared_ptr<Both<Whole>>& whole, const Tensors& out);
  void add_gradient(Unit& unit, const Tensors& of_values);
  void drop_gathers();

  Options options_;
  Group<at::Tensor> group_;
  // Ranks that hold the same numbers: of what tensor parallelism has cut, of the rest; in blocks, outside of
  // them.
  Group<at::Tensor> split_copies_, whole_copies_, split_copies_outside_, whole_copies_outside_;
  std::vector<Declared> declared_;
  std::map<int64_t, Unit> units_;  // by block
  std::map<kinora_param, Place> places_;
  std::vector<Piece> pieces_;
  Unit* scattering_ = nullptr;  // whose gradient is under way
  int64_t step_ = 0;            // a number that changes when the leaves may have
  bool no_grad_ = false;        // of the last pass
};

}  // namespace kinora::fsdp
