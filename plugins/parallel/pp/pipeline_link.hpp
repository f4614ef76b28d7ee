// Pipeline parallelism: a rank has the blocks of some stages, and one call of the model runs one stage of one
// microbatch.
//
// In a pass with a backward, blocks of earlier stages are skipped. The stage's first block receives the
// outputs of the previous stage; after its last block the results are sent to the next stage and kept for the
// backward, and the call ends (KINORA_SIGNAL_STOP). Results computed outside blocks (conditioning) are
// computed on every stage, and each stage has a part of their gradient. With `conditioning = send` only the
// first stage's are used: its tensors travel with the flow, their gradients with the flow's. A pass without
// gradient runs all stages in order, and the last one's result is on every rank.
//
// `send` saves later stages the products with weights outside blocks, and the graph behind them:
// the result of such a product has a gradient, so by the rule of partial sums it reaches the loss only
// through blocks, as one of their shared tensors, where the first stage's result replaces it. Until then it
// is NaN, so a model that uses it in another way (detached, for example) gets a visibly wrong loss. Functions
// of the model's inputs alone are computed on every stage: sinusoids, rotations, sums, norms and activations,
// which are small, and everything without gradient (text as given, a frozen model's conditioning).
//
// A send is awaited only when its receive must have been started: a forward's send is finished when its
// gradient arrives, and the receive of a gradient is started with the send of the forward, so that the send
// of a gradient never waits for a stage's turn.
//
// Bytes over each boundary of two stages per microbatch, for flow tensors of F bytes in total: F forward,
// from the rank before it, and F back, from the rank after it. With `conditioning = send` F + C, where C are
// the shared tensors with a gradient that blocks of later stages read. A pass without gradient: F forward,
// and the head's result of H bytes from the last of P ranks to the others, (P - 1) H. Once per geometry 648
// bytes that describe its shapes, forward over each boundary and with the head's result. A step ends with the
// trainer's sum of the gradients of parameters outside blocks, G bytes, over the stages: 2 G (P - 1) / P per
// rank.
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
    bool by_cost = true;          // stages of equal cost; otherwise of equal numbers of blocks
    std::vector<int64_t> blocks;  // of each stage; empty: balanced
  };
  PipelineLink(Group<at::Tensor> group, const Pipe& pipe, How how);

  kinora_param parameter(const kinora_param_spec& spec) override;
  void declared() override;
  void begin(const kinora_pass& pass) override;
  at::Tensor linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  Tensors block(const kinora_block& b, const Tensors& in) override;

  // Begins a step; drops the state of an unfinished one.
  void reset();
  // Backward of a microbatch whose forward was run: of its loss by `step`, or of the kept results.
  void backward(const Step& step, int64_t stage, int64_t micro);

 private:
  // A tensor from the previous stage, to which its gradient is sent.
  struct Received {
    at::Tensor tensor;
    int64_t number;
    std::shared_ptr<bool> answered = std::make_shared<bool>(false);
  };
  // State of a stage and microbatch between its forward and its backward.
  struct Kept {
    std::vector<Received> received;
    Tensors sent;
    std::vector<Messages::Transfer> sends, gradients;  // for `sent`
  };
  // A tensor from outside blocks: computed here, and as received from the first stage.
  struct Shared {
    at::Tensor own, taken;
    bool sent = false;
  };
  // For a parameter that is read outside blocks.
  struct Outside {
    int64_t rows;
    bool frozen;
  };
  int64_t stage_of(int64_t block) const;
  bool is_mine(int64_t stage) const { return stage % pipe_.ranks == pipe_.rank; }
  bool is_last(int64_t stage) const { return stage + 1 == pipe_.stages(); }
  int64_t end_of(int64_t stage) const;  // the stage's last block
  Tensors run_stage(const kinora_block& b, const Tensors& in);
  Tensors run_all(const kinora_block& b, const Tensors& in);
  Tensors received_flow(int64_t stage);
  at::Tensor received(const at::Tensor& like, int64_t stage, int64_t number);
  void send_on(const at::Tensor& x, int64_t number);
  void answer(int64_t boundary, int64_t micro, int64_t number, const at::Tensor& gradient);
  // Whether take_shared() will replace the result of a product with these.
  bool is_sent(const at::Tensor& x, kinora_param w, kinora_param b) const;
  // Replaces in[n_carry..] by the first stage's tensors, if they have a gradient.
  void take_shared(const kinora_block& b, Tensors& in);

  Pipe pipe_;
  How how_;
  Messages messages_;
  std::map<kinora_param, Outside> outside_;
  std::vector<double> cost_;    // of each block
  std::vector<int64_t> first_;  // first block of each stage
  kinora_pass pass_{};
  Messages::Key key_;  // for the pass
  at::Device device_{at::kCPU};
  std::map<std::pair<int64_t, int64_t>, Kept> kept_;          // by stage and microbatch
  std::unordered_map<const at::TensorImpl*, Shared> shared_;  // for the pass, by this rank's own tensor
  int64_t n_sent_ = 0;                                        // number of shared tensors sent
  std::vector<Messages::Transfer> answers_, sends_;
};

}  // namespace kinora::pp
