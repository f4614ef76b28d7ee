// The graphs of attention that cuDNN 9 runs, by its front end (NVIDIA, cudnn-frontend,
// docs/operations/Attention.md): softmax(scale q k^T) v in FP8 and its backward, in FP8 or bfloat16.
#pragma once
#include <cstdint>
#include <cudnn_frontend.h>
#include <memory>

#include "kinora/abi/cuda.h"

namespace kinora::core {

enum class AttentionPass { forward, backward, bf16_backward };

// G rows of a batch, `heads` heads next to each other of the H in memory: [G, S or L, H, d].
struct AttentionSizes {
  int64_t G, heads, H, S, L, d;
  auto operator<=>(const AttentionSizes&) const = default;
};

// Names of a graph's tensors for cuDNN; kNumbers + KINORA_FP8_* are scales.
enum AttentionTensor : int64_t { kQ = 1, kK, kV, kOut, kSums, kGrad, kGradQ, kGradK, kGradV, kNumbers };

class AttentionGraph {
  using Type = cudnn_frontend::DataType_t;
  using Attributes = cudnn_frontend::graph::Tensor_attributes;
  using Node = std::shared_ptr<Attributes>;
  static constexpr Type e4m3 = Type::FP8_E4M3, e5m2 = Type::FP8_E5M2, bf16 = Type::BFLOAT16,
                        fp32 = Type::FLOAT;

 public:
  using Graph = cudnn_frontend::graph::Graph;
  // rounds_out: the forward's result in E4M3, as Hopper has it.
  static std::shared_ptr<Graph> of(AttentionPass pass, const AttentionSizes& n, float scale,
                                   bool rounds_out) {
    const AttentionGraph made(n, pass == AttentionPass::bf16_backward ? bf16 : e4m3);
    switch (pass) {
      case AttentionPass::forward:
        made.forward(scale, rounds_out ? e4m3 : bf16);
        break;
      case AttentionPass::backward:
        made.backward(scale);
        break;
      case AttentionPass::bf16_backward:
        made.bf16_backward(scale);
    }
    return made.graph_;
  }

 private:
  AttentionGraph(const AttentionSizes& n, Type io) : n_(n), graph_(std::make_shared<Graph>()) {
    graph_->set_io_data_type(io).set_intermediate_data_type(fp32).set_compute_data_type(fp32);
    q_ = in(heads(kQ, n.S, io)), k_ = in(heads(kK, n.L, io)), v_ = in(heads(kV, n.L, io));
  }

  void forward(float scale, Type type) const {
    const auto made = graph_->sdpa_fp8(
        q_, k_, v_, number(KINORA_FP8_Q), number(KINORA_FP8_K), number(KINORA_FP8_V), number(KINORA_FP8_P),
        number(KINORA_FP8_TO_P), number(KINORA_FP8_TO_OUT),
        cudnn_frontend::graph::SDPA_fp8_attributes().set_generate_stats(true).set_attn_scale(scale));
    out(made[0], heads(kOut, n_.S, type));
    out(made[1], sums());
    for (uint32_t i = 0; i < 2; ++i) out(made[2 + i], one_number(KINORA_FP8_AMAX + i));
  }
  void backward(float scale) const {
    const Node one = number(KINORA_FP8_ONE);
    const auto made = graph_->sdpa_fp8_backward(
        q_, k_, v_, in(heads(kOut, n_.S, bf16)), in(heads(kGrad, n_.S, e5m2)), in(sums()),
        number(KINORA_FP8_Q), number(KINORA_FP8_K), number(KINORA_FP8_V), /*descale_o=*/one,
        number(KINORA_FP8_GRAD), number(KINORA_FP8_P), number(KINORA_FP8_S), number(KINORA_FP8_TO_P),
        /*scale_dq=*/one, /*scale_dk=*/one, /*scale_dv=*/one, number(KINORA_FP8_TO_S),
        cudnn_frontend::graph::SDPA_fp8_backward_attributes().set_attn_scale(scale));
    gradients(made[0], made[1], made[2]);
    for (uint32_t i = 0; i < 4; ++i) out(made[3 + i], one_number(KINORA_FP8_AMAX + i));
  }
  void bf16_backward(float scale) const {
    const auto made = graph_->sdpa_backward(
        q_, k_, v_, in(heads(kOut, n_.S, bf16)), in(heads(kGrad, n_.S, bf16)), in(sums()),
        cudnn_frontend::graph::SDPA_backward_attributes().set_attn_scale(scale));
    gradients(made[0], made[1], made[2]);
  }

  static Attributes described(int64_t name, Type type, const std::vector<int64_t>& sizes,
                              const std::vector<int64_t>& strides) {
    return Attributes().set_uid(name).set_data_type(type).set_dim(sizes).set_stride(strides);
  }
  Attributes heads(int64_t name, int64_t rows, Type type) const {
    return described(name, type, {n_.G, n_.heads, rows, n_.d}, {rows * n_.H * n_.d, n_.d, n_.H * n_.d, 1});
  }
  Attributes sums() const {
    return described(kSums, fp32, {n_.G, n_.heads, n_.S, 1}, {n_.heads * n_.S, n_.S, 1, 1});
  }
  static Attributes one_number(uint32_t which) {
    return described(kNumbers + which, fp32, {1, 1, 1, 1}, {1, 1, 1, 1});
  }
  Node in(const Attributes& what) const { return graph_->tensor(what); }
  Node number(uint32_t which) const { return in(one_number(which)); }
  static void out(const Node& made, const Attributes& what) {
    made->set_uid(what.get_uid()).set_data_type(what.get_data_type());
    made->set_dim(what.get_dim()).set_stride(what.get_stride()).set_output(true);
  }
  void gradients(const Node& q, const Node& k, const Node& v) const {
    out(q, heads(kGradQ, n_.S, bf16));
    out(k, heads(kGradK, n_.L, bf16));
    out(v, heads(kGradV, n_.L, bf16));
  }

  AttentionSizes n_;
  std::shared_ptr<Graph> graph_;
  Node q_, k_, v_;
};

}  // namespace kinora::core
