// Pipeline parallelism: a rank has the blocks of some stages, and a call of the model runs one stage of one
// microbatch.
//
// In a pass that has a backward, blocks of earlier stages are skipped; the stage's first block takes what the
// stage before has sent; after its last block the results are sent on, kept for the backward, and the call
// ends (KINORA_STOP). What is computed outside blocks (conditioning) is computed on every stage, and each has
// a part of its gradient; or, with `conditioning = send`, only the first stage's counts: its tensors travel
// with the flow, their gradients with the flow's. A pass without gradient runs all stages one after the
// other, and the last one's result is on every rank.
//
// `send` spares later stages the products of weights that are read outside blocks, and the graph behind them:
// what such a product makes has a gradient, so by the rule of partial sums it reaches the loss through blocks
// only, as one of their shared tensors, where the first stage's takes its place. NaN stands there until then,
// so a model that reads it another way (detached, say) has no loss that looks right. What a model computes of
// its inputs by itself is computed on every stage: sinusoids, rotations, sums, norms and activations, which
// are small, and whatever has no gradient (text as it is given, a frozen model's conditioning).
//
// No send is waited for before what it waits for can be under way: a forward's is over when its gradient is
// here, and a receive of a gradient is started with the send of the forward, so that a gradient's send never
// waits for a stage's turn.
//
// Bytes over each boundary of two stages, a microbatch, for flow tensors of F bytes in all: F forward, by the
// rank before it, and F back, by the rank after it. With `conditioning = send` F + C, where C are the shared
// tensors with a gradient that blocks of later stages read. A pass without gradient: F forward, and the
// head's result of H bytes from the last of P ranks to the others, (P - 1) H. Once a geometry 648 bytes that
// say its shapes, forward over each boundary and with the head's result. A step ends with the trainer's sum
// of the gradients of parameters outside blocks, G bytes, over the stages: 2 G (P - 1) / P a rank.
#pragma once
#include <map>
#include <string>
#include <unordered_map>

#include "plugins/parallel/pp/messages.hpp"
#include "plugins/parallel/pp/schedule.hpp"

namespace kinora::pp {

class PipelineLink final : public Link<at::Tensor> {
 public:
  struct How {
    bool sends_conditioning = false;
    bool by_cost = true;          // stages of equal cost; else of equal numbers of blocks
    std::vector<int64_t> blocks;  // of each stage; empty: balanced
  };
  PipelineLink(Group<at::Tensor> group, const Pipe& pipe, How how);

  kinora_param parameter(const kinora_param_spec& spec) override;
  void declared() override;
  void begin(const kinora_pass& pass) override;
  at::Tensor linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  Tensors block(const kinora_block& b, const Tensors& in) override;

  // A step begins: what an unfinished one left is dropped.
  void reset();
  // Of a microbatch whose forward was run: of its loss by `step`, or of what was kept.
  void backward(const Step& step, int64_t stage, int64_t micro);

 private:
  // A tensor of the stage before, whose gradient goes back there.
  struct Received {
    at::Tensor tensor;
    int64_t number;
    std::shared_ptr<bool> answered = std::make_shared<bool>(false);
  };
  // What the forward of a stage of a microbatch leaves for its backward.
  struct Kept {
    std::vector<Received> received;
    Tensors sent;
    std::vector<Messages::Transfer> sends, gradients;  // of `sent`
  };
  // A tensor from outside blocks: as computed here, and as the first stage has it.
  struct Shared {
    at::Tensor own, taken;
    bool sent = false;
  };
  // Of a parameter that is read outside blocks.
  struct Outside {
    int64_t rows;
    bool frozen;
  };
  int64_t stage_of(int64_t block) const;
  bool is_mine(int64_t stage) const { return stage % pipe_.ranks == pipe_.rank; }
  bool is_last(int64_t stage) const { return stage + 1 == pipe_.stages(); }
  int64_t end_of(int64_t stage) const;  // its last block
  Tensors run_stage(const kinora_block& b, const Tensors& in);
  Tensors run_all(const kinora_block& b, const Tensors& in);
  Tensors received_flow(int64_t stage);
  at::Tensor received(const at::Tensor& like, int64_t stage, int64_t number);
  void send_on(const at::Tensor& x, int64_t number);
  void answer(int64_t boundary, int64_t micro, int64_t number, const at::Tensor& gradient);
  // Whether take_shared() will take the place of what a product with these makes.
  bool is_sent(const at::Tensor& x, kinora_param w, kinora_param b) const;
  // in[n_flow..] from the first stage, where they have a gradient.
  void take_shared(const kinora_block& b, Tensors& in);

  Pipe pipe_;
  How how_;
  Messages messages_;
  std::map<kinora_param, Outside> outside_;
  std::vector<double> cost_;    // by block
  std::vector<int64_t> first_;  // block of each stage
  kinora_pass pass_{};
  Messages::Key key_;  // of the pass
  at::Device device_{at::kCPU};
  std::map<std::pair<int64_t, int64_t>, Kept> kept_;          // by stage and microbatch
  std::unordered_map<const at::TensorImpl*, Shared> shared_;  // of the pass, by this rank's own tensor
  int64_t n_sent_ = 0;                                        // of them
  std::vector<Messages::Transfer> answers_, sends_;
};

}  // namespace kinora::pp
