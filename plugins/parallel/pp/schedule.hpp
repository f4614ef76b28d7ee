// The order in which a rank of a pipeline runs forwards and backwards, and which blocks its stages have.
//
// P ranks, V stages per rank, m microbatches. Stage s is on rank s % P, so P V stages follow each other
// around the ranks. Idle time of a rank divided by its working time, for equal stages: (P - 1) / (V m).
// Microbatches whose graphs rank r holds at once:
//   gpipe        m (Huang et al. 2019, arXiv 1811.06965)
//   1f1b         min(m, P - r) (Narayanan et al. 2019, PipeDream, arXiv 1806.03377)
//   interleaved  min(V m, 2 (P - r - 1) + (V - 1) P + 1), of stages of 1 / V of the blocks; m is a multiple
//                of P (Narayanan et al. 2021, arXiv 2104.04473, section 2.2)
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace kinora::pp {

struct Action {
  bool forward;
  int64_t stage, micro;
  bool operator==(const Action&) const = default;
};

struct Pipe {
  int64_t ranks = 1, rank = 0, per_rank = 1;
  int64_t stages() const { return ranks * per_rank; }
};

// Every forward and backward of the rank's stages, once. Throws kinora::Error(KINORA_ERROR_INVALID) for a
// number of microbatches that the schedule does not allow.
std::vector<Action> schedule(const std::string& name, const Pipe& pipe, int64_t n_microbatches);

// First blocks of the given number of stages, each of at least one block, in order, such that the cost of the
// costliest stage is minimal. Empty: there are fewer blocks than stages.
std::vector<int64_t> balanced(const std::vector<double>& cost_of_block, int64_t stages);

}  // namespace kinora::pp
