// How fast a training is, and how much of the machine it uses.
//
//   samples_per_second  = batch / seconds of the step
//   tokens_per_second   = tokens of the step over all ranks / seconds
//   flops_per_second    = flops_per_sample * samples_per_second, over all ranks
//   mfu                 = flops_per_second / (peak_flops * ranks)      (Chowdhery et al. 2022, appendix B)
//
// flops_per_sample are the model's own, forward and backward of one sample: what is computed twice to save
// memory does not count. Counted on the meta device for the first training sample (meter_link.hpp):
//
//   3 * (2 rows in out of each linear layer + 4 S L D of each attention + convolutions)
//
// with S queries, L keys and D channels of all heads; the masked ones too. A training of an adapter has no
// gradients of its frozen matrices: 2 instead of 3 for linear layers and convolutions.
#pragma once
#include <cstdint>
#include <list>

#include <nlohmann/json.hpp>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

struct Throughput {
  double flops_per_sample = 0;  // 0: unknown, and not logged
  double peak_flops = 0;        // of one rank; 0: unknown
  int64_t ranks = 1;
  // Adds the figures of a step to its line.
  void add(nlohmann::json& line, double seconds, double samples, double tokens) const;
};

// Floating-point operations a second of this process' threads, or of the device: the best of a few products
// of matrices of the dtype that the job multiplies in. On the CPU bfloat16 stands for float32 there:
// precision/bf16 multiplies so.
double measured_peak_flops(at::Device device = at::kCPU, at::ScalarType dtype = at::kFloat);

// Counts the tokens that a model's forwards make of their samples, where a backward follows.
class TokenMeter final : public Link<at::Tensor> {
 public:
  struct Count {
    int64_t all = 0;              // of the samples, on whichever ranks
    int64_t own = 0, learnt = 0;  // on this rank, and of those the ones that carry a loss
  };
  // two_streams: teacher forcing, of which the noisy tokens are learnt.
  explicit TokenMeter(bool two_streams = false) : Link(KINORA_LEVEL_METER), two_streams_(two_streams) {
    skip_inherited<TokenMeter>();
  }
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  // Since it was asked last.
  Count take() { return std::exchange(count_, {}); }

 private:
  // Of a batch's row.
  const Count& count_of(const at::Tensor& table);
  struct Known {
    at::Tensor table;
    Count count;
  };
  bool two_streams_;
  Count count_;
  std::list<Known> known_;  // latest first
};

}  // namespace kinora::core
