// Speed of a training run, and the share of the machine's peak that it reaches.
//
//   samples_per_second  = batch / seconds of the step
//   tokens_per_second   = tokens of the step over all ranks / seconds
//   flops_per_second    = flops_per_sample * samples_per_second, over all ranks
//   mfu                 = flops_per_second / (peak_flops * ranks)      (Chowdhery et al. 2022, appendix B)
//
// flops_per_sample are the model's own, forward and backward of one sample; recomputation to save memory is
// not counted. Counted on the meta device for the first training sample (meter_link.hpp):
//
//   3 * (2 rows in out of each linear layer + 4 S L D of each attention + convolutions)
//
// with S queries, L keys and D channels of all heads, masked pairs included. Training an adapter computes no
// gradients of the frozen matrices: 2 instead of 3 for linear layers and convolutions.
#pragma once
#include <cstdint>
#include <list>

#include <nlohmann/json.hpp>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

struct Throughput {
  double flops_per_sample = 0;  // 0: unknown, and not logged
  double peak_flops = 0;        // per rank; 0: unknown
  // Other programs may have slowed the measurement: a faster step is then the peak, so that no mfu is above 1.
  bool is_measured = false;
  int64_t ranks = 1;
  // Adds the figures of a step to its log line.
  void add(nlohmann::json& line, double seconds, double samples, double tokens);
};

// Floating-point operations per second of this process' threads, or of the device: the best of a few matrix
// products in the dtype that the job multiplies in. On the CPU bfloat16 means float32, because precision/bf16
// multiplies in float32 there.
double measured_peak_flops(at::Device device = at::kCPU, at::ScalarType dtype = at::kFloat);

// Counts the tokens of a model's forwards that are followed by a backward.
class TokenMeter final : public Link<at::Tensor> {
 public:
  struct Count {
    int64_t all = 0;              // tokens of the samples, on any rank
    int64_t own = 0, learnt = 0;  // on this rank, and those of them that carry a loss
  };
  // two_streams: teacher forcing, where the noisy tokens carry the loss.
  explicit TokenMeter(bool two_streams = false) : Link(KINORA_LEVEL_METER), two_streams_(two_streams) {
    skip_inherited<TokenMeter>();
  }
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  // Counts since the last call.
  Count take() { return std::exchange(count_, {}); }

 private:
  // Counts of one row of the batch.
  const Count& count_of(const at::Tensor& table);
  struct CountedTable {
    at::Tensor table;
    Count count;
  };
  bool two_streams_;
  Count count_;
  std::list<CountedTable> counted_;  // latest first
};

}  // namespace kinora::core
